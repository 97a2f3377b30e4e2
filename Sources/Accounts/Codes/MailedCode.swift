import JSONTree
import Mail

/// The purpose of a mailed code (accounts contract §6.6, §8). The raw value is the `requestType` on the wire and in the store.
enum CodeKind: String, Sendable, CaseIterable {
    case resetPassword = "PASSWORD_RESET"
    case verifyEmail = "VERIFY_EMAIL"
    /// Back to an address that was the account's before.
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

    /// A name, or its number, which Android's SDK sends (accounts contract §2.2). Nil for what is neither.
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

/// A code that was mailed and not used yet. The code itself is known only to the reader of the mail.
struct MailedCode: Sendable, Equatable {
    let kind: CodeKind
    /// Nil when there was no account with the address.
    let uid: String?
    /// The account's address when the code was made, empty if it had none; of RECOVER_EMAIL the one to go back to.
    let email: String
    /// VERIFY_AND_CHANGE_EMAIL: the address to be.
    var newEmail: String?
    /// ms since the epoch.
    let expiresAt: Int64
}

/// A code with its secret, which only a development hub keeps, for test suites to ask for (accounts contract §11).
struct KnownCode: Sendable {
    let code: MailedCode
    let secret: String
    let link: String
}

/// The codes of a development hub that are pending, the oldest first, at most 10,000; other hubs keep none.
struct KnownCodes {
    private static let most = 10_000
    private let isKept: Bool
    private(set) var all: [KnownCode] = []

    init(isKept: Bool) { self.isKept = isKept }

    /// A newer code takes the place of one of its kind for the same address.
    mutating func add(_ codes: [KnownCode]) {
        guard isKept else { return }
        for code in codes {
            all.removeAll { $0.code.kind == code.code.kind && $0.code.email == code.code.email && $0.code.uid == code.code.uid }
            all.append(code)
        }
        if all.count > Self.most { all.removeFirst(all.count - Self.most) }
    }

    /// - Parameter secrets: of codes that are used up.
    mutating func remove(_ secrets: [String]) { all.removeAll { secrets.contains($0.secret) } }
}

extension AccountWrite {
    /// ms that a new code of a kind lives.
    private func lifetime(_ kind: CodeKind) -> Int64 {
        let seconds = switch kind {
        case .resetPassword: settings.resetCodeSeconds
        case .signIn: settings.signInCodeSeconds
        case .verifyEmail, .verifyAndChangeEmail: settings.verifyCodeSeconds
        case .recoverEmail: settings.recoverCodeSeconds
        }
        return Int64(seconds) * 1000
    }

    /// Makes a code and the link to it.
    /// - Parameters:
    ///   - account: nil where the address has none yet.
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

    /// The public address of the hub, never the request's Host: its sender would choose where the code goes.
    private func link(_ kind: CodeKind, _ secret: String, _ continueURL: ContinueURL?) -> String {
        var link = settings.linkRoot + "/.account/action?mode=\(kind.mode)"
        let (key, language) = (call?.keyForLinks ?? AccountCall.defaultKey, call?.language ?? .english)
        link += "&oobCode=\(secret)&apiKey=\(QueryText.encode(key))&lang=\(language.rawValue)"
        if let continueURL { link += "&continueUrl=\(QueryText.encode(continueURL.text))" }
        return link
    }

    /// A code is used up; in the transaction that does what it is for.
    func use(code secret: String) throws {
        try transaction.removeCode(hash: SecretHash.of(secret))
        markUsed(code: secret)
    }
}

// MARK: Looking at one

extension AccountTransaction {
    /// A pending code. Nothing is used up.
    /// - Parameter now: ms since the epoch.
    /// - Throws: INVALID_OOB_CODE for one that never was, is used or is void, EXPIRED_OOB_CODE.
    func pendingCode(_ secret: String, now: Int64) throws -> MailedCode {
        guard let code = try code(hash: SecretHash.of(secret)) else { throw AccountError("INVALID_OOB_CODE") }
        guard now < code.expiresAt else { throw AccountError("EXPIRED_OOB_CODE") }
        return code
    }

    /// The account that a code is bound to, still under the address that it was mailed for.
    func account(of code: MailedCode) throws -> Account {
        guard let uid = code.uid, let account = try account(.id(uid)) else { throw AccountError("INVALID_OOB_CODE") }
        guard code.kind == .recoverEmail || (account.email ?? "") == code.email else { throw AccountError("INVALID_OOB_CODE") }
        guard !account.isDisabled else { throw AccountError("USER_DISABLED") }
        return account
    }

}

extension AccountService {
    /// Looks at a code without using it (accounts contract §6.7).
    func peek(_ secret: String, _ call: AccountCall) throws -> MailedCode {
        try admitCode(from: call.peer)
        return try store.read { transaction in
            let code = try transaction.pendingCode(secret, now: now())
            if code.kind != .signIn { _ = try transaction.account(of: code) }
            return code
        }
    }

    /// Does what a code is for: VERIFY_EMAIL, VERIFY_AND_CHANGE_EMAIL, RECOVER_EMAIL (accounts contract §8).
    /// - Returns: the account as it is now.
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

/// Text for a query's value (RFC 3986 §2.3: all but the unreserved characters encoded).
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
