import Dispatch
import Logging
import Mail
import Scheduling
import Synchronization
import Tokens

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

/// A change that an account's connections must feel at once (accounts contract §15).
public struct AccountChange: Sendable, Hashable {
    public enum Kind: Sendable, Hashable {
        case disabled, deleted
        /// Every token from before is over: another password or address, `validSince`, all sessions ended.
        case revoked
        /// What rules see of the user is another.
        case claimsChanged
        /// One session is over, as it is named in the claim `sid` of its tokens.
        case sessionEnded(String)
    }

    public let uid: String
    public let kind: Kind

    public init(_ uid: String, _ kind: Kind) {
        self.uid = uid
        self.kind = kind
    }

    /// The one session that is concerned; nil for all of the account's.
    public var session: String? { if case .sessionEnded(let id) = kind { id } else { nil } }
}

extension AccountService {
    /// Sets what is told of every change, on the service's queue, in the order in which they were stored.
    public nonisolated func whenChanged(_ listener: (@Sendable (AccountChange) -> Void)?) { self.listener.withLock { $0 = listener } }

    /// To be called behind the transaction that has stored the change, without waiting for anything in between: a token that is
    /// checked before the listener hears of it is still found by the listener. Tokens of the account are looked at again from here on.
    func announce(_ change: AccountChange) {
        tokens.forget(uid: change.uid)
        listener.withLock { $0 }?(change)
    }
}

/// A mail that is to be written.
struct MailOrder: Sendable {
    let kind: MessageKind
    let to: String
    /// Nil where the address has no account yet.
    let account: Account?
    /// The code in it, if there is one.
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

/// Writes the mails that follow from changes and hands them to the mailer, in their order and off the service's queue: an answer
/// that waited for that would tell by its time whether there was a mail. From any thread.
final class AccountMail: Sendable {
    /// Nil: no mail server is configured.
    private let mailer: Mailer?
    private let templates: MessageTemplates
    private let queue = DispatchQueue(label: "vigla.accounts.mail")
    private let clock: AccountClock

    /// - Parameter transport: nil: the configured mail server's; on a development hub without one, the log.
    /// - Throws: what is wrong with the operator's templates.
    init(
        _ settings: AccountSettings, transport: (any MailTransport)?, logger: Logger, _ scheduler: Scheduler, _ clock: AccountClock
    ) throws(MessageTemplates.Faults) {
        let chosen: (any MailTransport)? =
            if let transport { transport } else if let smtp = settings.mail.smtp {
                SMTPTransport(smtp, now: clock.wall)
            } else if settings.isDev {
                PrintedMail { logger.notice("\($0)") }
            } else { nil }
        mailer = chosen.map { Mailer($0, settings.mail.mailer, logger: logger, scheduler) }
        templates = try MessageTemplates(app: settings.mail.app, folder: settings.mail.templates)
        self.clock = clock
    }

    /// Whether mail can go to an address at all: ask before looking for its account, so that the answer says nothing about that.
    /// - Throws: OPERATION_NOT_ALLOWED without a mail server, INVALID_EMAIL.
    func address(_ text: String) throws(AccountError) -> MailAddress {
        guard mailer != nil else {
            throw AccountError("OPERATION_NOT_ALLOWED", "This server sends no mail; its operator has to name a mail server")
        }
        guard let address = MailAddress(text) else { throw AccountError("INVALID_EMAIL", "No mail can be sent to this address") }
        return address
    }

    /// Writes a mail and sends it. Without a mail server, or to an address that none can be sent to, there is none.
    func send(_ order: MailOrder) {
        guard let mailer, let to = MailAddress(order.to) else { return }
        let (code, now) = (order.code?.code, clock.wall())
        let until = code?.expiresAt ?? now + 86_400_000
        let end = clock.steady() + (until - now)
        queue.async { [templates] in
            let message = templates.message(
                order.kind, order.language, to: to, email: code?.email ?? order.account?.email ?? order.to,
                // On the way back: from the address that the account has now.
                newEmail: order.kind == .recoverEmail ? order.account?.email ?? order.language.noAddress : code?.newEmail,
                link: order.code?.link, lifeSeconds: Int((until - now) / 1000), now: now)
            if let message { mailer.send(message, until: end) }
        }
    }
}
