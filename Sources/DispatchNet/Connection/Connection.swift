internal import CLinux
internal import Glibc

/// One TCP connection, confined to its loop: every member except the addresses is used on `loop.queue` only.
///
/// ```
/// send ─► segments in the loop's TurnFrames ─► one writev at the end of the turn ─► kernel
///                                                   │ what the kernel did not take
///                                                   └─► Backlog ─► leaves as the peer makes room
/// ```
///
/// The shortest life: `open` → `close(_:)` → `draining` → `lingering` → `closed`. See ``State``.
public final class Connection: @unchecked Sendable {
    // because all mutable state is used on the loop's serial queue only, which every entry checks in debug builds.

    enum State: UInt8 {
        /// Bytes go both ways, and the handler is listening.
        case open
        /// The handler has been let go; what was queued is still leaving, input is thrown away.
        case draining
        /// The last byte and our FIN have left; waiting, for a bounded time, for the peer's FIN.
        case lingering
        /// The descriptor is gone.
        case closed
    }

    public let loop: EventLoop
    public let remoteAddress: SocketAddress
    /// See ``NetSettings/outboundHardBytes``; may be raised for a peer that is known to be owed a lot.
    public var outboundHardBytes: Int

    // Small fields side by side: an idle connection pays for each gap.
    let fd: Int32
    var state = State.open
    var interest: Interest = .read
    /// The peer's FIN has been read.
    var peerFinished = false
    /// On the loop's list of connections to flush.
    var isDirty = false
    let tag: UInt64
    var handler: (any ConnectionHandler)?
    /// This turn's frames: the first one here, so that the usual case allocates nothing.
    var first = Segment.none
    var more: [Segment] = []
    /// The bytes in `first` and `more`.
    var pendingBytes = 0
    var backlog: Backlog?
    /// Between the frames and the kernel, on a connection that speaks TLS.
    var tls: TLSChannel?
    /// Exists while the peer is far behind.
    var congestion: Congestion?
    /// Whom to tell when the descriptor is free again.
    var admission: Admission?
    /// Bounds draining, then lingering.
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

    /// Bytes accepted by `send` that the kernel has not taken yet.
    public var bufferedBytes: Int { pendingBytes + backlogBytes }

    /// The part of them that did not fit into the kernel's buffer at the last flush.
    public var backlogBytes: Int { (backlog?.bytes ?? 0) + (tls?.unsentBytes ?? 0) }

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

    /// Ends the session in good order: the handler hears `ended` later in this turn, what is queued still leaves
    /// (for at most ``NetSettings/drainTimeoutMs``), then the connection is shut.
    public func close(_ reason: CloseReason) {
        guard state == .open else { return }
        loop.assertOnLoop()
        state = .draining
        loop.willEnd(self, reason)
        markDirty()
    }

    /// Ends the connection at once with a reset; what is queued, here and in the kernel, is thrown away.
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
