import Accounts
import DispatchNet
import HTTPTypes
import HubEngine
import JSONTree
import SecurityRules
import WireProtocols

/// REST: `/<path>.json`, and `/.settings/…`, `/.inspect/…` and `/.outbox` for administrators (contract §7).
///
///     request ─► RESTRequest ─► credential ─► RESTExchange ─► Database ─► response, encoded on the connection's loop
///                                        └──► EventStream ──► Database ─► events, encoded once for all streams of a place
extension Server {
    private static let administrative: Set<String> = [".settings", ".inspect", ".outbox", ".outbox.json"]

    /// Whether a target is a REST endpoint, so that a development hub creates its namespace on demand.
    static func isREST(_ target: HTTPTarget) -> Bool { isAdministrative(target) || RESTRequest.isDataPath(target) }

    /// Whether a target is a place of the tree, so that its body may be large.
    private static func isData(_ target: HTTPTarget) -> Bool { !isAdministrative(target) && RESTRequest.isDataPath(target) }

    /// A function from a request's head to the largest body that it may have, in bytes.
    static func bodyLimit(
        _ limits: HTTPLimits, _ accounts: AccountSettings?, _ authentication: Authentication
    ) -> @Sendable (HTTPTarget, HTTPFields) -> Int {
        { target, fields in
            guard let accounts, isAccounts(target) else { return isData(target) ? limits.bodyBytes : limits.smallBodyBytes }
            guard isImport(target), let credential = bearer(fields),
                authentication.project(for: target, host: nil)?.isAdministrator(credential) == true
            else { return accounts.bodyBytes }
            return accounts.administratorBodyBytes
        }
    }

    private static func isAdministrative(_ target: HTTPTarget) -> Bool { target.segments.first.map(administrative.contains) == true }

    func rest(_ request: HTTPInboundRequest, _ connection: Connection, mayOpen: Bool) -> Route {
        if request.method == .options { return .response(RESTResponse.preflight(request)) }
        // A script tag of any page can request JSONP.
        guard origins.permits(request, usesReferer: request.target.value("callback") != nil) else {
            return .response(forbiddenOrigin(request))
        }
        let name = Namespace.name(of: request, default: settings.namespace)
        if mayOpen, settings.isDev, Namespace.isValid(name), hub.database(name) == nil { return .opening(name) }
        guard let database = database(for: request, connection) else { return .response(unknownNamespace(request)) }
        if let first = request.target.segments.first, Self.administrative.contains(first) {
            return .pending { [self] answer in administer(request, database, connection, answer) }
        }
        var asked: RESTRequest
        do throws(RESTRefusal) {
            asked = try RESTRequest(request)
            if asked.method != .get, asked.writeSize == nil { asked.writeSize = smallSettings.writeSize(of: database.name) }
        } catch {
            return .response(RESTResponse.refusal(error, keepsAlive: request.keepsAlive, isHead: request.method == .head))
        }
        let lane = lanes[connection.loop.index]
        return .pending { [self, asked] answer in
            // A stream outlives the check of its credential; a single request does not.
            let signIn = asked.isStream ? beginSignIn(asked.credential, to: database, lane) : nil
            let address = { [self] in countedAddress(of: request, connection) }
            identify(asked.credential, to: database.name, override: asked.override, lane, of: address) { [self] result in
                switch lane.signIns.settle(signIn, result) {
                case .failure(let failure): answer.refuse(RESTRefusal(failure), isHead: asked.isHead)
                case .success where !serves(database):
                    if let signIn { lane.signIns.end(signIn) }
                    answer.refuse(.databaseIsRemoved, isHead: asked.isHead)
                case .success(let identity) where asked.isStream:
                    answer.sentBytes = byteCounter(of: identity)
                    let stream = EventStream(
                        asked, identity, signIn, connection, answer, isChunked: request.isHTTP11, database: database, server: self)
                    stream.address = observingAddress(of: request, connection)
                    stream.begin()
                case .success(let identity):
                    answer.sentBytes = byteCounter(of: identity)
                    let exchange = RESTExchange(asked, identity, answer, lane: lane, database: database, server: self)
                    if asked.isCount || CountTerms.concern(identity.auth) && database.countsWrites {
                        exchange.address = observingAddress(of: request, connection)
                    }
                    exchange.begin(request.content, isHTTP11: request.isHTTP11)
                }
            }
        }
    }

    /// Checks a large write before its body is read. Calls back on the lane's loop, immediately if no verifier is needed: with a refusal
    /// that does not depend on the body, or nil. Multi-path updates pass: their places are in the body.
    func checkPermissionEarly(
        _ head: HTTPInboundRequest, _ connection: Connection, _ lane: LoopSessions, _ done: @escaping (RESTRefusal?) -> Void
    ) {
        guard Self.isData(head.target), origins.permits(head, usesReferer: head.target.value("callback") != nil),
            let database = hub.database(Namespace.name(of: head, default: settings.namespace)),
            let asked = try? RESTRequest(head), asked.method == .put || asked.method == .patch || asked.method == .post
        else { return done(nil) }
        let address = { [self] in countedAddress(of: head, connection) }
        identify(asked.credential, to: database.name, override: asked.override, lane, of: address) { [self] result in
            switch lane.signIns.settle(nil, result) {
            case .failure(let failure):
                done(failure.code == .invalidToken || failure.code == .expiredToken ? RESTRefusal(failure) : nil)
            case .success(let identity):
                guard asked.method == .put, !mayAllowWrite(asked.path, in: database, by: identity) else { return done(nil) }
                done(.permissionDenied)
            }
        }
    }

    /// Identifies the requester. Calls back on the lane's loop, immediately if no verifier is needed.
    /// - Parameters:
    ///   - database: nil for requests that concern the whole hub.
    ///   - address: see `TokenChecks.verify`.
    func identify(
        _ credential: String?, to database: String?, override: Node?, _ lane: LoopSessions, of address: () -> String?,
        _ done: @escaping (Result<Identity, Failure>) -> Void
    ) {
        guard let credential else { return done(.success(.anonymous)) }
        let box = LoopBound(done)
        Credentials(self, database).identify(credential, override: override, of: address) { result in
            if lane.loop.isOnLoop { box.value(result) } else { lane.loop.execute { box.value(result) } }
        }
    }

    /// Whether a request's method is one that writes.
    func isWrite(_ request: HTTPInboundRequest) -> Bool { [.put, .patch, .post, .delete].contains(request.method) }

    /// The response to a data request without `.json`: such a target can be neither read nor written.
    func appendJSON(_ request: HTTPInboundRequest) -> [UInt8] {
        // No method reads such a target (RFC 9110 §10.2.1), except at the root, which shows the console.
        RESTResponse.response(
            isWrite(request) ? .methodNotAllowed : .notFound,
            RESTResponse.Head(content: .text, allow: isWrite(request) ? request.target.path == "/" ? "GET, HEAD" : "" : nil),
            Array("append .json to your request URI to use the REST API.\n".utf8),
            keepsAlive: request.keepsAlive, isHead: request.method == .head)
    }
}

/// A value that belongs to one loop while another thread carries it back there.
struct LoopBound<Value>: @unchecked Sendable {
    // Sendable: created and used on one loop; other threads only pass it on.
    let value: Value
    init(_ value: Value) { self.value = value }
}

extension RESTRefusal {
    /// The database of the request was removed meanwhile.
    static let databaseIsRemoved = RESTRefusal(.notFound, "The database was removed.")

    /// The memory budget refuses the request: 503.
    init(_ refusal: MemoryShare.Refusal) {
        let text = switch refusal {
        case .process: "The hub's memory for requests under way (--memory-budget) is used up at the moment. Try again later."
        case .share:
            "This address' part of the hub's memory for requests under way is used up at the moment. "
                + "Try again later, or send less at once."
        }
        self.init(.serviceUnavailable, text)
    }

    /// The REST status of a failure (contract §7.4): 401 for rules and tokens alike, 400 with the rules' own messages.
    init(_ failure: Failure) {
        switch failure.code {
        case .permissionDenied where !failure.ruleMessages.isEmpty:
            self.init(.badRequest, failure.message, messages: failure.ruleMessages)
        case .permissionDenied, .invalidToken: self.init(.unauthorized, failure.message)
        case .expiredToken: self.init(.unauthorized, "Auth token is expired")
        case .unavailable: self.init(.serviceUnavailable, failure.message)
        case .overBudget, .tooMany:
            self.init(.tooManyRequests, failure.message)
            retryAfterSeconds = failure.retryAfterMs.map { Int(($0 + 999) / 1000) }
        case .dataStale: self.init(.preconditionFailed, failure.message)
        case .tooBig, .failure, .missingIndex, .unknownObserver, .duplicateObserver: self.init(.badRequest, failure.message)
        }
    }
}
