public import HTTPTypes
import JSONTree

/// The answer to a request for accounts.
public struct AccountAnswer: Sendable {
    public var status: HTTPResponse.Status
    /// Without what the transport adds: length, connection, CORS.
    public var fields: HTTPFields
    public var body: [UInt8]

    public init(_ status: HTTPResponse.Status, _ fields: HTTPFields = [:], _ body: [UInt8] = []) {
        self.status = status
        self.fields = fields
        self.body = body
    }

    /// JSON that no cache may keep: most of it holds tokens (accounts contract §2.3).
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

    /// The service cannot answer now, and the client is not to conclude anything: to an error in JSON the SDKs would sign their user
    /// out, what is no JSON they take for a fault of the network (accounts contract §3.3).
    static var unavailable: AccountAnswer {
        AccountAnswer(
            .serviceUnavailable, [.contentType: "text/plain; charset=utf-8", .cacheControl: "no-store", .retryAfter: "1"],
            Array("The accounts do not answer at the moment. Try again later.\n".utf8))
    }
}

extension HTTPField.Name {
    static let pragma = HTTPField.Name("Pragma") ?? .cacheControl
}
