/// A mail to one user.
public struct Letter: Sendable, Equatable {
    public var kind: LetterKind
    public var language: Language
    public var to: MailAddress
    public var subject: String
    public var text: String
    public var html: String
    /// What it is about: the link in it, if there is one. Shown only by `PrintedLetters`.
    public var link: String?

    public init(kind: LetterKind, language: Language, to: MailAddress, subject: String, text: String, html: String, link: String?) {
        self.kind = kind
        self.language = language
        self.to = to
        self.subject = subject
        self.text = text
        self.html = html
        self.link = link
    }
}

/// What mails are sent for. The raw value is the `mode` of the link in it, where there is one, and names its templates.
public enum LetterKind: String, Sendable, CaseIterable {
    case verifyEmail, resetPassword, signIn
    /// To the new address.
    case verifyAndChangeEmail
    /// To the old address, after the change.
    case recoverEmail
    /// No link: the password was changed.
    case passwordChanged
}
