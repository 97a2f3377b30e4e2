import HTTPTypes
import JSONTree
import Mail
import WireProtocols

/// On whose behalf a request comes (accounts contract §2.6).
enum AccountCaller: Sendable, Equatable {
    /// With an API key, which is no secret: what it may do is in the tokens and codes that it sends.
    case client(key: String)
    case administrator
    /// Neither; only public routes have it.
    case anonymous

    var isAdministrator: Bool { self == .administrator }
}

/// A request to an account route, read.
struct AccountCall: Sendable {
    /// A JSON object.
    let body: JSONValue
    let caller: AccountCaller
    /// The client's address, without port.
    let peer: String
    /// `{p}` of `projects/{p}/…`
    let project: String?
    let request: HTTPInboundRequest

    /// What the device calls itself, cut to 200 bytes.
    var userAgent: String? { request.fields[.userAgent].map { String(decoding: $0.utf8.prefix(200), as: UTF8.self) } }

    /// Of mails and pages.
    var language: Language {
        func field(_ name: String) -> String? { request.fields.first { $0.name.canonicalName == name }?.value }
        return Language(locale: field("x-firebase-locale"), acceptLanguage: field("accept-language"))
    }

    /// What links of this client carry as its key; never empty, or the SDKs do not take them for links.
    var keyForLinks: String { if case .client(let key) = caller { key } else { Self.defaultKey } }

    static let defaultKey = "default"

    // MARK: Fields of the body

    /// A member that is a text; nil when it is absent or null.
    func text(_ name: String) throws(AccountError) -> String? {
        switch body[name] {
        case nil, .null: nil
        case .string(let text): text
        default: throw .invalid(name, "a string is expected")
        }
    }

    /// A member that is a text and not empty.
    func filled(_ name: String) throws(AccountError) -> String? {
        let text = try text(name)
        return text?.isEmpty == true ? nil : text
    }

    /// What is to become of a field of an account: nil leaves it, `.some(nil)` clears it (null or an empty text; §2.2).
    /// - Parameter length: most characters, of Unicode: what is shown as one may be made of any number of them.
    func change(_ name: String, length: Int) throws(AccountError) -> String?? {
        guard body[name] != nil else { return .none }
        guard let text = try filled(name) else { return .some(nil) }
        guard text.utf8.count <= length || text.unicodeScalars.count <= length else {
            throw .invalid(name, "it has at most \(length) characters")
        }
        return .some(text)
    }

    /// A list of texts; empty when absent. A single one counts as a list of one.
    func texts(_ name: String) throws(AccountError) -> [String] {
        switch body[name] {
        case nil, .null: return []
        case .string(let text): return [text]
        case .array(let elements):
            var texts: [String] = []
            for element in elements {
                guard let text = element.string else { throw .invalid(name, "a list of strings is expected") }
                texts.append(text)
            }
            return texts
        default: throw .invalid(name, "a list of strings is expected")
        }
    }

    /// A flag; nil when absent or null. The text forms are those of query strings.
    func flag(_ name: String) throws(AccountError) -> Bool? {
        switch body[name] {
        case nil, .null: nil
        case .bool(let flag): flag
        case .string("true"): true
        case .string("false"): false
        default: throw .invalid(name, "true or false is expected")
        }
    }

    /// Whether a member is there and not null.
    func has(_ name: String) -> Bool { body[name].map { !$0.isNull } ?? false }
}

extension AccountError {
    static func invalid(_ name: String, _ what: String) -> AccountError {
        AccountError(status: 400, "INVALID_ARGUMENT", "Invalid JSON payload received. Invalid value at '\(name)': \(what).")
    }

    static let notFound = AccountError(status: 404, "NOT_FOUND", "Not Found", reason: "notFound")
    static let notBuilt = AccountError(
        status: 501, "NOT_IMPLEMENTED", "This operation is not part of this server.", reason: "unimplemented")
}
