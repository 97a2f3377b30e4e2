import Accounts
import DispatchNet
import HTTPTypes
import HubEngine
import JSONTree
import WireProtocols

/// REST: `/<path>.json`, and `/.settings/…` and `/.inspect/…` for administrators (contract §7).
///
///     request ─► RESTRequest ─► credential ─► RESTExchange ─► Database ─► answer, encoded on the connection's loop
///                                        └──► EventStream ──► Database ─► events, encoded once for all streams of a place
extension Server {
    private static let administrative: Set<String> = [".settings", ".inspect"]

    /// Whether an address is one of REST's, so that its namespace is made on demand.
    static func isREST(_ target: HTTPTarget) -> Bool { isAdministrative(target) || RESTRequest.isMeant(by: target) }

    /// Whether an address is a place of the tree, so that its body may be large.
    private static func isData(_ target: HTTPTarget) -> Bool { !isAdministrative(target) && RESTRequest.isMeant(by: target) }

    /// The largest body that a request may have, known from its head.
    static func bodyLimit(
        _ limits: HTTPLimits, _ accounts: AccountSettings?, isAdministrator: @escaping @Sendable (String) -> Bool
    ) -> @Sendable (HTTPTarget, HTTPFields) -> Int {
        { target, fields in
            guard let accounts, isAccounts(target) else { return isData(target) ? limits.bodyBytes : limits.smallBodyBytes }
            guard isImport(target), let credential = bearer(fields), isAdministrator(credential) else { return accounts.bodyBytes }
            return accounts.administratorBodyBytes
        }
    }

    private static func isAdministrative(_ target: HTTPTarget) -> Bool { target.segments.first.map(administrative.contains) == true }

    func rest(_ request: HTTPInboundRequest, _ connection: Connection, mayOpen: Bool) -> Route {
        if request.method == .options { return .response(RESTResponse.preflight(request)) }
        // A script tag of any page can ask for JSONP.
        guard origins.permits(request, usesReferer: request.target.value("callback") != nil) else { return .response(forbiddenOrigin(request)) }
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
            // A stream goes on behind its check; a single request is over with it.
            let signIn = asked.isStream ? beginSignIn(asked.credential, lane) : nil
            let address = { [self] in countedAddress(of: request, connection) }
            identify(asked.credential, override: asked.override, lane, of: address) { [self] result in
                switch lane.signIns.settled(signIn, result) {
                case .failure(let failure): answer.refuse(RESTRefusal(failure), isHead: asked.isHead)
                case .success(let identity) where asked.isStream:
                    let stream = EventStream(asked, identity, signIn, connection, answer, isChunked: request.isHTTP11, database: database, server: self)
                    stream.address = observingAddress(of: request, connection)
                    stream.begin()
                case .success(let identity):
                    RESTExchange(asked, identity, answer, lane: lane, database: database, server: self).begin(request.body, isHTTP11: request.isHTTP11)
                }
            }
        }
    }

    /// Looks at a large write before its body is read: calls back on the lane's loop, at once where nobody has to be asked, with
    /// the answer that it would get whatever the body is, or nil. A multi-path update has its places in its body.
    func judge(_ head: HTTPInboundRequest, _ connection: Connection, _ lane: Lane, _ done: @escaping (RESTRefusal?) -> Void) {
        guard Self.isData(head.target), origins.permits(head, usesReferer: head.target.value("callback") != nil),
            let database = hub.database(Namespace.name(of: head, default: settings.namespace)),
            let asked = try? RESTRequest(head), asked.method == .put || asked.method == .patch || asked.method == .post
        else { return done(nil) }
        let address = { [self] in countedAddress(of: head, connection) }
        identify(asked.credential, override: asked.override, lane, of: address) { [self] result in
            switch lane.signIns.settled(nil, result) {
            case .failure(let failure):
                done(failure.code == .invalidToken || failure.code == .expiredToken ? RESTRefusal(failure) : nil)
            case .success(let identity):
                guard asked.method == .put, !mayAllowWrite(asked.path, in: database, by: identity) else { return done(nil) }
                done(.permissionDenied)
            }
        }
    }

    /// Finds out who asks; calls back on the lane's loop, at once where nobody has to be asked.
    /// - Parameter address: see `TokenChecks.verify`.
    func identify(
        _ credential: String?, override: Node?, _ lane: Lane, of address: () -> String?,
        _ done: @escaping (Result<Identity, Failure>) -> Void
    ) {
        guard let credential else { return done(.success(.anonymous)) }
        let box = LoopBound(done)
        Credentials(self).identify(credential, override: override, of: address) { result in
            if lane.loop.isOnLoop { box.value(result) } else { lane.loop.execute { box.value(result) } }
        }
    }

    /// What anybody gets who forgets the `.json`.
    func appendJSON(_ request: HTTPInboundRequest) -> [UInt8] {
        RESTResponse.response(
            .notFound, RESTResponse.Head(content: .text), Array("append .json to your request URI to use the REST API.\n".utf8),
            keepsAlive: request.keepsAlive, isHead: request.method == .head)
    }
}

/// Something that goes through a verifier's thread and is used on its loop only.
struct LoopBound<Value>: @unchecked Sendable {
    // Sendable: made and used on one loop; in between nobody looks at it.
    let value: Value
    init(_ value: Value) { self.value = value }
}

extension RESTRefusal {
    /// There is no memory for a request now.
    init(_ refusal: MemoryShare.Refusal) {
        let text = switch refusal {
        case .process: "The hub's memory for requests under way (--memory-budget) is used up at the moment. Try again later."
        case .share: "This address' part of the hub's memory for requests under way is used up at the moment. Try again later, or send less at once."
        }
        self.init(.serviceUnavailable, text)
    }

    /// What the engine or a credential check says, in REST's statuses (contract §7.4): 401 for rules and tokens alike.
    init(_ failure: Failure) {
        switch failure.code {
        case .permissionDenied, .invalidToken: self.init(.unauthorized, failure.message)
        case .expiredToken: self.init(.unauthorized, "Auth token is expired")
        case .unavailable: self.init(.serviceUnavailable, failure.message)
        case .dataStale: self.init(.preconditionFailed, failure.message)
        case .tooBig, .failure, .unknownObserver, .duplicateObserver: self.init(.badRequest, failure.message)
        }
    }
}
