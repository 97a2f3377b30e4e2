internal import CLinux
internal import Glibc

/// One TCP connection, confined to its loop: every member except the addresses is used on `loop.queue` only.
///
/// ```
/// send ─► segments in the loop's TurnFrames ─► one writev at the end of the turn ─► kernel
///                                                   │ what the kernel did not accept
///                                                   └─► Backlog ─► sent when the kernel has room again
/// ```
///
/// The shortest life: `open` → `close(_:)` → `draining` → `lingering` → `closed`. See ``State``.
public final class Connection: @unchecked Sendable {
    // because all mutable state is used on the loop's serial queue only, which every entry checks in debug builds.

    enum State: UInt8 {
        /// Bytes go both ways to and from the handler.
        case open
        /// The handler has been released; queued output is still being sent, input is discarded.
        case draining
        /// The last byte and our FIN are sent; waiting, for a bounded time, for the peer's FIN.
        case lingering
        /// The descriptor is gone.
        case closed
    }

    public let loop: EventLoop
    public let remoteAddress: SocketAddress
    /// Whether the peer sent much in the last read (``NetSettings/highVolumeReadBytes``). Declared here because it fits into padding.
    var isHighVolume = false
    /// See ``NetSettings/outboundHardBytes``; may be raised for a peer with a large response.
    public var outboundHardBytes: Int

    // Small fields next to each other: padding would cost every idle connection memory.
    let fd: Int32
    var state = State.open
    var interest: Interest = .read
    /// The peer's FIN has been read.
    var peerFinished = false
    /// Whether the connection is on the loop's list to flush.
    var isDirty = false
    let tag: UInt64
    var handler: (any ConnectionHandler)?
    /// This turn's frames: the first one here, so that the usual case allocates nothing.
    var first = Segment.none
    var more: [Segment] = []
    /// The bytes in `first` and `more`.
    var pendingBytes = 0
    var backlog: Backlog?
    /// Encrypts between frames and kernel; nil without TLS.
    var tls: TLSChannel?
    /// Exists while the peer is congested.
    var congestion: Congestion?
    /// The admission that counts this connection until its descriptor is closed.
    var admission: Admission?
    /// An additional counter, next to the loop's, of bytes that the kernel has accepted for the peer.
    public var sentBytes: ByteCounter?
    /// The timeout of draining, then of lingering.
    var closingTimer: LoopTimer?

    init(loop: EventLoop, fd: Int32, tag: UInt64, remoteAddress: SocketAddress) {
        self.loop = loop
        self.fd = fd
        self.tag = tag
        self.remoteAddress = remoteAddress
        outboundHardBytes = loop.settings.outboundHardBytes
    }

    /// Nil once the connection is closed.
    public var localAddress: SocketAddress? {
        var storage = sockaddr_storage()
        guard state != .closed, vigla_local_address(fd, &storage) == 0 else { return nil }
        return SocketAddress(&storage)
    }

    /// Whether `send` still has an effect.
    public var isOpen: Bool { state == .open }

    /// Bytes accepted by `send` that the kernel has not accepted yet.
    public var bufferedBytes: Int { pendingBytes + backlogBytes }

    /// The part of them that did not fit into the kernel's buffer at the last flush.
    public var backlogBytes: Int { (backlog?.bytes ?? 0) + (tls?.unsentBytes ?? 0) }

    /// Whether this turn has queued as many bytes for it as one turn should (``NetSettings/turnBytes``).
    public var isTurnFull: Bool { pendingBytes > loop.settings.turnBytes }

    /// Passes the connection on to another handler, as when its protocol changes: the new handler gets all further calls. Called by the
    /// old handler, which the loop releases after that call.
    public func pass(to next: any ConnectionHandler) {
        loop.debugAssertOnLoop()
        handler = next
    }

    /// Queues bytes. Everything queued for a connection in one turn of its loop leaves in one system call at the end
    /// of the turn. No effect once the connection has been closed from either side.
    /// - Complexity: one copy of the bytes.
    public func send(_ bytes: [UInt8]) {
        bytes.withUnsafeBytes { send($0) }
    }

    /// Queues a copy of bytes that need not live longer than the call.
    public func send(_ bytes: UnsafeRawBufferPointer) {
        guard state == .open, !bytes.isEmpty else { return }
        loop.debugAssertOnLoop()
        enqueue(loop.frames.store(bytes))
    }

    /// Queues a frame that the loop already holds (``EventLoop/stage(_:)``), without copying it.
    public func send(_ frame: StagedFrame) {
        loop.checkValid(frame)
        enqueue(frame.segment)
    }

    /// Closes in good order: the handler's `ended` is called later in this turn, queued output is still sent
    /// (for at most ``NetSettings/drainTimeoutMs``), then the connection is shut.
    public func close(_ reason: CloseReason) {
        guard state == .open else { return }
        loop.assertOnLoop()
        state = .draining
        loop.willEnd(self, reason)
        markDirty()
    }

    /// Ends the connection immediately with a reset; output queued here and in the kernel is discarded.
    public func abort(_ reason: CloseReason) {
        guard state != .closed else { return }
        loop.assertOnLoop()
        fail(reason)
    }

    /// While false nothing more is read: the peer is held back by TCP's own window. A connection whose input is
    /// paused does not notice the peer's FIN.
    public var isReading: Bool {
        get { interest.contains(.read) }
        set {
            guard state == .open, !peerFinished else { return }
            loop.assertOnLoop()
            setInterest(.read, newValue)
        }
    }
}
