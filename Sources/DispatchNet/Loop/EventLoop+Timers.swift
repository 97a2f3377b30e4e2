internal import CLinux

extension EventLoop {
    /// Runs work on the loop after a delay, and then at every interval if there is one; intervals
    /// missed while the loop was busy are skipped. Callable from any thread. Resolution 1 ms.
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

    /// Sets the poller's timer if a timer is due before its current time.
    func armTimer() {
        let earliest = min(timers.earliestNs ?? .max, idlePeriod.untilNs ?? .max)
        guard earliest < timerArmedNs ?? .max else { return }
        timerArmedNs = earliest
        poller.armTimer(atNs: earliest)
    }

    /// Fires due timers. False when none was due, so that the event was the loop's own rest.
    func fireTimers() -> Bool {
        timerArmedNs = nil
        let now = vigla_monotonic_ns()
        if let until = idlePeriod.untilNs, until <= now {
            idlePeriod.untilNs = nil
            idlePeriod.isOver = idlePeriod.isQuiet
        }
        var fired = false
        while let (timer, deadlineNs) = timers.popDue(nowNs: now) {
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
