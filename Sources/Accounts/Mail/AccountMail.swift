import Dispatch
import Logging
import Mail

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
        _ settings: AccountSettings, transport: (any MailTransport)?, logger: Logger, _ clock: AccountClock
    ) throws(MessageTemplates.Faults) {
        let chosen: (any MailTransport)? =
            if let transport { transport } else if let smtp = settings.mail.smtp {
                SMTPTransport(smtp, now: clock.wall)
            } else if settings.isDev {
                PrintedMail { logger.notice("\($0)") }
            } else { nil }
        mailer = chosen.map { Mailer($0, settings.mail.mailer, logger: logger, now: clock.steady) }
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
