import Dispatch
import Logging

extension AccountService {
    private static let dayMs: Int64 = 86_400_000
    /// Guests deleted in one transaction.
    private static let guestsAtOnce = 500
    /// Events removed in one transaction; others wait meanwhile.
    static let eventsAtOnce = 1_000

    /// Sweeps after so many seconds and then once a day, as long as the service is there.
    nonisolated func sweepRegularly(after seconds: Int = 600) {
        DispatchQueue.global(qos: .utility).asyncAfter(deadline: .now() + .seconds(seconds)) { [weak self] in
            self?.perform { service in
                guard !service.isClosed else { return }
                await service.sweep()
                service.sweepRegularly(after: 86_400)
            }
        }
    }

    /// Removes what time has made useless: codes, sessions and events past their days, and guests who did not come back.
    func sweep() async {
        let now = clock.cautious
        do {
            try store.transaction { transaction in
                try transaction.removeCodes(endedBefore: now - Self.dayMs)
                let told = now - Int64(settings.endedSessionDays) * Self.dayMs
                let idle = settings.idleDays > 0 ? told - Int64(settings.idleDays) * Self.dayMs : .min
                try transaction.removeSessions(endedBefore: told, idleSince: idle)
            }
            if settings.auditDays > 0 {
                let time = now - Int64(settings.auditDays) * Self.dayMs
                while try store.transaction({ try $0.removeAudit(before: time, limit: Self.eventsAtOnce) }) { await Task.yield() }
            }
            guard settings.guestDays > 0 else { return }
            while try removeGuests(unseenSince: now - Int64(settings.guestDays) * Self.dayMs) { await Task.yield() }
        } catch AccountStoreFault.closed {
            // The next start sweeps.
        } catch {
            logger.error("accounts could not be swept", metadata: ["error": "\(error)"])
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
