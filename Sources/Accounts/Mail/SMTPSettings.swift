/// The mail server that letters are handed to.
public struct SMTPSettings: Sendable {
    /// How the connection is protected.
    public enum Security: Sendable, Equatable {
        /// `smtps://`: TLS from the first byte, port 465.
        case tls
        /// `smtp://`: STARTTLS, and no letter without it; port 587.
        case startTLS
        /// Nothing at all: for a server on this machine, without a password.
        case none
    }

    public let host: String
    public let port: Int
    public let security: Security
    public let sender: MailSender
    /// Nil: the server asks for none.
    public let user: String?
    let password: String?
    /// File with the certificates (PEM) that the server's is checked with; nil: the system's.
    public let certificates: String?
    /// Seconds to connect, and for a whole letter.
    public var connectSeconds = 10, letterSeconds = 60

    /// - Parameters:
    ///   - url: `smtp://host[:port]` or `smtps://host[:port]`; nothing else in it.
    ///   - allowsPlaintext: `smtp://` without TLS. With a password only to this machine itself.
    /// - Throws: what is wrong with which of them, in words for who configures the hub.
    public init(
        url: String, sender: MailSender, user: String? = nil, password: String? = nil, certificates: String? = nil, allowsPlaintext: Bool = false
    ) throws(SMTPFault) {
        let isImplicit = url.hasPrefix("smtps://")
        guard isImplicit || url.hasPrefix("smtp://") else { throw .url("it must begin with smtp:// or smtps://") }
        var rest = url.dropFirst(isImplicit ? 8 : 7)
        guard !rest.contains("@") else { throw .url("user and password do not belong in the URL; give them as options of their own") }
        if rest.last == "/" { rest.removeLast() }
        var port = isImplicit ? 465 : 587
        // The colon of a port stands behind the bracket of an IPv6 address.
        if let colon = rest.lastIndex(of: ":"), rest.lastIndex(of: "]").map({ $0 < colon }) ?? true {
            guard let number = Int(rest[rest.index(after: colon)...]), 1...65_535 ~= number else { throw .url("the port must be 1…65535") }
            port = number
            rest = rest[..<colon]
        }
        let bare = rest.hasPrefix("[") && rest.hasSuffix("]") ? rest.dropFirst().dropLast() : rest
        guard !bare.isEmpty, bare.utf8.allSatisfy(Self.isHostByte) else { throw .url("it must be smtp://host:port without anything behind it") }
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
