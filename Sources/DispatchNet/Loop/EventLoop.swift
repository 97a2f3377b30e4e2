internal import CLinux
internal import DequeModule
public import Dispatch
internal import Synchronization

/// A serial queue with one poller, which **one** DispatchSource watches.
///
/// ```
///                  ┌───────────────────── visit (on `queue`) ──────────────────────┐
///                  │  a turn:                                                      │
/// DispatchSource ► │ 1 work handed over by `execute`                               │ ◄ doorbell, while it waits
/// queue.async ───► │ 2 a batch of events: reads, writability, accepts, timers      │
///                  │   then, for a short time, connections that send a lot         │
///                  │   then few TLS handshakes: `HandshakeQueue`                    │
///                  │ 3 `beforeFlush`, if something in this turn requested it       │
///                  │ 4 settle: one writev per dirty connection, then `ended` calls │ repeated until a short wait
///                  └───────────────────────────────────────────────────────────────┘ in 2 brings nothing
/// ```
///
/// Whatever the source of the work, a connection is written to once per turn ("corked"). A source per connection would
/// cost libdispatch one re-arming system call and one thread hand-over per event; here it is one per visit, and a visit
/// lasts as long as the loop is busy (``NetSettings/stayAwakeMs``).
///
/// `EventLoop+Turn` is that loop, `+Waiting` its sleep and wake-up, `+Timers` its clock, `+Closing` its end.
public final class EventLoop: @unchecked Sendable {
    // because everything mutable is used on `queue` only, except the inbox and the published counters (each a Mutex), and atomic values.

    enum Phase {
        /// Connections are opened and closed.
        case running
        /// Shutting down: connections are being closed, no new ones are accepted.
        case closing
        /// The descriptors are closed. `execute` still runs work; its sends have no effect.
        case closed
    }

    public let index: Int
    /// The loop's serial queue. Use ``execute(_:)`` rather than `queue.async`: it is batched.
    public let queue: DispatchQueue
    public let settings: NetSettings

    let poller: PlatformPoller
    let source: any DispatchSourceRead
    private let onQueue = DispatchSpecificKey<Bool>()

    // Connections and timers.
    var phase = Phase.running
    var whenClosed: [@Sendable () -> Void] = []
    var slots = SlotTable()
    var timers = TimerQueue()
    var counting = LoopCounters()
    let published = Mutex(LoopCounters())
    /// Connections placed on this loop and not closed; counted before the loop itself handles them.
    let population = Atomic<Int>(0)
    /// Bytes that wait for slow peers of all loops of the group.
    let waitingBytes: ByteCounter

    // Memory that its connections share.
    static let vectorCapacity = 1024
    let readBuffer: UnsafeMutableRawPointer
    let vectors: UnsafeMutablePointer<iovec>
    var frames = TurnFrames()
    /// Number of resets of `frames`, so that an outdated `StagedFrame` is recognised.
    var filling: UInt32 = 0
    /// Buffers for TLS, created with the loop's first TLS connection.
    private(set) var tlsWire: TLSWire?

    // The turn.
    var inTurn = false
    /// Called at the end of a turn in which `finishLater` was called; see ``beforeFlush(_:)``.
    var finish: (() -> Void)?
    var mustFinish = false
    /// Called before the loop waits after serving several connections; see ``beforeWait(_:)``.
    var pauseUs: (() -> Int)?
    /// The connection that was ready last.
    var lastReady: UInt64?
    /// Whether this turn has read one connection and did nothing else, and it is the same one as before. Then no other client is expected
    /// to send a request in the next moment.
    public internal(set) var hasSingleActivePeer = false
    /// More than one connection is ready in this turn, so that each has a smaller read limit.
    var isShared = false
    /// This turn's events of connections that send a lot, and with which of them the next turn begins.
    var highVolume: [Int] = []
    var firstHighVolume = 0
    /// Work that such connections left for later turns, in order.
    var postponed = Deque<() -> Void>()
    /// Connections with a TLS handshake that are read at the end of this turn or of later ones.
    var handshakes: HandshakeQueue
    var taken: [@Sendable () -> Void] = []
    /// Connections to flush. Unretained: a connection stays in `slots` or in `gone` until the list is empty.
    var dirty: [Unmanaged<Connection>] = []
    var order = FlushOrder()
    var gone: [Connection] = []
    var endings: [(connection: Connection, reason: CloseReason)] = []

    // Waiting.
    let inbox = Mutex(Inbox())
    var idlePeriod = IdlePeriod()
    var gathering = Gathering()
    /// The time that the poller's timer is set to.
    var timerArmedNs: UInt64?
    /// Start of the busy time that is not counted yet, monotonic ns.
    var awakeSinceNs: UInt64 = 0

    init(index: Int, settings: NetSettings, waitingBytes: ByteCounter) throws(NetError) {
        let poller = try PlatformPoller()
        self.index = index
        self.settings = settings
        self.waitingBytes = waitingBytes
        self.poller = poller
        handshakes = HandshakeQueue(capacity: settings.handshakesWaiting)
        // No higher QoS: it sets a negative nice value, which the hub's user may not have, and libdispatch logs the refusal.
        queue = DispatchQueue(label: "vigla.net.\(index)")
        source = DispatchSource.makeReadSource(fileDescriptor: poller.descriptor, queue: queue)
        readBuffer = .allocate(byteCount: settings.readBufferBytes, alignment: 16)
        vectors = .allocate(capacity: Self.vectorCapacity)
        vectors.initialize(repeating: iovec(), count: Self.vectorCapacity)
        queue.setSpecific(key: onQueue, value: true)
        source.setEventHandler { self.visit() }  // held by the source until `shutdown` cancels it
        source.setCancelHandler { poller.close() }
        source.resume()
    }

    deinit {
        readBuffer.deallocate()
        vectors.deallocate()
    }

    /// Sets a closure that handles everything a turn has read together. It is called at the end of each turn in which ``finishLater()`` was
    /// called, before the output is flushed. On the loop.
    public func beforeFlush(_ body: @escaping () -> Void) {
        assertOnLoop()
        finish = body
    }

    /// Sets a closure that is called before the loop waits for events after a batch of several connections. It returns the µs to pause first; 0 means
    /// no longer than ``NetSettings/gatherUs``. During the pause nothing is read and submitted work waits. On the loop.
    public func beforeWait(_ body: @escaping () -> Int) {
        assertOnLoop()
        pauseUs = body
    }

    /// Counts a connection that is given to the loop, until it is closed or refused. From any thread.
    func placed() { population.wrappingAdd(1, ordering: .relaxed) }

    func sharedTLSWire() throws(NetError) -> TLSWire {
        if let tlsWire { return tlsWire }
        let wire = try TLSWire(readBufferBytes: settings.readBufferBytes)
        tlsWire = wire
        return wire
    }

    /// The counters as of the end of the last turn. From any thread.
    public var counters: LoopCounters { published.withLock { $0 } }

    public var isOnLoop: Bool { DispatchQueue.getSpecific(key: onQueue) == true }

    public func assertOnLoop() { dispatchPrecondition(condition: .onQueue(queue)) }

    @inline(__always)
    func debugAssertOnLoop() {
        #if DEBUG
        assertOnLoop()
        #endif
    }
}
