/// What follows from a transaction once it is committed.
struct Aftermath {
    private(set) var changes: [AccountChange] = []

    mutating func add(_ change: AccountChange) { changes.append(change) }
}

extension AccountService {
    /// Carries out one transaction and then what follows from it: no token of an account that changed is remembered any longer, and
    /// the server hears of it. There is no wait in between, so nobody sees the one without the other.
    func commit<Result>(_ work: (AccountTransaction, inout Aftermath) throws -> Result) throws -> Result {
        var aftermath = Aftermath()
        let result = try store.transaction { try work($0, &aftermath) }
        for change in aftermath.changes { tokens.forget(uid: change.uid) }
        let surroundings = surroundings.current
        for change in aftermath.changes { surroundings.whenChanged(change) }
        return result
    }
}
