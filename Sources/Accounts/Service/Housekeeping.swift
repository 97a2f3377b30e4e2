import GRDB
import Limits
import Logging
import Scheduling

extension AccountService {
    private static let dayMs: Int64 = 86_400_000
    /// Most guests deleted in one transaction.
    private static let guestsAtOnce = 500
    /// Most events removed in one transaction, during which requests wait.
    static let eventsAtOnce = 1_000

    /// The steps of a sweep, in this order. Each is one transaction; other transactions may run in between.
    enum SweepStep {
        case sessions, events, guests, times
    }

    /// Sweeps ten minutes after the start and then once a day, as long as the service exists.
    nonisolated func sweepRegularly() { sweep(.sessions, afterMs: 600_000) }

    private nonisolated func sweep(_ step: SweepStep, afterMs ms: Int64) {
        scheduler.after(ms: ms, on: queue) { [weak self] in
            self?.assumeIsolated { service in
                guard !service.isClosed else { return }
                if let next = service.sweep(step) {
                    service.sweep(next, afterMs: 0)
                } else {
                    service.sweep(.sessions, afterMs: Self.dayMs)
                }
            }
        }
    }

    /// Removes expired data: codes, sessions and events past their retention, and guests who did not return.
    /// - Returns: the next step; nil after the last one.
    func sweep(_ step: SweepStep) -> SweepStep? {
        do {
            let now = clock.cautious
            switch step {
            case .sessions:
                try store.transaction { transaction in
                    try transaction.removeCodes(endedBefore: now - Self.dayMs)
                    let told = now - Int64(settings.endedSessionDays) * Self.dayMs
                    let idle = settings.idleDays > 0 ? told - Int64(settings.idleDays) * Self.dayMs : .min
                    try transaction.removeSessions(endedBefore: told, idleSince: idle)
                }
                return .events
            case .events:
                guard settings.auditDays > 0 else { return .guests }
                let time = now - Int64(settings.auditDays) * Self.dayMs
                return try store.transaction { try $0.removeAudit(before: time, limit: Self.eventsAtOnce) } ? .events : .guests
            case .guests:
                guard settings.guestDays > 0 else { return .times }
                return try removeGuests(unseenSince: now - Int64(settings.guestDays) * Self.dayMs) ? .guests : .times
            case .times:
                correctTimes()
                return nil
            }
        } catch AccountStoreFault.closed {
            // The next start sweeps again.
        } catch {
            logger.error("accounts could not be swept", metadata: ["error": "\(error)"])
        }
        return nil
    }

    /// Corrects stored times after the wall clock has jumped ahead: converts times written before to the new clock. So a hub that started with a
    /// clock far behind keeps the guests and sessions of that time. If the new time is wrong instead, they are kept longer than necessary.
    func correctTimes() {
        do {
            if let jump = clock.jump {
                try store.transaction { try $0.moveTimes(jump.times, by: jump.ms) }
                logger.notice("the clock was set ahead", metadata: ["by_seconds": "\(jump.ms / 1000)"])
            }
            clock.settle()
        } catch AccountStoreFault.closed {
            // Uncorrected times stay as written.
        } catch {
            logger.error("times could not be corrected", metadata: ["error": "\(error)"])
        }
    }

    /// - Returns: whether there may be more.
    private func removeGuests(unseenSince time: Int64) throws -> Bool {
        try commit(nil) { write in
            let guests = try write.transaction.guests(unseenSince: time, limit: Self.guestsAtOnce)
            for guest in guests { try write.delete(guest, "a guest who did not come back") }
            return guests.count == Self.guestsAtOnce
        }
    }
}
