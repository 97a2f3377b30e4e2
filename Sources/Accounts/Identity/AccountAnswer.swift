public import HTTPTypes

/// The answer to a request for accounts.
public struct AccountAnswer: Sendable {
    public var status: HTTPResponse.Status
    public var fields: HTTPFields
    public var body: [UInt8]
    /// Nothing may be sent and the connection is to be closed: to an error in JSON the SDKs would sign their user out, a lost
    /// connection they try again (accounts contract §3.3).
    public var closesConnection = false

    public init(_ status: HTTPResponse.Status, _ fields: HTTPFields = [:], _ body: [UInt8] = []) {
        self.status = status
        self.fields = fields
        self.body = body
    }

    /// JSON that nobody may keep: most of it holds tokens (accounts contract §2.3).
    init(_ status: HTTPResponse.Status = .ok, json: [UInt8]) {
        self.init(status, [.contentType: "application/json; charset=utf-8", .cacheControl: "no-store", .pragma: "no-cache"], json)
    }

    /// A success of the identity endpoints.
    /// - Parameter kind: `identitytoolkit#…`, which clients look at (accounts contract §2.3).
    init(kind: String? = nil, _ members: [JSONValue.Member]) {
        var all: [JSONValue.Member] = []
        all.add("kind", kind.map { "identitytoolkit#\($0)" })
        self.init(json: JSONValue.object(all + members).bytes)
    }

    init(_ error: AccountError) { self.init(HTTPResponse.Status(code: error.status), json: error.body) }

    static var closing: AccountAnswer {
        var answer = AccountAnswer(.serviceUnavailable)
        answer.closesConnection = true
        return answer
    }
}

extension HTTPField.Name {
    static let pragma = HTTPField.Name("Pragma") ?? .cacheControl
}
