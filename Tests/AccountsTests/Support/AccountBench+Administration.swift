import HTTPTypes
import JSONTree
import Testing

@testable import Accounts

/// An error answer.
struct Refusal: Error, Equatable, CustomStringConvertible {
    let status: Int
    /// `error.message`
    let message: String
    /// `error.status`, of errors outside the account domain.
    let name: String?

    init(_ message: String) { (self.status, self.message, name) = (400, message, nil) }

    init(_ status: Int, _ message: String, _ name: String?) { (self.status, self.message, self.name) = (status, message, name) }

    var description: String { "\(status) \(message)" }
}

extension AccountBench {
    static let v1 = "identitytoolkit.googleapis.com/v1"
    static let legacy = "www.googleapis.com/identitytoolkit/v3/relyingparty"

    /// - Throws: `Refusal` for an error, after checking its shape (accounts contract §3.1).
    @discardableResult
    func exchange(
        _ method: HTTPRequest.Method, _ path: String, _ body: JSONValue? = nil, authorization: String? = nil
    ) async throws -> JSONValue {
        var fields: HTTPFields = [.contentType: "application/json"]
        fields[.authorization] = authorization
        let reply = try await ask(path, method: method, key: false, fields: fields, raw: body?.json ?? "")
        let value = try #require(reply.body, "no JSON: \(reply.text)")
        guard reply.status != 200 else { return value }
        let error = try #require(value["error"])
        #expect(error["code"] == .int(Int64(reply.status)))
        for entry in try #require(error["errors"]?.elements) {
            for member in try #require(entry.members) { #expect(member.value.string != nil) }
        }
        throw Refusal(reply.status, try #require(error["message"]?.string), error["status"]?.string)
    }

    /// `accounts:update` and the like, called by an administrator with a secret.
    @discardableResult
    func administrate(_ verb: String, _ body: JSONValue? = [:], _ method: HTTPRequest.Method = .post) async throws -> JSONValue {
        try await exchange(method, "\(Self.v1)/projects/demo-app/\(verb)", body, authorization: "Bearer \(Self.administrator)")
    }

    /// `accounts:signUp` and the like, called by an app.
    @discardableResult
    func asClient(_ verb: String, _ body: JSONValue) async throws -> JSONValue {
        try await exchange(.post, "\(Self.v1)/accounts:\(verb)?key=any", body)
    }

    @discardableResult
    func development(_ method: HTTPRequest.Method, _ path: String, _ body: JSONValue? = nil) async throws -> JSONValue {
        try await exchange(method, "emulator/v1/projects/demo-app/\(path)", body)
    }

    /// A new user with the password `correct horse`.
    @discardableResult
    func newUser(_ email: String) async throws -> (uid: String, session: JSONValue) {
        let session = try await asClient("signUp", ["email": .string(email), "password": "correct horse"])
        return (try #require(session["localId"]?.string), session)
    }

    func refreshed(_ session: JSONValue) async throws -> JSONValue {
        let body: JSONValue = ["grantType": "refresh_token", "refreshToken": session["refreshToken"] ?? .null]
        let tokens = try await exchange(.post, "securetoken.googleapis.com/v1/token?key=any", body)
        return ["idToken": tokens["access_token"] ?? .null, "refreshToken": tokens["refresh_token"] ?? .null]
    }

    /// An account as an administrator sees it; nil if it does not exist.
    func seen(_ uid: String) async throws -> JSONValue? {
        try await administrate("accounts:lookup", ["localId": [.string(uid)]])["users"]?.elements?.first
    }

    /// The claims of an ID token.
    func claims(_ session: JSONValue) -> JSONValue { Reply.claims(session["idToken"]) }

    func sessionCookie(_ idToken: JSONValue?, seconds: JSONValue) async throws -> JSONValue? {
        let body: JSONValue = ["idToken": idToken ?? .null, "validDuration": seconds]
        let path = "\(Self.v1)/projects/demo-app:createSessionCookie"
        return try await exchange(.post, path, body, authorization: "Bearer \(Self.administrator)")["sessionCookie"]
    }
}
