/// How users get mail.
public struct MailSettings: Sendable {
    /// The mail server; nil: none, and with `isDev` letters are printed.
    public var smtp: SMTPSettings?
    /// What users call what they sign in to.
    public var app = "Vigla"
    /// Folder with templates of the operator's own.
    public var templates: String?
    public var post = PostSettings()

    public init() {}
}
