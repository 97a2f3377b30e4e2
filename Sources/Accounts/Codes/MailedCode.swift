import JSONTree
import Mail

/// The purpose of a mailed code (accounts contract §6.6, §8). The raw value is the `requestType` on the wire and in the store.
enum CodeKind: String, Sendable, CaseIterable {
    case resetPassword = "PASSWORD_RESET"
    case verifyEmail = "VERIFY_EMAIL"
    /// Restores a former address of the account.
    case recoverEmail = "RECOVER_EMAIL"
    case signIn = "EMAIL_SIGNIN"
    case verifyAndChangeEmail = "VERIFY_AND_CHANGE_EMAIL"

    /// `mode` of the link.
    var mode: String { message.rawValue }

    var message: MessageKind {
        switch self {
        case .resetPassword: .resetPassword
        case .verifyEmail: .verifyEmail
        case .recoverEmail: .recoverEmail
        case .signIn: .signIn
        case .verifyAndChangeEmail: .verifyAndChangeEmail
        }
    }

    /// Parses a name, or its number, which Android's SDK sends (accounts contract §2.2). Nil for other values.
    init?(_ value: JSONValue) {
        switch value {
        case .string(let name):
            guard let kind = CodeKind(rawValue: name) else { return nil }
            self = kind
        case 1: self = .resetPassword
        case 4: self = .verifyEmail
        case 5: self = .recoverEmail
        case 6: self = .signIn
        case 7: self = .verifyAndChangeEmail
        default: return nil
        }
    }
}

/// A mailed code that was not used yet. Only the reader of the mail knows the code itself.
struct MailedCode: Sendable, Equatable {
    let kind: CodeKind
    /// Nil if the address had no account.
    let uid: String?
    /// The account's address when the code was created, empty if it had none; for RECOVER_EMAIL the address to restore.
    let email: String
    /// VERIFY_AND_CHANGE_EMAIL: the new address.
    var newEmail: String?
    /// ms since the epoch.
    let expiresAt: Int64
}

/// A code with its secret, which only a development hub keeps, for requests by test suites (accounts contract §11).
struct KnownCode: Sendable {
    let code: MailedCode
    let secret: String
    let link: String
}

/// The pending codes of a development hub, oldest first, at most 10,000. Other hubs keep none.
struct KnownCodes {
    private static let most = 10_000
    private let isKept: Bool
    private(set) var all: [KnownCode] = []

    init(isKept: Bool) { self.isKept = isKept }

    /// A newer code replaces one of its kind for the same address.
    mutating func add(_ codes: [KnownCode]) {
        guard isKept else { return }
        for code in codes {
            all.removeAll { $0.code.kind == code.code.kind && $0.code.email == code.code.email && $0.code.uid == code.code.uid }
            all.append(code)
        }
        if all.count > Self.most { all.removeFirst(all.count - Self.most) }
    }

    /// - Parameter secrets: the secrets of used codes.
    mutating func remove(_ secrets: [String]) { all.removeAll { secrets.contains($0.secret) } }
}

extension AccountWrite {
    /// The lifetime of a new code of a kind in ms.
    private func lifetime(_ kind: CodeKind) -> Int64 {
        let seconds = switch kind {
        case .resetPassword: settings.resetCodeSeconds
        case .signIn: settings.signInCodeSeconds
        case .verifyEmail, .verifyAndChangeEmail: settings.verifyCodeSeconds
        case .recoverEmail: settings.recoverCodeSeconds
        }
        return Int64(seconds) * 1000
    }

    /// Creates a code and its link.
    /// - Parameters:
    ///   - account: nil if the address has no account yet.
    ///   - email: see `MailedCode.email`.
    func makeCode(
        _ kind: CodeKind, account: Account?, email: String, newEmail: String? = nil, continueURL: ContinueURL? = nil
    ) throws -> KnownCode {
        let code = MailedCode(kind: kind, uid: account?.id, email: email, newEmail: newEmail, expiresAt: now() + lifetime(kind))
        let secret = RandomName.secret()
        try transaction.add(code, hash: SecretHash.of(secret), at: now())
        try audit(.codeMailed, account?.id, kind.rawValue)
        return KnownCode(code: code, secret: secret, link: link(kind, secret, continueURL))
    }

    /// Uses the hub's public address, never the request's Host: the sender of the request would choose where the code goes.
    private func link(_ kind: CodeKind, _ secret: String, _ continueURL: ContinueURL?) -> String {
        let (key, language) = (call?.keyForLinks ?? AccountCall.defaultKey, call?.language ?? .english)
        var query = "mode=\(kind.mode)&oobCode=\(secret)&apiKey=\(QueryText.encode(key))&lang=\(language.rawValue)"
        if let continueURL { query += "&continueUrl=\(QueryText.encode(continueURL.text))" }
        return settings.link("/.account/action", query)
    }

    /// Removes a used code, in the transaction that runs its action.
    func use(code secret: String) throws {
        try transaction.removeCode(hash: SecretHash.of(secret))
        markUsed(code: secret)
    }
}

// MARK: Reading codes

extension AccountTransaction {
    /// A pending code, without using it.
    /// - Parameter now: ms since the epoch.
    /// - Throws: INVALID_OOB_CODE if it is unknown, used or void; EXPIRED_OOB_CODE.
    func pendingCode(_ secret: String, now: Int64) throws -> MailedCode {
        guard let code = try code(hash: SecretHash.of(secret)) else { throw AccountError("INVALID_OOB_CODE") }
        guard now < code.expiresAt else { throw AccountError("EXPIRED_OOB_CODE") }
        return code
    }

    /// The account that a code is bound to, if it still has the address that the code was mailed for.
    func account(of code: MailedCode) throws -> Account {
        guard let uid = code.uid, let account = try account(.id(uid)) else { throw AccountError("INVALID_OOB_CODE") }
        guard code.kind == .recoverEmail || (account.email ?? "") == code.email else { throw AccountError("INVALID_OOB_CODE") }
        guard !account.isDisabled else { throw AccountError("USER_DISABLED") }
        return account
    }

}

extension AccountService {
    /// Reads a code without using it (accounts contract §6.7).
    func peek(_ secret: String, _ call: AccountCall) throws -> MailedCode {
        try admitCode(from: call.peer)
        return try store.read { transaction in
            let code = try transaction.pendingCode(secret, now: now())
            if code.kind != .signIn { _ = try transaction.account(of: code) }
            return code
        }
    }

    /// Runs the action of a code: VERIFY_EMAIL, VERIFY_AND_CHANGE_EMAIL, RECOVER_EMAIL (accounts contract §8).
    /// - Returns: the account after the action.
    func apply(code secret: String, _ call: AccountCall) throws -> (account: Account, code: MailedCode) {
        try admitCode(from: call.peer)
        return try commit(call) { write in
            let code = try write.transaction.pendingCode(secret, now: now())
            guard [.verifyEmail, .verifyAndChangeEmail, .recoverEmail].contains(code.kind) else { throw AccountError("INVALID_OOB_CODE") }
            var account = try write.transaction.account(of: code)
            if code.kind == .verifyEmail {
                account.isEmailVerified = true
                try write.audit(.addressVerified, account.id)
            } else {
                guard let address = EmailAddress(code.newEmail ?? code.email) else { throw AccountError("INVALID_OOB_CODE") }
                if let holder = try write.transaction.account(.email(address.text)), holder.id != account.id {
                    throw AccountError("EMAIL_EXISTS")
                }
                if code.kind == .recoverEmail {
                    try write.recover(&account, to: address, by: secret)
                } else {
                    try write.changeAddress(of: &account, to: address, isVerified: true)
                }
                try write.revoke(&account)
            }
            try write.transaction.save(account)
            try write.use(code: secret)
            return (account, code)
        }
    }
}

/// Encodes a text for a query's value (RFC 3986 §2.3: all but the unreserved characters).
enum QueryText {
    private static let digits = Array("0123456789ABCDEF".utf8)

    static func encode(_ text: String) -> String {
        var out: [UInt8] = []
        for byte in text.utf8 {
            switch byte {
            case 0x30...0x39, 0x41...0x5A, 0x61...0x7A: out.append(byte)
            case UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"), UInt8(ascii: "~"): out.append(byte)
            default: out += [UInt8(ascii: "%"), digits[Int(byte >> 4)], digits[Int(byte & 15)]]
            }
        }
        return String(decoding: out, as: UTF8.self)
    }
}
