import DispatchNet
import HTTPTypes
import HubEngine
import JSONTree
import WireProtocols

extension Server {
    /// Carries out a request to `/.settings/…`, `/.inspect/…` or `/.outbox`: for administrators only, whatever the rules say.
    func administer(_ request: HTTPInboundRequest, _ database: Database, _ connection: Connection, _ answer: PendingResponse) {
        let credential = RESTRequest.credential(request)
        let call = AdministrativeCall(
            server: self, request: request, database: database, response: answer,
            isOfHub: credential.map(authentication.admitsToHub) == true)
        let routes = (AdministrativeRoute.byPath[call.path] ?? []).filter { settings.isDev || !$0.isForTestSuites }
        if !routes.isEmpty, routes.allSatisfy(\.isForTestSuites) { return call.carryOut(routes) }
        // No override: `auth_variable_override` applies to data only.
        let address = { [self] in countedAddress(of: request, connection) }
        identify(credential, to: database.name, override: nil, lanes[answer.loopIndex], of: address) { result in
            switch result {
            case .failure(let failure): answer.refuse(RESTRefusal(failure), isHead: call.isHead)
            case .success(let identity) where !identity.isAdmin:
                answer.refuse(RESTRefusal(.unauthorized, "Permission denied"), isHead: call.isHead)
            case .success: call.carryOut(routes)
            }
        }
    }
}

/// A request to an administrative route. It is answered once, from any thread.
struct AdministrativeCall: Sendable {
    let server: Server
    let request: HTTPInboundRequest
    let database: Database
    let response: PendingResponse
    /// Whether the caller administers the whole hub, and not only this database.
    let isOfHub: Bool

    /// The secrets that the call concerns; a new one is added to the first. They are those of the database that it names by `ns` or host,
    /// or of its own if it may do no more; otherwise the hub's. On a hub with one database they are both. Empty if the database was
    /// removed.
    var secrets: [Secrets] {
        let own = server.authentication.secrets(of: namespace).map { [$0] } ?? []
        guard isOfHub else { return own }
        guard Namespace.isNamed(by: request) else { return [server.secrets] }
        return server.catalog.names == [namespace] ? [server.secrets] + own : own
    }

    var namespace: String { database.name }
    var isHead: Bool { request.method == .head }
    /// The body; null if it is not JSON.
    var body: JSONValue { (try? JSONValue(request.body)) ?? .null }
    /// The last segment of the path without `.json`.
    var lastSegment: String { String((name.lastIndex(of: "/").map { name[name.index(after: $0)...] } ?? name[...])) }

    private var name: String {
        let name = request.target.segments.joined(separator: "/")
        return name.hasSuffix(".json") ? String(name.dropLast(".json".count)) : name
    }

    /// The path in the form of routes.
    var path: String {
        let list = name.dropLast(lastSegment.count)
        return list.utf8.count { $0 == UInt8(ascii: "/") } == 2 ? list + "{id}" : name
    }

    func parameter(_ name: String) -> String? { request.target.value(name) }

    /// A number of the query; 0 when it is absent or anything else.
    func number(_ name: String) -> Int { parameter(name).flatMap(Int.init) ?? 0 }

    /// - Parameter routes: those of the path.
    fileprivate func carryOut(_ routes: [AdministrativeRoute]) {
        if !server.serves(database) {
            return response.sendLater(RESTRefusal.databaseIsRemoved.status, RESTRefusal.databaseIsRemoved.body, isHead: isHead)
        }
        if routes.isEmpty { return refuse(.notFound, "There is no /\(name.prefix(64)).") }
        let method: HTTPRequest.Method = isHead ? .get : request.method
        if let route = routes.first(where: { $0.method == method }) {
            guard isOfHub || !route.isForHub else {
                return refuse(.unauthorized, "This concerns the whole hub: the secret of one database is not enough.")
            }
            return route.operation(self)
        }
        let allowed = routes.map { $0.method == .get ? "GET, HEAD" : $0.method.rawValue }.joined(separator: ", ")
        let refusal = RESTRefusal(.methodNotAllowed, "Method \(request.method.rawValue) is not supported here.")
        response.sendLater(refusal.status, refusal.body, allow: allowed, isHead: isHead)
    }

    /// - Parameter json: the encoded answer.
    func answer(_ json: [UInt8], _ status: HTTPResponse.Status = .ok) { response.sendLater(status, json, isHead: isHead) }

    func answer(_ value: JSONValue) { answer(value.line) }

    func refuse(_ status: HTTPResponse.Status, _ text: String) { answer(RESTRefusal(status, text).body, status) }
}

extension JSONValue {
    /// The text with a line end.
    var line: [UInt8] { bytes + [UInt8(ascii: "\n")] }
}
