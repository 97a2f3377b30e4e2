internal import CLinux
public import Dispatch
internal import Synchronization

/// A serial queue with one epoll descriptor, which **one** DispatchSource watches.
///
/// ```
///                  ┌───────────────────── visit (on `queue`) ──────────────────────┐
///                  │  a turn:                                                      │
/// DispatchSource ► │ 1 work handed over by `execute`                               │ ◄ doorbell, while it waits
/// queue.async ───► │ 2 a batch of events: reads, room to write, accepts, timers    │
///                  │ 3 settle: one writev per dirty connection, then `ended` calls │ again, until a short wait
///                  └───────────────────────────────────────────────────────────────┘ in 2 brings nothing
/// ```
///
/// Whatever the source of the work, a connection is written to once per turn ("corked"). A source per connection would
/// cost libdispatch one re-arming `epoll_ctl` and one thread hand-over per event; here it is one per visit, and a visit
/// lasts as long as the loop is busy (``NetSettings/stayAwakeMs``).
public final class EventLoop: @unchecked Sendable {
    // because everything mutable is used on `queue` only, except the inbox and the published counters (each a Mutex).

    enum Phase {
        /// Connections come and go.
        case running
        /// Shutting down: everything is being closed, nothing new is taken in.
        case closing
        /// The descriptors are gone. Handed-over work still runs; its sends go nowhere.
        case closed
    }

    public let index: Int
    /// The loop's serial queue. Use ``execute(_:)`` rather than `queue.async`: it is batched.
    public let queue: DispatchQueue
    public let settings: NetSettings

    static let vectorCapacity = 1024
    /// After this many turns a visit ends, so that work which came by `queue.async` has its chance.
    private static let turnsPerVisit = 1000
    /// Above this, frames of a round are sent before more work is taken on.
    private static let settleAboveBytes = 8 << 20

    let poller: EpollPoller
    private let source: any DispatchSourceRead
    private let onQueue = DispatchSpecificKey<Bool>()
    private let inbox = Mutex(Inbox())
    private let published = Mutex(LoopCounters())

    var phase = Phase.running
    var whenClosed: [@Sendable () -> Void] = []
    var counting = LoopCounters()
    var slots = SlotTable()
    var frames = TurnFrames()
    /// Counts the emptyings of `frames`, so that an outdated `StagedFrame` is recognised.
    var filling: UInt32 = 0
    let readBuffer: UnsafeMutableRawPointer
    let vectors: UnsafeMutablePointer<iovec>
    var timers = TimerQueue()
    let timerDescriptor: Int32
    /// Nil once closed.
    private let doorbell: Mutex<Int32?>
    private var timerArmedNs: UInt64?

    /// When the loop's present wakefulness is looked at again; nil while it is not waiting.
    private var restNs: UInt64?
    /// Nothing has happened since `restNs` was set.
    private var isQuiet = true
    /// `restNs` has passed quietly.
    private var mayLeave = false

    private var inTurn = false
    private var taken: [@Sendable () -> Void] = []
    /// Connections to flush. Unretained: a connection stays in `slots` or in `gone` until the list is empty.
    private var dirty: [Unmanaged<Connection>] = []
    private var gone: [Connection] = []
    private var endings: [(connection: Connection, reason: CloseReason)] = []

    private struct Inbox {
        var work: [@Sendable () -> Void] = []
        var attention = Attention.asleep
    }

    /// What it takes to make the loop look into its inbox.
    private enum Attention {
        /// In Dispatch's hands: a `queue.async`.
        case asleep
        /// At work, or asked to begin: nothing, it will look.
        case awake
        /// Waiting for events: its doorbell.
        case waiting
    }

    init(index: Int, settings: NetSettings) throws(NetError) {
        let poller = try EpollPoller()
        let timer = vigla_timerfd_create()
        let doorbell = vigla_eventfd_create()
        do throws(NetError) {
            guard timer >= 0 else { throw NetError.system(call: "timerfd_create", errno: -timer) }
            guard doorbell >= 0 else { throw NetError.system(call: "eventfd", errno: -doorbell) }
            try poller.add(timer, tag: SlotTable.timerTag, for: .read)
            try poller.add(doorbell, tag: SlotTable.doorbellTag, for: .read)
        } catch {
            for fd in [timer, doorbell] where fd >= 0 { _ = vigla_close(fd) }
            poller.close()
            throw error
        }
        self.index = index
        self.settings = settings
        self.poller = poller
        timerDescriptor = timer
        self.doorbell = Mutex(doorbell)
        queue = DispatchQueue(label: "vigla.net.\(index)", qos: .userInitiated)
        source = DispatchSource.makeReadSource(fileDescriptor: poller.descriptor, queue: queue)
        readBuffer = .allocate(byteCount: settings.readBufferBytes, alignment: 16)
        vectors = .allocate(capacity: Self.vectorCapacity)
        vectors.initialize(repeating: iovec(), count: Self.vectorCapacity)
        queue.setSpecific(key: onQueue, value: true)
        source.setEventHandler { self.visit() }  // held by the source until `shutdown` cancels it
        source.setCancelHandler {
            _ = vigla_close(timer)
            poller.close()
        }
        source.resume()
    }

    deinit {
        readBuffer.deallocate()
        vectors.deallocate()
    }

    // MARK: handing over work

    /// Runs work on the loop, in the order of the calls of each thread. Callable from any thread; never runs inside the
    /// call. Work handed over before the loop wakes costs one hop together; to a busy loop it costs none.
    public func execute(_ work: @escaping @Sendable () -> Void) {
        let attention = inbox.withLock { inbox in
            inbox.work.append(work)
            defer { inbox.attention = .awake }
            return inbox.attention
        }
        switch attention {
        case .awake: break
        case .asleep: queue.async { self.visit() }
        case .waiting: doorbell.withLock { if let doorbell = $0 { _ = vigla_eventfd_signal(doorbell) } }
        }
    }

    /// Work handed over and not begun: the depth of the hop. From any thread.
    public var inboxDepth: Int { inbox.withLock { $0.work.count } }

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

    // MARK: a turn

    /// As many turns as there is work for. Begun by the source or by `execute`.
    private func visit() {
        assertOnLoop()
        inTurn = true
        inbox.withLock { $0.attention = .awake }
        var mayWait = false
        for _ in 0..<Self.turnsPerVisit {
            let worked = runInbox()
            let events = phase == .closed ? 0 : runEvents(waiting: mayWait && !worked)
            settle()
            counting.turns += 1
            if phase == .closing, slots.occupied == 0 { finishClosing() }
            published.withLock { $0 = counting }
            if worked || events > 0 {
                isQuiet = false
            } else if mayLeave || settings.stayAwakeMs <= 0 || phase == .closed {
                break
            }
            mayWait = settings.stayAwakeMs > 0
        }
        mayLeave = false
        inTurn = false
        let mustReturn = inbox.withLock { inbox in
            inbox.attention = inbox.work.isEmpty ? .asleep : .awake
            return inbox.attention == .awake
        }
        if mustReturn { queue.async { self.visit() } }
    }

    /// Waits only while the inbox is empty, and with the doorbell live.
    ///
    /// The wait has no time limit of its own: a limit would set and cancel a kernel timer for every wait, which on a
    /// virtual machine costs as much as the wake-up that is saved. The loop's timer ends it, armed once per
    /// `stayAwakeMs` however many waits there are.
    private func collect(waiting: Bool) -> Int {
        guard waiting else { return poller.collect(withinMs: 0) }
        let mayWait = inbox.withLock { inbox in
            guard inbox.work.isEmpty else { return false }
            inbox.attention = .waiting
            return true
        }
        guard mayWait else { return poller.collect(withinMs: 0) }
        if restNs == nil {
            restNs = vigla_monotonic_ns() + UInt64(settings.stayAwakeMs) * 1_000_000
            isQuiet = true
            armTimer()
        }
        let count = poller.collect(withinMs: -1)
        inbox.withLock { $0.attention = .awake }
        return count
    }

    private func runInbox() -> Bool {
        inbox.withLock { swap(&$0.work, &taken) }
        guard !taken.isEmpty else { return false }
        var batch: [@Sendable () -> Void] = []
        swap(&batch, &taken)
        for work in batch {
            work()
            settleIfLarge()
        }
        batch.removeAll(keepingCapacity: batch.count <= 1024)
        swap(&batch, &taken)
        return true
    }

    /// The number of events that were anybody's business.
    private func runEvents(waiting: Bool) -> Int {
        let count = collect(waiting: waiting)
        var idle = 0
        for i in 0..<count {
            let event = poller.event(i)
            switch slots[event.tag] {
            case .connection(let connection): connection.ready(event.readiness)
            case .listener(let listener): listener.acceptBatch()
            case .connector(let connector): connector.ready()
            case nil: if !runOwnEvent(event.tag) { idle += 1 }
            }
            settleIfLarge()
        }
        return count - idle
    }

    /// Whether it had an effect.
    private func runOwnEvent(_ tag: UInt64) -> Bool {
        switch tag {
        case SlotTable.timerTag: return fireTimers()
        case SlotTable.doorbellTag: doorbell.withLock { if let doorbell = $0 { _ = vigla_eventfd_clear(doorbell) } }
        default: counting.staleEvents += 1
        }
        return true
    }

    private func settleIfLarge() {
        if frames.bytes > Self.settleAboveBytes { settle() }
    }

    /// Flushes every dirty connection once, then tells handlers about ends; what they do meanwhile is settled too.
    private func settle() {
        while !dirty.isEmpty || !endings.isEmpty {
            var i = 0
            while i < dirty.count {
                dirty[i]._withUnsafeGuaranteedRef { $0.flush() }
                i += 1
            }
            dirty.removeAll(keepingCapacity: true)
            deliverEndings()
        }
        if !gone.isEmpty { gone.removeAll() }
        if frames.bytes > 0 {
            frames.reset()
            filling &+= 1
        }
    }

    private func deliverEndings() {
        guard !endings.isEmpty else { return }
        var batch: [(connection: Connection, reason: CloseReason)] = []
        swap(&batch, &endings)
        for ending in batch {
            let handler = ending.connection.handler
            ending.connection.handler = nil
            handler?.ended(ending.reason)
        }
    }

    // MARK: what connections report

    func willFlush(_ connection: Connection) {
        dirty.append(Unmanaged.passUnretained(connection))
        if !inTurn { wakeToSettle() }
    }

    func willEnd(_ connection: Connection, _ reason: CloseReason) {
        counting.endsByCode[reason.code] += 1
        endings.append((connection, reason))
        if !inTurn { wakeToSettle() }
    }

    func didClose(_ connection: Connection) {
        counting.closed += 1
        gone.append(connection)
        slots.free(connection.tag)
        if !inTurn { wakeToSettle() }
    }

    /// For work that came by `queue.async` instead of `execute`.
    private func wakeToSettle() {
        assertOnLoop()
        execute {}
    }

    // MARK: timers

    /// Runs work on the loop after a delay, and then again at every interval if there is one; an interval that was
    /// missed because the loop was busy is not made up for. Callable from any thread. Resolution 1 ms.
    @discardableResult
    public func schedule(
        afterMs: Int, everyMs: Int?, _ work: @escaping @Sendable () -> Void
    ) -> LoopTimer {
        let timer = LoopTimer(everyNs: everyMs.map { UInt64(max(1, $0)) * 1_000_000 }, work: work)
        let deadlineNs = vigla_monotonic_ns() + UInt64(max(0, afterMs)) * 1_000_000
        if isOnLoop { insert(timer, deadlineNs) } else { execute { self.insert(timer, deadlineNs) } }
        return timer
    }

    private func insert(_ timer: LoopTimer, _ deadlineNs: UInt64) {
        guard phase != .closed else { return }
        timers.insert(timer, deadlineNs: deadlineNs)
        armTimer()
    }

    private func armTimer() {
        let earliest = min(timers.earliestNs ?? .max, restNs ?? .max)
        guard earliest < timerArmedNs ?? .max else { return }
        timerArmedNs = earliest
        _ = vigla_timerfd_arm(timerDescriptor, max(1, earliest))
    }

    /// Whether a timer was due, rather than the loop's own rest.
    private func fireTimers() -> Bool {
        _ = vigla_timerfd_clear(timerDescriptor)
        timerArmedNs = nil
        let now = vigla_monotonic_ns()
        if let rest = restNs, rest <= now {
            restNs = nil
            mayLeave = isQuiet
        }
        var fired = false
        while let (timer, deadlineNs) = timers.takeDue(nowNs: now) {
            fired = true
            timer.fire()
            if let every = timer.everyNs, !timer.isCancelled {
                timers.insert(timer, deadlineNs: max(deadlineNs + every, now + 1))
            }
            settleIfLarge()
        }
        armTimer()
        return fired
    }

    // MARK: shutting down

    /// Part of ``EventLoopGroup/shutdown(graceMs:_:)``.
    func shutdown(graceMs: Int, _ done: @escaping @Sendable () -> Void) {
        assertOnLoop()
        guard phase != .closed else { return done() }
        whenClosed.append(done)
        guard phase == .running else { return }
        phase = .closing
        for occupant in slots.occupants {
            switch occupant {
            case .connection(let connection): connection.close(.serverShutdown)
            case .listener(let listener): listener.leave()
            case .connector(let connector): connector.cancel()
            }
        }
        schedule(afterMs: graceMs, everyMs: nil) {
            for case .connection(let connection) in self.slots.occupants { connection.destroy(reset: true) }
        }
    }

    private func finishClosing() {
        phase = .closed
        timers.removeAll()
        doorbell.withLock { doorbell in
            if let open = doorbell { _ = vigla_close(open) }
            doorbell = nil
        }
        source.cancel()
        for done in whenClosed { queue.async(execute: done) }
        whenClosed = []
    }
}
