import Dispatch
import Logging

extension AccountService {
    /// The post for these settings: the mail server's, under `--dev` without one the log; nil: there is none.
    static func post(_ settings: AccountSettings, carrier: (any LetterCarrier)?, logger: Logger, _ clock: AccountClock) -> Post? {
        let chosen: (any LetterCarrier)? =
            if let carrier { carrier } else if let smtp = settings.mail.smtp { SMTPCarrier(smtp, now: clock.wall) } else if settings.isDev {
                PrintedLetters { logger.notice("\($0)") }
            } else { nil }
        return chosen.map { Post($0, settings.mail.post, logger: logger, now: clock.steady) }
    }

    /// Whether letters can go to an address at all: ask before looking who has it, so that the answer says nothing about that.
    /// - Throws: OPERATION_NOT_ALLOWED without a mail server, INVALID_EMAIL.
    func mailAddress(_ text: String) throws(AccountError) -> MailAddress {
        guard post != nil else { throw AccountError("OPERATION_NOT_ALLOWED", "This server sends no mail; its operator has to name a mail server") }
        guard let address = MailAddress(text) else { throw AccountError("INVALID_EMAIL", "No mail can be sent to this address") }
        return address
    }

    /// Has a mail written and handed to the post, one after the other; nobody waits for it, or an answer's time would tell whether there was one. Without a mail server, or to an address that none can be sent
    /// to, there is none.
    func send(_ order: MailOrder) {
        guard let post, let to = MailAddress(order.to) else { return }
        let (code, now) = (order.code?.code, now())
        let until = code?.expiresAt ?? now + 86_400_000
        let end = clock.steady() + (until - now)
        desk.async { [letters] in
            let letter = letters.letter(
                order.kind, order.language, to: to, email: code?.email ?? order.account?.email ?? order.to,
                // On the way back: from the address that the account has now.
                newEmail: order.kind == .recoverEmail ? order.account?.email ?? order.language.noAddress : code?.newEmail, link: order.code?.link,
                lifeSeconds: Int((until - now) / 1000), now: now)
            if let letter { post.send(letter, until: end) }
        }
    }
}
