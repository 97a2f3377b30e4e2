/// What follows from a transaction once it is committed.
struct Aftermath {
    var changes: [AccountChange] = []
    /// Mails that are to be sent.
    var mails: [MailOrder] = []
    /// Codes that are used up.
    var usedCodes: [String] = []

    mutating func add(_ change: AccountChange) { changes.append(change) }
}

extension AccountService {
    /// Carries out one transaction and then what follows from it: no token of an account that changed is remembered any longer, the
    /// server hears of it, and mails go out. There is no wait in between, so nobody sees the one without the other.
    func commit<Result>(_ work: (AccountTransaction, inout Aftermath) throws -> Result) throws -> Result {
        var aftermath = Aftermath()
        defer { endedForRoom = [] }
        let result = try store.transaction { try work($0, &aftermath) }
        for change in aftermath.changes + endedForRoom { announce(change) }
        for order in aftermath.mails { mail.send(order) }
        if settings.isDev {
            knownCodes.removeAll { aftermath.usedCodes.contains($0.secret) }
            remember(aftermath.mails.compactMap(\.code))
        }
        return result
    }

    /// Codes that a development hub lists: pending ones, the oldest first.
    func remember(_ codes: [KnownCode]) {
        guard settings.isDev else { return }
        for code in codes {
            knownCodes.removeAll { $0.code.kind == code.code.kind && $0.code.email == code.code.email && $0.code.uid == code.code.uid }
            knownCodes.append(code)
        }
        if knownCodes.count > Self.mostKnownCodes { knownCodes.removeFirst(knownCodes.count - Self.mostKnownCodes) }
    }

    private static let mostKnownCodes = 10_000
}
