import HTTPTypes
import JSONTree
import Mail
import WireProtocols

/// The caller of a request (accounts contract §2.6).
enum AccountCaller: Sendable, Equatable {
    /// A client with an API key, which is not a secret: its permissions come from the tokens and codes that it sends.
    case client(key: String)
    case administrator
    /// Neither; allowed only on public routes.
    case anonymous

    var isAdministrator: Bool { self == .administrator }
}

/// A parsed request to an account route.
struct AccountCall: Sendable {
    /// A JSON object.
    let body: JSONValue
    let caller: AccountCaller
    /// The client's address, without port.
    let peer: String
    /// `{p}` of `projects/{p}/…`
    let project: String?
    let request: HTTPInboundRequest

    /// The user agent of the device, cut to 200 bytes.
    var userAgent: String? { request.fields[.userAgent].map { String(decoding: $0.utf8.prefix(200), as: UTF8.self) } }

    /// The language of mails and pages.
    var language: Language {
        func field(_ name: String) -> String? { request.fields.first { $0.name.canonicalName == name }?.value }
        return Language(locale: field("x-firebase-locale"), acceptLanguage: field("accept-language"))
    }

    /// The API key for links to this client; never empty, as the SDKs ignore links without one.
    var keyForLinks: String { if case .client(let key) = caller { key } else { Self.defaultKey } }

    static let defaultKey = "default"

    // MARK: Fields of the body

    /// A text member; nil if absent or null.
    func text(_ name: String) throws(AccountError) -> String? {
        switch body[name] {
        case nil, .null: nil
        case .string(let text): text
        default: throw .invalid(name, "a string is expected")
        }
    }

    /// A non-empty text member.
    func filled(_ name: String) throws(AccountError) -> String? {
        let text = try text(name)
        return text?.isEmpty == true ? nil : text
    }

    /// The change of an account's field: nil leaves it, `.some(nil)` clears it (null or an empty text; §2.2).
    /// - Parameter length: the most Unicode scalars. Scalars, as one visible character may have any number of them.
    func change(_ name: String, length: Int) throws(AccountError) -> String?? {
        guard body[name] != nil else { return .none }
        guard let text = try filled(name) else { return .some(nil) }
        guard text.utf8.count <= length || text.unicodeScalars.count <= length else {
            throw .invalid(name, "it has at most \(length) characters")
        }
        return .some(text)
    }

    /// Second factors are not supported, and accepting one would give false security. Empty lists are allowed: `[]`, `{}`.
    /// - Throws: OPERATION_NOT_ALLOWED.
    func refuseSecondFactors() throws(AccountError) {
        for named in [body["mfaInfo"], body["mfa"]] {
            let factors = named?.members == nil ? named : named?["enrollments"]
            switch factors {
            case nil, .null, .array([]): continue
            default: throw AccountError("OPERATION_NOT_ALLOWED", "There are no second factors here; remove them from the account first")
            }
        }
    }

    /// A list of texts; empty if absent. A single text counts as a list of one.
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

    /// A flag; nil if absent or null. Query strings send it as text.
    func flag(_ name: String) throws(AccountError) -> Bool? {
        switch body[name] {
        case nil, .null: nil
        case .bool(let flag): flag
        case .string("true"): true
        case .string("false"): false
        default: throw .invalid(name, "true or false is expected")
        }
    }

    /// Whether a member is present and not null.
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

/// The fields of `application/x-www-form-urlencoded` text, in order; names may repeat.
struct FormFields: Sendable, Equatable {
    struct Item: Sendable, Equatable {
        let name: String
        let value: String
    }

    private(set) var items: [Item] = []

    /// Nil for text that is not UTF-8, or contains U+0000 or a stray `%`.
    init?(_ bytes: [UInt8]) {
        for part in bytes.split(separator: UInt8(ascii: "&")) {
            guard let item = Self.item(part, isLenient: false) else { return nil }
            items.append(item)
        }
    }

    /// Parses leniently text that is not or only partly encoded, as Apple's SDK sends (accounts contract §7.1).
    init(lenient text: String) {
        for part in Array(text.utf8).split(separator: UInt8(ascii: "&")) {
            if let item = Self.item(part, isLenient: true) { items.append(item) }
        }
    }

    /// The first value of a name.
    subscript(name: String) -> String? { items.first { $0.name == name }?.value }

    private static func item(_ part: ArraySlice<UInt8>, isLenient: Bool) -> Item? {
        let equals = part.firstIndex(of: UInt8(ascii: "=")) ?? part.endIndex
        guard let name = decode(part[..<equals], isLenient: isLenient) else { return nil }
        return decode(part[equals...].dropFirst(), isLenient: isLenient).map { Item(name: name, value: $0) }
    }

    private static func decode(_ bytes: ArraySlice<UInt8>, isLenient: Bool) -> String? {
        var decoded: [UInt8] = []
        decoded.reserveCapacity(bytes.count)
        var at = bytes.startIndex
        while at < bytes.endIndex {
            let byte = bytes[at]
            if byte == UInt8(ascii: "%") {
                if at + 2 < bytes.endIndex, let high = hex(bytes[at + 1]), let low = hex(bytes[at + 2]) {
                    decoded.append(high << 4 | low)
                    at += 3
                    continue
                }
                guard isLenient else { return nil }
            }
            decoded.append(byte == UInt8(ascii: "+") ? 0x20 : byte)
            at += 1
        }
        guard !decoded.contains(0) else { return nil }
        return isLenient ? String(decoding: decoded, as: UTF8.self) : String(validating: decoded, as: UTF8.self)
    }

    private static func hex(_ byte: UInt8) -> UInt8? {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): byte - UInt8(ascii: "0")
        case UInt8(ascii: "a")...UInt8(ascii: "f"): byte - UInt8(ascii: "a") + 10
        case UInt8(ascii: "A")...UInt8(ascii: "F"): byte - UInt8(ascii: "A") + 10
        default: nil
        }
    }
}
