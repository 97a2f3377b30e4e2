import Dispatch
import Logging
import Mail
import Scheduling
import Synchronization
import Tokens

/// One change of the accounts in progress: the transaction, the request that caused it, and the actions after its commit.
///
///     endpoint ─► commit(call) { write in … } ─► on disk ─► cached tokens dropped ─► AccountChange announced ─► mails sent
///
/// The changes of each flow are extensions of this type, in the file of the flow. They use only these fields and no state of the service.
/// Lives within one transaction, on the service's queue.
final class AccountWrite {
    let transaction: AccountTransaction
    /// Nil for changes by the service itself.
    let call: AccountCall?
    let settings: AccountSettings
    let clock: AccountClock
    /// The current value of `AccountSettings.hidesAccounts`.
    let hidesAccounts: Bool

    /// Changes to announce to the server, in order.
    private(set) var changes: [AccountChange] = []
    private(set) var mails: [MailOrder] = []
    /// The secrets of used codes.
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

    /// Records an event, with the client's address.
    /// - Parameter detail: a provider's id, `by an administrator` or the like.
    func audit(_ event: AuditEvent, _ uid: String?, _ detail: String? = nil) throws {
        try transaction.audit(event, uid, peer: peer, at: now(), detail)
    }

    /// Announces a change after the commit. A change of claims or a disabled account also invalidates earlier ID tokens.
    /// - Parameter author: see `AccountChange.author`.
    func announce(_ uid: String, _ kind: AccountChange.Kind, by author: AccountSession? = nil) throws {
        if kind == .claimsChanged || kind == .disabled { try transaction.supersedeTokens(of: uid) }
        // A revocation includes a change of claims; announcing that too would reach its author before their fresh tokens.
        if kind == .revoked { changes.removeAll { $0.uid == uid && $0.kind == .claimsChanged } }
        changes.append(AccountChange(uid, kind, by: author?.id))
    }

    /// Mails a code after the commit.
    /// - Parameter account: nil if the address has no account yet.
    func mail(_ code: KnownCode, to address: String, _ account: Account?) {
        mails.append(MailOrder(code.code.kind.message, to: address, account, code: code, call?.language ?? .english))
    }

    /// Mails a message without a code after the commit.
    func mail(_ kind: MessageKind, to address: String, _ account: Account) {
        mails.append(MailOrder(kind, to: address, account, code: nil, call?.language ?? .english))
    }

    func markUsed(code secret: String) { usedCodes.append(secret) }

    /// Whether it may be a sign-in: a sign-in announces nothing except sessions that it replaced.
    var isSignIn: Bool {
        mails.isEmpty && usedCodes.isEmpty && changes.allSatisfy { if case .sessionEnded = $0.kind { true } else { false } }
    }
}

extension AccountService {
    /// Runs one transaction and then its effects: cached tokens of the changed accounts are dropped, the change is announced to the server, and
    /// mails are sent. No suspension happens in between, so no other work sees the commit without its effects.
    /// - Parameters:
    ///   - call: nil for changes by the service itself.
    ///   - durability: `.withSystem` for a sign-in that changes nothing else.
    func commit<Result>(
        _ call: AccountCall?, _ durability: AccountDurability = .onDisk, _ work: (AccountWrite) throws -> Result
    ) throws -> Result {
        let (write, result) = try store.transaction(durability) { transaction in
            let write = AccountWrite(transaction, call, settings, clock, hidesAccounts: hidesAccounts)
            let result = try work(write)
            transaction.recorder?.record.changes = write.changes
            return (write, result)
        }
        assert(durability == .onDisk || write.isSignIn, "a change that must outlive a power cut")
        for change in write.changes { announce(change) }
        for order in write.mails { mail.send(order) }
        if settings.isDev {
            knownCodes.remove(write.usedCodes)
            knownCodes.add(write.mails.compactMap(\.code))
        }
        return result
    }
}

/// A change that affects an account's connections immediately (accounts contract §15).
public struct AccountChange: Sendable, Hashable {
    public enum Kind: Sendable, Hashable {
        case disabled, deleted
        /// All earlier tokens are revoked: new password or address, `validSince`, all sessions ended.
        case revoked
        /// The claims that rules see have changed.
        case claimsChanged
        /// One session has ended; its id is the claim `sid` of its tokens.
        case sessionEnded(String)
    }

    public let uid: String
    public let kind: Kind
    /// The session of the user who made the change; nil for changes by an administrator, a mailed code or the hub. The response to the user's
    /// request carries fresh tokens. A client asked at once to sign in again might not have them yet, and would be signed out, as its refresh
    /// token has ended.
    public let author: String?

    public init(_ uid: String, _ kind: Kind, by author: String? = nil) {
        self.uid = uid
        self.kind = kind
        self.author = author
    }

    /// The affected session; nil if all of the account's sessions are affected.
    public var session: String? { if case .sessionEnded(let id) = kind { id } else { nil } }
}

/// The callback for changes. A struct, as `Mutex` would wrap a plain closure again at each use.
struct AccountListener: Sendable {
    let notify: @Sendable (AccountChange) -> Void
    /// Whether the listener removes the data of deleted accounts and calls `removalDone`.
    let removesData: Bool
}

extension AccountService {
    /// Sets the listener of changes. It is called on the service's queue, in commit order.
    /// - Parameter removesData: whether the listener removes the data of deleted accounts and calls `removalDone`; responses to deletions then
    ///   wait for that.
    public nonisolated func whenChanged(removesData: Bool = false, _ listener: (@Sendable (AccountChange) -> Void)?) {
        self.listener.withLock { $0 = listener.map { AccountListener(notify: $0, removesData: removesData) } }
    }

    /// Announces a stored change. Call directly after the transaction, without suspension: then the listener still finds a sign-in whose token was
    /// verified before the announcement. Later verifications read the account again.
    func announce(_ change: AccountChange) {
        tokens.forget(uid: change.uid)
        listener.withLock { $0 }?.notify(change)
    }
}

/// A mail to be written.
struct MailOrder: Sendable {
    let kind: MessageKind
    let to: String
    /// Nil if the address has no account yet.
    let account: Account?
    /// The code in the mail, if any.
    let code: KnownCode?
    let language: Language

    init(_ kind: MessageKind, to: String, _ account: Account?, code: KnownCode?, _ language: Language) {
        self.kind = kind
        self.to = to
        self.account = account
        self.code = code
        self.language = language
    }
}

/// Writes the mails of committed changes and passes them to the mailer, in order and off the service's queue. If responses waited for it,
/// their timing would reveal whether a mail was sent. From any thread.
final class AccountMail: Sendable {
    /// Nil without a mail server.
    private let mailer: Mailer?
    private let templates: MessageTemplates
    private let queue = DispatchQueue(label: "vigla.accounts.mail")
    private let clock: AccountClock

    /// - Parameter transport: nil uses the configured mail server, or the log of a development hub without one.
    /// - Throws: faults of the operator's templates.
    init(
        _ settings: AccountSettings, transport: (any MailTransport)?, logger: Logger, _ scheduler: Scheduler, _ clock: AccountClock
    ) throws(MessageTemplates.Faults) {
        let chosen = transport ?? settings.mailTransport(scheduler, logger)
        mailer = chosen.map { Mailer($0, settings.mail.mailer, logger: logger, scheduler) }
        templates = try MessageTemplates(app: settings.mail.app, folder: settings.mail.templates)
        self.clock = clock
    }

    /// Checks that mail can be sent to an address. Call it before looking up the account, so that the result does not depend on the account.
    /// - Throws: OPERATION_NOT_ALLOWED without a mail server, INVALID_EMAIL.
    func address(_ text: String) throws(AccountError) -> MailAddress {
        guard mailer != nil else {
            throw AccountError("OPERATION_NOT_ALLOWED", "This server sends no mail; its operator has to name a mail server")
        }
        guard let address = MailAddress(text) else { throw AccountError("INVALID_EMAIL", "No mail can be sent to this address") }
        return address
    }

    /// Writes a mail and sends it; does nothing without a mail server, or for an address that cannot receive mail.
    func send(_ order: MailOrder) {
        guard let mailer, let to = MailAddress(order.to) else { return }
        let (code, now) = (order.code?.code, clock.wall())
        let until = code?.expiresAt ?? now + 86_400_000
        let end = clock.steady() + (until - now)
        queue.async { [templates] in
            let message = templates.message(
                order.kind, order.language, to: to, email: code?.email ?? order.account?.email ?? order.to,
                // For the recovery of an address: the account's current address.
                newEmail: order.kind == .recoverEmail ? order.account?.email ?? order.language.noAddress : code?.newEmail,
                link: order.code?.link, lifeSeconds: Int((until - now) / 1000), now: now)
            if let message { mailer.send(message, until: end) }
        }
    }
}
