internal import CLinux
internal import Dispatch
internal import Synchronization

/// How a loop sleeps, and how others wake it.
///
/// ```
/// asleep ── source or queue.async ──► awake ── nothing to do ──► waiting ── event, doorbell ──► awake
///   ▲                                   │
///   └── a rest of `stayAwakeMs` went by quietly
/// ```
extension EventLoop {
    /// What it takes to make the loop look into its inbox.
    enum Attention {
        /// In Dispatch's hands: a `queue.async`.
        case asleep
        /// At work, or asked to begin: nothing, it will look.
        case awake
        /// Waiting for events: its doorbell.
        case waiting
    }

    /// Work from other threads.
    struct Inbox {
        var work: [@Sendable () -> Void] = []
        var attention = Attention.asleep
    }

    /// The loop's own patience: how long it stays awake without anything to do.
    struct Rest {
        /// When the present wakefulness is looked at again; nil while the loop is not waiting.
        var untilNs: UInt64?
        /// Nothing has happened since `untilNs` was set.
        var isQuiet = true
        /// `untilNs` has passed quietly.
        var isOver = false
    }

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
        case .waiting: poller.ring()
        }
    }

    /// Work handed over and not begun: the depth of the hop. From any thread.
    public var inboxDepth: Int { inbox.withLock { $0.work.count } }

    /// Fetches a batch of events. Waits only while the inbox is empty, and with the doorbell live; the loop's timer ends the
    /// wait, armed once per `stayAwakeMs` however many waits there are.
    func collect(waiting: Bool) -> Int {
        guard waiting else { return poller.collect(waiting: false) }
        let mayWait = inbox.withLock { inbox in
            guard inbox.work.isEmpty else { return false }
            inbox.attention = .waiting
            return true
        }
        guard mayWait else { return poller.collect(waiting: false) }
        if rest.untilNs == nil {
            rest.untilNs = vigla_monotonic_ns() + UInt64(settings.stayAwakeMs) * 1_000_000
            rest.isQuiet = true
            armTimer()
        }
        let count = poller.collect(waiting: true)
        inbox.withLock { $0.attention = .awake }
        return count
    }

    /// Goes back to Dispatch, or on when work has come meanwhile.
    func leave() {
        rest.isOver = false
        let mustReturn = inbox.withLock { inbox in
            inbox.attention = inbox.work.isEmpty ? .asleep : .awake
            return inbox.attention == .awake
        }
        if mustReturn { queue.async { self.visit() } }
    }
}
