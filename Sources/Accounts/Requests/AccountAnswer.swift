public import HTTPTypes
import JSONTree
import Limits
import Logging
public import WireProtocols

extension AccountService {
    /// Handles a request to any route of the service: the only entry point. The server handles preflights and CORS.
    /// - Parameters:
    ///   - request: with its complete body.
    ///   - peer: the client's address, without port.
    public func answer(_ request: HTTPInboundRequest, peer: String) async -> AccountAnswer {
        let (path, project) = AccountRoute.path(of: request.target)
        guard let routes = AccountRoutes.byPath[path]?.filter({ settings.isDev || !$0.isDevOnly }), let first = routes.first else {
            return AccountAnswer(.notFound)
        }
        if isClosed { return .unavailable }
        let method = request.method == .head ? .get : request.method
        guard let route = routes.first(where: { $0.method == method }) else { return methodNotAllowed(routes, otherThan: first) }
        do {
            let made = try call(request, route, project: project, peer: peer)
            let answer = try await upToDate { try await route.operation(self, made) }
            // OAuth reports errors in responses of its own format.
            signIns.add(path, answer.status.kind == .successful ? nil : "other")
            return answer
        } catch let error as AccountError {
            signIns.add(path, error.code)
            return AccountAnswer(error)
        } catch AccountStoreFault.closed {
            return .unavailable
        } catch AccountStoreFault.unavailable(let reason) {
            faults.log("account request refused", ["path": "\(path)", "reason": "\(reason)"])
            return .logUnreachable
        } catch {
            faults.log("account request failed", ["path": "\(path)", "error": "\(error)"])
            if route.avoidsJSONErrors { return .unavailable }
            return AccountAnswer(
                AccountError(status: 500, "INTERNAL", "The account store does not answer. Try again later.", reason: "internalError"))
        }
    }

    /// The project that the path of a request names; nil if it names none.
    public static func project(in target: HTTPTarget) -> String? { AccountRoute.path(of: target).project }

    private func methodNotAllowed(_ routes: [AccountRoute], otherThan first: AccountRoute) -> AccountAnswer {
        let methods = routes.map(\.method.rawValue).joined(separator: ", ")
        var answer = AccountAnswer(
            AccountError(status: 405, "INVALID_ARGUMENT", "This path takes \(methods).", reason: "httpMethodNotAllowed"))
        answer.fields[.allow] = methods
        return answer
    }

    private func call(
        _ request: HTTPInboundRequest, _ route: AccountRoute, project: String?, peer: String
    ) throws(AccountError) -> AccountCall {
        let caller = try caller(request, route)
        let limit = caller.isAdministrator ? settings.administratorBodyBytes : settings.bodyBytes
        guard request.content.count <= limit else {
            throw AccountError(status: 413, "INVALID_ARGUMENT", "The body has more than \(limit) bytes.", reason: "uploadTooLarge")
        }
        let body: JSONValue = switch route.reading {
        case .json: try Self.json(request.body)
        case .jsonOrForm: try Self.isForm(request) ? Self.form(request.body) : Self.json(request.body)
        case .bytes: .object([])
        }
        let call = AccountCall(body: body, caller: caller, peer: peer, project: project, request: request)
        if !caller.isAdministrator, route.reading == .json, call.has("targetProjectId") {
            throw AccountError("INSUFFICIENT_PERMISSION", "Only authenticated requests can specify target_project_id.")
        }
        return call
    }

    // MARK: Callers

    /// - Throws: 401 for an unknown Bearer token and on routes for administrators only; 403 for a missing key.
    private func caller(_ request: HTTPInboundRequest, _ route: AccountRoute) throws(AccountError) -> AccountCaller {
        if route.callers != .anyone, let bearer = Self.bearer(request.fields) {
            guard admits(bearer) else {
                throw AccountError(
                    status: 401, "UNAUTHENTICATED", "Request had invalid authentication credentials. Expected a secret of this server.",
                    reason: "authError")
            }
            return .administrator
        }
        let key = request.target.value("key") ?? request.fields.first { $0.name.canonicalName == "x-goog-api-key" }?.value
        if let key, !key.isEmpty, route.callers != .administrators { return .client(key: String(key.prefix(256))) }
        switch route.callers {
        case .anyone: return .anonymous
        case .clients: throw AccountError(status: 403, "PERMISSION_DENIED", "The request is missing a valid API key.", reason: "forbidden")
        case .administrators:
            throw AccountError(
                status: 401, "UNAUTHENTICATED",
                "Request is missing required authentication credential. Send a secret of this server as a Bearer token.",
                reason: "required")
        }
    }

    /// `owner` is a public constant, and `ya29.` tokens are unchecked: both are accepted only on development hubs (accounts contract §2.6).
    private func admits(_ bearer: String) -> Bool {
        if settings.isDev, bearer.lowercased() == "owner" || bearer.hasPrefix("ya29.") { return true }
        return isAdministrator(bearer)
    }

    private static func bearer(_ fields: HTTPFields) -> String? {
        guard let value = fields[.authorization] else { return nil }
        let parts = value.split(separator: " ", maxSplits: 1)
        guard let scheme = parts.first, scheme.lowercased() == "bearer" else { return nil }
        return parts.count == 2 ? parts[1].trimmingSpaces : ""
    }

    // MARK: Bodies

    private static func json(_ bytes: [UInt8]) throws(AccountError) -> JSONValue {
        if bytes.allSatisfy({ [0x20, 0x09, 0x0A, 0x0D].contains($0) }) { return .object([]) }
        let body: JSONValue
        do throws(JSONError) { body = try JSONValue(bytes) } catch {
            throw AccountError(status: 400, "INVALID_ARGUMENT", "Invalid JSON payload received. \(error)")
        }
        guard body.members != nil else {
            throw AccountError(status: 400, "INVALID_ARGUMENT", "Invalid JSON payload received. An object is expected.")
        }
        guard !body.holdsNUL else {
            throw AccountError(status: 400, "INVALID_ARGUMENT", "Invalid JSON payload received. No text may hold U+0000.")
        }
        return body
    }

    private static func isForm(_ request: HTTPInboundRequest) -> Bool {
        request.fields[.contentType]?.lowercased().hasPrefix("application/x-www-form-urlencoded") == true
    }

    private static func form(_ bytes: [UInt8]) throws(AccountError) -> JSONValue {
        guard let fields = FormFields(bytes) else {
            throw AccountError(status: 400, "INVALID_ARGUMENT", "Invalid form payload received.")
        }
        return .object(fields.items.map { JSONValue.Member($0.name, .string($0.value)) })
    }
}

extension JSONValue {
    /// Whether a text in it contains U+0000, where SQLite would cut it.
    fileprivate var holdsNUL: Bool {
        switch self {
        case .string(let text): text.utf8.contains(0)
        case .array(let elements): elements.contains(where: \.holdsNUL)
        case .object(let members): members.contains { $0.value.holdsNUL }
        default: false
        }
    }
}

extension Substring {
    fileprivate var trimmingSpaces: String {
        let start = drop { $0 == " " }
        return String(start.lastIndex { $0 != " " }.map { start[...$0] } ?? "")
    }
}

/// The response to an account request.
public struct AccountAnswer: Sendable {
    public var status: HTTPResponse.Status
    /// Without the fields that the transport adds: length, connection, CORS.
    public var fields: HTTPFields
    public var body: [UInt8]

    public init(_ status: HTTPResponse.Status, _ fields: HTTPFields = [:], _ body: [UInt8] = []) {
        self.status = status
        self.fields = fields
        self.body = body
    }

    /// JSON that must not be cached, as most of it contains tokens (accounts contract §2.3).
    init(_ status: HTTPResponse.Status = .ok, json: [UInt8]) {
        self.init(status, [.contentType: "application/json; charset=utf-8", .cacheControl: "no-store", .pragma: "no-cache"], json)
    }

    /// A success of the identity endpoints.
    /// - Parameter kind: `identitytoolkit#…`, which clients check (accounts contract §2.3).
    init(kind: String? = nil, _ members: [JSONValue.Member]) {
        var all: [JSONValue.Member] = []
        all.add("kind", kind.map { "identitytoolkit#\($0)" })
        self.init(json: JSONValue.object(all + members).bytes)
    }

    init(_ error: AccountError) { self.init(HTTPResponse.Status(code: error.status), json: error.body) }

    /// The service is temporarily unavailable, and the client must not conclude anything. An error in JSON would make the SDKs sign their user
    /// out; they treat any other body as a network fault (accounts contract §3.3).
    static var unavailable: AccountAnswer { later("The accounts do not answer at the moment. Try again later.\n") }

    /// This hub cannot reach the cluster's log, to write to it or to read from it.
    static var logUnreachable: AccountAnswer {
        later("The log of this hub's cluster does not answer, so nothing can be changed about accounts. Try again later.\n")
    }

    /// The deletion is stored, but the removal of the account's data has not finished.
    static var removalPending: AccountAnswer {
        later("The account is deleted. The removal of its data takes longer and continues; ask again to wait for its end.\n")
    }

    private static func later(_ text: String) -> AccountAnswer {
        AccountAnswer(
            .serviceUnavailable, [.contentType: "text/plain; charset=utf-8", .cacheControl: "no-store", .retryAfter: "1"], Array(text.utf8))
    }
}

extension HTTPField.Name {
    static let pragma = HTTPField.Name("Pragma") ?? .cacheControl
}

/// The error of a refused account request, as sent on the wire (accounts contract §3).
///
///     {"error":{"code":400,"message":"WEAK_PASSWORD : Password should be at least 8 characters",
///               "errors":[{"message":"…","reason":"invalid","domain":"global"}]}}
///
/// Domain errors have only a code: `AccountError("EMAIL_EXISTS")`.
public struct AccountError: Error, Sendable, Equatable, CustomStringConvertible {
    /// HTTP status; domain errors are all 400.
    public var status = 400
    /// `EMAIL_EXISTS`
    public var code: String
    /// The text after ` : `; must not itself contain ` : `.
    public var detail: String?
    /// `INVALID_ARGUMENT`, `UNAUTHENTICATED`, …; only for errors outside the domain.
    public var statusName: String?
    public var reason = "invalid"

    public init(_ code: String, _ detail: String? = nil) {
        self.code = code
        self.detail = detail
    }

    public init(status: Int, _ statusName: String, _ message: String, reason: String = "invalid") {
        self.status = status
        self.statusName = statusName
        self.reason = reason
        code = message
    }

    /// `CODE` or `CODE : detail`.
    public var message: String { detail.map { "\(code) : \($0)" } ?? code }

    public var description: String { message }

    public var body: [UInt8] {
        var error: [JSONValue.Member] = [.init("code", .int(Int64(status))), .init("message", .string(message))]
        error.append(.init("errors", [["message": .string(message), "reason": .string(reason), "domain": "global"]]))
        error.add("status", statusName)
        return JSONValue.object([.init("error", .object(error))]).bytes
    }
}
