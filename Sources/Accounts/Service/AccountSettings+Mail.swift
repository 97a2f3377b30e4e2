public import Logging
public import Mail
public import Scheduling

extension AccountSettings {
    /// How mails leave this hub: through the configured mail server, or into the log of a development hub without one; nil otherwise.
    public func mailTransport(_ scheduler: Scheduler, _ logger: Logger) -> (any MailTransport)? {
        if let smtp = mail.smtp { return SMTPTransport(smtp) { scheduler.wallMs } }
        return isDev ? PrintedMail { logger.notice("\($0)") } : nil
    }
}
