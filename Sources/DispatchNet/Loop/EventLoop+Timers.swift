internal import CLinux

extension EventLoop {
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

    /// Sets the poller's timer when something is due before what it is set to.
    func armTimer() {
        let earliest = min(timers.earliestNs ?? .max, rest.untilNs ?? .max)
        guard earliest < timerArmedNs ?? .max else { return }
        timerArmedNs = earliest
        poller.armTimer(atNs: earliest)
    }

    /// Whether a timer was due, rather than the loop's own rest.
    func fireTimers() -> Bool {
        timerArmedNs = nil
        let now = vigla_monotonic_ns()
        if let until = rest.untilNs, until <= now {
            rest.untilNs = nil
            rest.isOver = rest.isQuiet
        }
        var fired = false
        while let (timer, deadlineNs) = timers.takeDue(nowNs: now) {
            fired = true
            timer.fire()
            if let every = timer.everyNs, !timer.isCancelled {
                timers.insert(timer, deadlineNs: deadlineNs + every > now ? deadlineNs + every : now + every)
            }
            settleIfLarge()
        }
        armTimer()
        return fired
    }
}
