public import HTTPTypes
import JSONTree
public import WireProtocols

/// What a request for accounts is answered with.
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

    public init(_ error: AccountError) {
        self.init(HTTPResponse.Status(code: error.status), [.contentType: "application/json; charset=utf-8"], error.body)
    }
}

extension AccountService {
    /// Answers any request whose path is the accounts'.
    /// - Parameter peer: the numeric address that it comes from, without a port.
    public func answer(_ request: HTTPInboundRequest, peer: String) async -> AccountAnswer {
        AccountAnswer(AccountError(status: 404, "NOT_FOUND", "There is no \(request.target.path.prefix(200)).", reason: "notFound"))
    }
}
