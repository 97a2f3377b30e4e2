public import HTTPTypes
import JSONTree

/// Why a REST request is refused, with the contract's texts (§7.5). A refused request has no effect.
public struct RESTRefusal: Error, Sendable, Hashable {
    public var status: HTTPResponse.Status
    /// The `error` text in the response body.
    public var text: String
    /// The messages of the violated rules, a list that replaces `text`; empty for all other refusals.
    public var messages: [String]
    /// When the client may try again (`Retry-After`, RFC 9110 §10.2.3); nil if unknown.
    public var retryAfterSeconds: Int?

    public init(_ status: HTTPResponse.Status, _ text: String, messages: [String] = []) {
        self.status = status
        self.text = text
        self.messages = messages
    }

    static func bad(_ text: String) -> RESTRefusal { RESTRefusal(.badRequest, text) }

    static let badPath = bad("Invalid path: Invalid token in path")
    static let longKey = bad("Invalid path: a key has more than \(Key.maxBytes) bytes")
    static let badData = bad("Invalid data; couldn't parse JSON object, array, or value.")
    static let noObject = bad("Invalid data; couldn't parse JSON object. Are you sending a JSON object with valid key names?")
    static let noData = bad("Error: No data supplied.")
    static let badOrder = bad("orderBy must be a valid JSON encoded path")
    static let noOrder = bad("orderBy must be defined when other query parameters are defined")
    static let badBound = bad("Constraint index field must be a JSON primitive")
    static let badKeyBound = bad("Provided key index type is invalid, must be string")
    static let bothLimits = bad("Only one of limitToFirst and limitToLast may be specified")
    static let equalAndBound = bad("equalTo cannot be specified in addition to startAfter, startAt, endAt, or endBefore")
    static let mixedCondition = bad(
        "Mixing 'shallow', querying parameters or 'print=silent' and if-match or if-none-match requests is not supported")
    static let mixedETag = bad("Mixing 'shallow' and etag requests is not supported")

    /// The refusal of a write by the rules.
    public static let permissionDenied = RESTRefusal(.unauthorized, "Permission denied")
    /// The values of a body take more memory than the budget allows.
    public static let overBudget = RESTRefusal(.contentTooLarge, JSONError.overBudget(offset: 0).description)
    public static let writeTooBig = bad("Data to write exceeds the maximum size that can be modified with a single request.")
    public static let readTooBig = bad("The specified payload is too large, please request a location with less data.")
    public static let tookTooLong = bad("The read took longer than the request's timeout; ask for less, or raise it (at most 15min).")

    /// The error as REST clients parse it (contract §7.4).
    public var body: [UInt8] {
        var writer = JSONWriter()
        writer.raw("{\n  \"error\" : ")
        if messages.isEmpty { writer.string(text) } else { writer.strings(messages) }
        writer.raw("\n}\n")
        return writer.bytes
    }
}

extension JSONWriter {
    /// A list of texts.
    mutating func strings(_ texts: [String]) {
        raw("[")
        for (i, text) in texts.enumerated() {
            if i > 0 { raw(",") }
            string(text)
        }
        raw("]")
    }
}
