import Mail

/// One change of the accounts while it is made: the transaction, the request that asked for it, and what follows once it is committed.
///
///     endpoint ─► commit(call) { write in … } ─► on disk ─► tokens forgotten ─► AccountChange announced ─► mails sent
///
/// What flows do to accounts are extensions of this type, each in the file of its flow. They see what is given here and no state of
/// the service. Lives within one transaction, on the service's queue.
final class AccountWrite {
    let transaction: AccountTransaction
    /// Nil for what the service does by itself.
    let call: AccountCall?
    let settings: AccountSettings
    let clock: AccountClock
    /// See `AccountSettings.hidesAccounts`: as it is now.
    let hidesAccounts: Bool

    /// What the server hears of, in this order.
    private(set) var changes: [AccountChange] = []
    private(set) var mails: [MailOrder] = []
    /// Codes that are used up.
    private(set) var usedCodes: [String] = []

    init(_ transaction: AccountTransaction, _ call: AccountCall?, _ settings: AccountSettings, _ clock: AccountClock, hidesAccounts: Bool) {
        self.transaction = transaction
        self.call = call
        self.settings = settings
        self.clock = clock
        self.hidesAccounts = hidesAccounts
    }

    /// The wall clock, ms since the epoch.
    func now() -> Int64 { clock.wall() }

    var peer: String? { call?.peer }

    /// Writes an event down, with the client's address.
    /// - Parameter detail: a provider's id, `by an administrator` or the like.
    func audit(_ event: AuditEvent, _ uid: String?, _ detail: String? = nil) throws {
        try transaction.audit(event, uid, peer: peer, at: now(), detail)
    }

    func announce(_ uid: String, _ kind: AccountChange.Kind) { changes.append(AccountChange(uid, kind)) }

    /// Has a code mailed.
    /// - Parameter account: nil where the address has none yet.
    func mail(_ code: KnownCode, to address: String, _ account: Account?) {
        mails.append(MailOrder(code.code.kind.message, to: address, account, code: code, call?.language ?? .english))
    }

    /// Has a message without a code mailed.
    func mail(_ kind: MessageKind, to address: String, _ account: Account) {
        mails.append(MailOrder(kind, to: address, account, code: nil, call?.language ?? .english))
    }

    func markUsed(code secret: String) { usedCodes.append(secret) }
}

extension AccountService {
    /// Carries out one transaction and then what follows from it: no token of an account that changed is remembered any longer, the
    /// server hears of it, and mails go out. There is no wait in between, so that no other work sees the one without the other.
    /// - Parameter call: nil for what the service does by itself.
    func commit<Result>(_ call: AccountCall?, _ work: (AccountWrite) throws -> Result) throws -> Result {
        let (write, result) = try store.transaction { transaction in
            let write = AccountWrite(transaction, call, settings, clock, hidesAccounts: hidesAccounts)
            return (write, try work(write))
        }
        for change in write.changes { announce(change) }
        for order in write.mails { mail.send(order) }
        if settings.isDev {
            knownCodes.remove(write.usedCodes)
            knownCodes.add(write.mails.compactMap(\.code))
        }
        return result
    }
}
