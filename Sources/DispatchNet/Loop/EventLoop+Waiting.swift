internal import CLinux
internal import Dispatch
internal import Synchronization

/// Sleeping and wake-up of a loop.
///
/// ```
/// asleep ── source or queue.async ──► awake ── nothing to do ──► waiting ── event, doorbell ──► awake
///   ▲                                   │  └── several were served ──► pausing ── `Gathering` ──► awake
///   └── no event for `stayAwakeMs` ─────┘
/// ```
extension EventLoop {
    /// How to make the loop run its inbox.
    enum WakeState {
        /// The loop is idle in Dispatch: `queue.async`.
        case asleep
        /// The loop is running or scheduled: nothing to do.
        case awake
        /// The loop waits in the poller: ring the doorbell.
        case waiting
    }

    /// Work from other threads.
    struct Inbox {
        var work: [@Sendable () -> Void] = []
        var wakeState = WakeState.asleep
    }

    /// The period after which an idle loop returns to Dispatch.
    struct IdlePeriod {
        /// When the next check is due; nil while the loop is not waiting.
        var untilNs: UInt64?
        /// Nothing has happened since `untilNs` was set.
        var isQuiet = true
        /// `untilNs` has passed without an event.
        var isOver = false
    }

    /// Pauses that let several events accumulate, once after each batch that served several connections.
    struct Gathering {
        /// Connections served by the last batch that served any; 0 after the decision whether to pause.
        var served = 0
        /// µs of pauses that the visit has not counted yet.
        var pausedUs = 0

        /// The loop is about to wait.
        /// - Parameter asked: µs that the loop's user requests.
        /// - Returns: µs to pause for.
        mutating func nextPauseMicroseconds(requested: Int, _ settings: NetSettings) -> Int {
            defer { served = 0 }
            return max(served >= settings.gatherConnections ? settings.gatherUs : 0, served > 1 ? requested : 0)
        }
    }

    /// Runs work on the loop, in the order of the calls of each thread. Callable from any thread; never runs inside the
    /// call. All work submitted before the loop wakes costs one hop; on a busy loop it costs none.
    public func execute(_ work: @escaping @Sendable () -> Void) {
        let wakeState = inbox.withLock { inbox in
            inbox.work.append(work)
            defer { inbox.wakeState = .awake }
            return inbox.wakeState
        }
        switch wakeState {
        case .awake: break
        case .asleep: queue.async { self.visit() }
        case .waiting: poller.ring()
        }
    }

    /// Number of submitted blocks that have not begun. From any thread.
    public var inboxDepth: Int { inbox.withLock { $0.work.count } }

    /// Fetches a batch of events. Waits only while the inbox is empty, and with the doorbell live; the loop's timer ends the
    /// wait, armed once per `stayAwakeMs` however many waits there are.
    func collect(waiting: Bool) -> Int {
        guard waiting else { return poller.collect(waiting: false) }
        // A single active connection pays nothing for this.
        if gathering.served >= min(2, settings.gatherConnections), phase == .running, inbox.withLock({ $0.work.isEmpty }) {
            let us = gathering.nextPauseMicroseconds(requested: pauseUs?() ?? 0, settings)
            if us > 0 { return pause(us: us) }
        }
        let mayWait = inbox.withLock { inbox in
            guard inbox.work.isEmpty else { return false }
            inbox.wakeState = .waiting
            return true
        }
        guard mayWait else { return poller.collect(waiting: false) }
        if idlePeriod.untilNs == nil {
            idlePeriod.untilNs = vigla_monotonic_ns() + UInt64(settings.stayAwakeMs) * 1_000_000
            idlePeriod.isQuiet = true
            armTimer()
        }
        countBusy()
        let count = poller.collect(waiting: true)
        awakeSinceNs = vigla_monotonic_ns()
        inbox.withLock { $0.wakeState = .awake }
        return count
    }

    /// Pauses to let events accumulate, then fetches them.
    /// A doorbell that ends the pause once answers are ready cost more than it gained (18.5 µs instead of 15.7 for a durable write).
    private func pause(us: Int) -> Int {
        counting.gatherings += 1
        gathering.pausedUs = us
        countBusy()
        vigla_sleep_us(UInt32(clamping: us))
        awakeSinceNs = vigla_monotonic_ns()
        return poller.collect(waiting: false)
    }

    /// Adds the busy time up to now to the counters.
    func countBusy() {
        let now = vigla_monotonic_ns()
        counting.busyNs += now - awakeSinceNs
        awakeSinceNs = now
    }

    /// Returns to Dispatch, or continues if work has been submitted meanwhile.
    func leave() {
        idlePeriod.isOver = false
        let mustReturn = inbox.withLock { inbox in
            inbox.wakeState = inbox.work.isEmpty && !mustFinish && handshakes.isEmpty && postponed.isEmpty ? .asleep : .awake
            return inbox.wakeState == .awake
        }
        if mustReturn { queue.async { self.visit() } }
    }
}
