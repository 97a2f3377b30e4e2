import JSONTree
import Mail

/// What a mailed code is for (accounts contract §6.6, §8). The raw value is the `requestType` of the wire and of the store.
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
