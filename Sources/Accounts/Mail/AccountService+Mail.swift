import Logging

extension AccountService {
    /// The post for these settings: the mail server's, under `--dev` without one the log; nil: there is none.
    static func post(_ settings: AccountSettings, carrier: (any LetterCarrier)?, logger: Logger, now: @escaping @Sendable () -> Int64) -> Post? {
        let chosen: (any LetterCarrier)? =
            if let carrier { carrier } else if let smtp = settings.mail.smtp { SMTPCarrier(smtp, now: now) } else if settings.isDev {
                PrintedLetters { logger.notice("\($0)") }
            } else { nil }
        return chosen.map { Post($0, settings.mail.post, logger: logger, now: now) }
    }

    /// Whether letters can go to an address at all: ask before looking who has it, so that the answer says nothing about that.
    /// - Throws: OPERATION_NOT_ALLOWED without a mail server, INVALID_EMAIL.
    func mailAddress(_ text: String) throws(AccountError) -> MailAddress {
        guard post != nil else { throw AccountError("OPERATION_NOT_ALLOWED", "This server sends no mail; its operator has to name a mail server") }
        guard let address = MailAddress(text) else { throw AccountError("INVALID_EMAIL", "No mail can be sent to this address") }
        return address
    }

    /// Sends a letter, after the answer; without a mail server, or to an address that none can be sent to, does nothing.
    /// - Parameters:
    ///   - email: the account's address; also the recipient's, unless `to` is given.
    ///   - newEmail: what it becomes or became, where that is the matter.
    ///   - lifeSeconds: how long the link lives; the letter is not sent after its end.
    func send(
        _ kind: LetterKind, _ language: Language, to: String? = nil, email: String, newEmail: String? = nil, link: String? = nil,
        lifeSeconds: Int = 86_400
    ) {
        guard let post, let address = MailAddress(to ?? email) else { return }
        let letter = letters.letter(kind, language, to: address, email: email, newEmail: newEmail, link: link, lifeSeconds: lifeSeconds, now: now())
        if let letter { post.send(letter, until: now() + Int64(lifeSeconds) * 1000) }
    }
}
