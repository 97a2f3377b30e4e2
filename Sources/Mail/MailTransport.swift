import CCurl
import Curl
import Dispatch

/// Sends messages out of the process: to a mail server, or to the log of a development hub.
public protocol MailTransport: Sendable {
    /// Returns once the mail server has accepted responsibility for the message.
    func deliver(_ message: Message) async throws(MailFault)
}

/// Why a message was not accepted. The text contains no secret and no part of the message.
public enum MailFault: Error, Sendable, Equatable {
    /// A temporary fault: try again.
    case later(String)
    /// This message will never be accepted: the recipient is refused.
    case never(String)

    public var text: String {
        switch self {
        case .later(let text), .never(let text): text
        }
    }
}

/// Prints messages instead of sending them, for development without a mail server. Use only with `--dev`: anyone who reads the printed link can
/// sign in with it.
public struct PrintedMail: MailTransport {
    private let print: @Sendable (String) -> Void

    /// - Parameter print: called with one line for each message.
    public init(_ print: @escaping @Sendable (String) -> Void) { self.print = print }

    public func deliver(_ message: Message) async throws(MailFault) {
        print("mail to \(message.to.text), \(message.label): \(message.link ?? message.subject)")
    }
}

/// Sends messages to a mail server with the system's libcurl, using one connection per message. Faults contain only the status codes of the
/// server's replies, as their texts may quote the message.
public final class SMTPTransport: MailTransport {
    private let settings: SMTPSettings
    private let now: @Sendable () -> Int64
    /// libcurl blocks, so it must not run on the threads of async functions. `Mailer` bounds the number of threads.
    private let queue = DispatchQueue(label: "vigla.mail", attributes: .concurrent)

    /// - Parameter now: the wall clock in ms since the epoch.
    public init(_ settings: SMTPSettings, now: @escaping @Sendable () -> Int64) {
        self.settings = settings
        self.now = now
    }

    public func deliver(_ message: Message) async throws(MailFault) {
        let (settings, to) = (settings, message.to)
        let text = message.encoded(from: settings.sender, date: now(), id: message.id ?? Self.randomID())
        let fault: MailFault? = await withCheckedContinuation { continuation in
            queue.async { continuation.resume(returning: Self.transfer(text, to: to, settings)) }
        }
        if let fault { throw fault }
    }

    private static func transfer(_ text: [UInt8], to: MailAddress, _ settings: SMTPSettings) -> MailFault? {
        let scheme = settings.security == .tls ? "smtps" : "smtp"
        // The path is the host name for EHLO.
        let transfer = CurlTransfer(
            "\(scheme)://\(settings.host):\(settings.port)/\(settings.sender.address.domain)", protocols: "smtp,smtps")
        transfer.set(CURLOPT_CONNECTTIMEOUT, settings.connectSeconds)
        transfer.set(CURLOPT_TIMEOUT, settings.messageSeconds)
        if settings.security == .startTLS { transfer.set(CURLOPT_USE_SSL, Int(CURLUSESSL_ALL.rawValue)) }
        if let file = settings.certificates { transfer.set(CURLOPT_CAINFO, file) }
        if let user = settings.user, let password = settings.password {
            transfer.set(CURLOPT_USERNAME, user)
            transfer.set(CURLOPT_PASSWORD, password)
        }
        transfer.set(CURLOPT_MAIL_FROM, "<\(settings.sender.address.text)>")
        transfer.set(CURLOPT_MAIL_RCPT, ["<\(to.text)>"])
        transfer.send(text)
        let fault: CurlFault
        do throws(CurlFault) {
            try transfer.perform()
            return nil
        } catch { fault = error }

        let answer = transfer.figure(CURLINFO_RESPONSE_CODE)
        let text = answer == 0 ? "mail server: \(fault.text)" : "mail server: \(fault.text) (it answered \(answer))"
        // 5xx is final only for the recipient or the message: a wrong password, for example, is a fault that the operator can fix.
        let isFinal = 500..<600 ~= answer && (fault.code == CURLE_SEND_ERROR || fault.code == CURLE_WEIRD_SERVER_REPLY)
        return isFinal ? .never(text) : .later(text)
    }

    /// 128 random bits in hexadecimal.
    private static func randomID() -> String {
        var generator = SystemRandomNumberGenerator()
        return [generator.next(), generator.next()].map { (number: UInt64) in String(number, radix: 16) }.joined(separator: "g")
    }
}

/// Settings of the mail server.
public struct SMTPSettings: Sendable {
    /// How the connection is protected.
    public enum Security: Sendable, Equatable {
        /// `smtps://`: TLS from the first byte, port 465.
        case tls
        /// `smtp://`: STARTTLS, and no message without it; port 587.
        case startTLS
        /// No protection: for a server on this machine, without a password.
        case none
    }

    public let host: String
    public let port: Int
    public let security: Security
    public let sender: MailSender
    /// Nil if the server needs no authentication.
    public let user: String?
    let password: String?
    /// A file with the certificates (PEM) for verifying the server; nil uses the system's.
    public let certificates: String?
    /// Timeouts in seconds for connecting, and for a whole message.
    package var connectSeconds = 10, messageSeconds = 60

    /// - Parameters:
    ///   - url: `smtp://host[:port]` or `smtps://host[:port]`, with nothing else in it.
    ///   - allowsPlaintext: whether `smtp://` works without TLS. With a password only to this machine itself.
    /// - Throws: the fault and its setting, as text for the operator.
    public init(
        url: String, sender: MailSender, user: String? = nil, password: String? = nil, certificates: String? = nil,
        allowsPlaintext: Bool = false
    ) throws(SMTPFault) {
        let isImplicit = url.hasPrefix("smtps://")
        guard isImplicit || url.hasPrefix("smtp://") else { throw .url("it must begin with smtp:// or smtps://") }
        var rest = url.dropFirst(isImplicit ? 8 : 7)
        guard !rest.contains("@") else { throw .url("user and password do not belong in the URL; give them as options of their own") }
        if rest.last == "/" { rest.removeLast() }
        var port = isImplicit ? 465 : 587
        // The colon of a port comes after the bracket of an IPv6 address.
        if let colon = rest.lastIndex(of: ":"), rest.lastIndex(of: "]").map({ $0 < colon }) ?? true {
            guard let number = Int(rest[rest.index(after: colon)...]), 1...65_535 ~= number else { throw .url("the port must be 1…65535") }
            port = number
            rest = rest[..<colon]
        }
        let bare = rest.hasPrefix("[") && rest.hasSuffix("]") ? rest.dropFirst().dropLast() : rest
        guard !bare.isEmpty, bare.utf8.allSatisfy(Self.isHostByte) else {
            throw .url("it must be smtp://host:port without anything behind it")
        }
        guard (user == nil) == (password == nil) else { throw .credentials }
        for text in [user, password].compactMap({ $0 }) where text.utf8.contains(where: { $0 < 0x20 || $0 == 0x7F }) { throw .credentials }
        let isLocal = ["localhost", "127.0.0.1", "::1"].contains(String(bare))
        if allowsPlaintext, !isImplicit, user != nil, !isLocal { throw .plaintextPassword }
        host = String(rest)
        self.port = port
        security = isImplicit ? .tls : allowsPlaintext ? .none : .startTLS
        self.sender = sender
        self.user = user
        self.password = password
        self.certificates = certificates
    }

    private static func isHostByte(_ byte: UInt8) -> Bool {
        0x30...0x39 ~= byte || 0x41...0x5A ~= byte || 0x61...0x7A ~= byte || byte == 0x2D || byte == 0x2E || byte == 0x3A
    }
}

/// A fault of the mail configuration.
public enum SMTPFault: Error, Sendable, Equatable, CustomStringConvertible {
    case url(String)
    case credentials
    case plaintextPassword

    public var description: String {
        switch self {
        case .url(let why): "mail server: \(why)"
        case .credentials: "mail server: user and password go together, without control characters"
        case .plaintextPassword: "mail server: a password is not sent without TLS to another machine"
        }
    }
}
