import Accounts
import Cryptography
import DispatchNet
import HTTPTypes
import HubEngine
import JSONTree
import Limits
import Logging
import WireProtocols

/// How a request is handled.
enum Route {
    case response([UInt8])
    case refusal(HTTPFailure)
    /// The response comes later, through the object that the closure gets.
    case pending((PendingResponse) -> Void)
    /// Open the namespace, then route the request again.
    case opening(String)
    /// Send the bytes, then hand the connection to the WebSocket.
    case upgrade([UInt8], () -> WebSocketCarrier)
}

extension Server {
    /// Finds the endpoint of a request (design: reserved paths begin with a dot and so never collide with data).
    /// - Parameter mayOpen: false when its namespace has just been opened, or refused.
    func route(_ request: HTTPInboundRequest, _ connection: Connection, mayOpen: Bool) -> Route {
        let first = request.target.segments.first
        if let first, [".ws", ".lp", ".observe"].contains(first) {
            guard origins.permits(request, usesReferer: first == ".lp") else {
                return first == ".observe" ? refusal(of: request, connection) : .response(forbiddenOrigin(request))
            }
            let name = Namespace.name(of: request, default: settings.namespace)
            if mayOpen, settings.isDev, Namespace.isValid(name), hub.database(name) == nil { return .opening(name) }
        }
        if Self.isAccounts(request.target) { return account(request, connection) }
        switch first {
        case nil: return .response(root(request))
        case ".ws":
            if let joined = request.target.value("s"), !joined.isEmpty {
                return webSocket(request, connection) { [self] in join($0, to: joined, in: $1, request) }
            }
            return webSocket(request, connection) { [self] carrier, database in
                RealtimeSession(
                    carrier, id: database.sessionPrefix + SecureRandom.text(32), host: dialled(request),
                    replacing: request.target.value("ls"), lane: carrier.lane.index, database: database, server: self)
            }
        case ".lp": return longPoll(request, connection)
        case ".observe":
            if let version = request.target.value("v"), version != Self.observeVersion {
                let reason = "This hub speaks version \(Self.observeVersion) of the observe protocol."
                return closing(request, connection, reason) { .refusal($0) }
            }
            return webSocket(request, connection, deflate: settings.limits.deflate) { [self] carrier, database in
                ObserveSession(carrier, lane: carrier.lane.index, database: database, server: self)
            }
        case ".console": return .response(consoleFile(request))
        case ".metrics":
            guard mayReadMetrics(request, connection) else { return .response(nothingHere(request)) }
            return .pending { [self] answer in sendMetrics(request, connection, answer) }
        case ".health": return .response(health(request))
        case ".push": return .response(pushKey(request))
        default:
            if Self.isREST(request.target) { return rest(request, connection, mayOpen: mayOpen) }
            if request.target.path == "*" { return .response(RESTResponse.preflight(request)) }
            return .response(first?.first == "." ? nothingHere(request) : appendJSON(request))
        }
    }

    /// Redirects browsers to the console, and describes the hub to programs. The SDKs' tools ask an emulator here whether accounts are
    /// ready (accounts contract §6.10); a development hub answers that.
    private func root(_ request: HTTPInboundRequest) -> [UInt8] {
        if isWrite(request) { return appendJSON(request) }
        let asksForPage = request.fields[values: .accept].contains { $0.contains("text/html") }
        // The page's own default is the database "default".
        if asksForPage { return redirect("/.console/" + (settings.namespace == "default" ? "" : "#ns=\(settings.namespace)"), request) }
        let text = settings.isDev && accounts != nil
            ? "{\"authEmulator\":{\"ready\":true}}\n"
            : "{\"hub\":\"vigla\",\"console\":\"/.console/\",\"data\":\"/<path>.json\",\"health\":\"/.health\"}\n"
        return plain(.ok, text, "application/json; charset=utf-8", request)
    }

    func nothingHere(_ request: HTTPInboundRequest) -> [UInt8] {
        let text = "Nothing is served at this path. The console is at /.console/, data at /<path>.json, the realtime socket at /.ws, the "
            + "observe socket at /.observe."
        return plain(.notFound, "{\"error\":\"\(text)\"}\n", "application/json; charset=utf-8", request)
    }

    func forbiddenOrigin(_ request: HTTPInboundRequest) -> [UInt8] {
        let text = settings.isDev
            ? "With --dev only pages of this machine are let in, by localhost or a numeric address. Start the hub with --allow-origin to "
                + "name others."
            : "Pages of this origin are not let in. Start the hub with --allow-origin to name those that are."
        return plain(.forbidden, "{\"error\":\"\(text)\"}\n", "application/json; charset=utf-8", request)
    }

    /// Version of the observe protocol, which a client may ask for with `v`.
    private static let observeVersion = "1"

    /// Refuses the observe protocol to a page whose origin is not admitted, and logs it.
    private func refusal(of request: HTTPInboundRequest, _ connection: Connection) -> Route {
        let origin = request.fields[.origin]
        records.refusedOrigin([
            "origin": "\((origin ?? "-").prefix(64))", "host": "\((request.host ?? "-").prefix(64))", "peer": "\(connection.remoteAddress)",
        ])
        let reason =
            switch origin {
            case "null": "A page from a file or a sandboxed frame (Origin null) is not let in: serve it, or see --allow-origin."
            case let origin?: "Pages of \(origin.prefix(48)) are not let in: see --allow-origin of this hub."
            case nil: "With --dev this hub is not dialled by this name: see --allow-origin."
            }
        return closing(request, connection, reason) { _ in .response(forbiddenOrigin(request)) }
    }

    /// Accepts the upgrade to send the reason in a close frame. For any other refusal a browser shows its page only code 1006.
    /// - Parameter refusal: the response to a request that is not a WebSocket handshake.
    private func closing(
        _ request: HTTPInboundRequest, _ connection: Connection, _ reason: String, otherwise refusal: (HTTPFailure) -> Route
    ) -> Route {
        switch WebSocketHandshake.respond(to: request) {
        case .failure(let failure): return refusal(failure)
        case .success(let accepted):
            return .upgrade(accepted.response) { [self] in
                let carrier = WebSocketCarrier(connection, of: client(of: request, connection), server: self, deflate: nil)
                carrier.close(WebSocketCloseCode.policyViolation, reason)
                return carrier
            }
        }
    }

    /// - Parameters:
    ///   - deflate: settings of permessage-deflate; nil for endpoints that never accept the offer.
    ///   - listen: creates the listener of the WebSocket; nil when the socket is already being closed.
    private func webSocket(
        _ request: HTTPInboundRequest, _ connection: Connection, deflate: DeflateSettings? = nil,
        _ listen: @escaping (WebSocketCarrier, Database) -> (any SocketListener)?
    ) -> Route {
        // A broadcast message is compressed once for all its receivers: it may not refer to earlier messages.
        var alone = deflate
        alone?.takesOverContext = false
        switch WebSocketHandshake.respond(to: request, deflate: alone) {
        case .failure(let failure): return .refusal(failure)
        case .success(let accepted):
            guard let database = database(for: request, connection) else { return .response(unknownNamespace(request)) }
            return .upgrade(accepted.response) { [self] in
                let carrier = WebSocketCarrier(connection, of: client(of: request, connection), server: self, deflate: accepted.deflate)
                let listener = listen(carrier, database)
                (listener as? Session)?.address = observingAddress(of: request, connection)
                carrier.listener = listener
                return carrier
            }
        }
    }

    /// The database that a request names; nil when the namespace does not exist.
    func database(for request: HTTPInboundRequest, _ connection: Connection) -> Database? {
        let name = Namespace.name(of: request, default: settings.namespace)
        let database = hub.database(name)
        if database == nil {
            records.unknownNamespace(["namespace": "\(name.prefix(64))", "peer": "\(connection.remoteAddress)"])
        }
        return database
    }

    func unknownNamespace(_ request: HTTPInboundRequest) -> [UInt8] {
        let name = Namespace.name(of: request, default: settings.namespace).prefix(64)
        let source = request.target.value("ns")?.isEmpty == false ? "ns=" : "the host's name"
        if catalog.names.contains(String(name)) {
            let text = "{\"error\":\"The database \(name) is not open. The hub's log has the reason.\"}\n"
            return plain(.serviceUnavailable, text, "application/json; charset=utf-8", request)
        }
        var writer = JSONWriter()
        writer.raw("{\"error\":")
        // The names of other databases are not for everyone.
        let held = catalog.names.count == 1 ? "This server holds: \(settings.namespace)." : "This server holds others."
        writer.string("Unknown namespace '\(name)' (by \(source)). \(held)")
        writer.raw("}\n")
        return plain(.notFound, String(decoding: writer.bytes, as: UTF8.self), "application/json; charset=utf-8", request)
    }

    /// `host[:port]` as in the client's request (contract §1.3).
    func dialled(_ request: HTTPInboundRequest) -> String { request.host ?? "\(settings.host):\(port)" }

    private func redirect(_ location: String, _ request: HTTPInboundRequest) -> [UInt8] {
        HTTPResponseEncoder.response(.found, fields: [.location: location], keepsAlive: request.keepsAlive, isHead: request.method == .head)
    }

    /// - Parameter allow: the methods that the path takes, with status 405.
    func plain(
        _ status: HTTPResponse.Status, _ text: String, _ type: String, _ request: HTTPInboundRequest, allow: String? = nil
    ) -> [UInt8] {
        var fields: HTTPFields = [.contentType: type, .cacheControl: "no-cache"]
        fields[.allow] = allow
        return HTTPResponseEncoder.response(
            status, fields: fields, body: Array(text.utf8), keepsAlive: request.keepsAlive, isHead: request.method == .head)
    }

    private func consoleFile(_ request: HTTPInboundRequest) -> [UInt8] {
        guard request.method == .get || request.method == .head else {
            return plain(.methodNotAllowed, "{\"error\":\"Only GET and HEAD.\"}\n", "application/json", request, allow: "GET, HEAD")
        }
        if request.target.segments.count == 1, !request.target.hasTrailingSlash { return redirect("/.console/", request) }
        guard let console else {
            return plain(
                .notFound, "{\"error\":\"No console files. Start with --web DIR (web/ in the source tree).\"}\n", "application/json",
                request)
        }
        let segments = request.target.segments.dropFirst()
        let takesGzip = Gzip.isAccepted(request.fields[values: .acceptEncoding])
        guard let file = takesGzip ? console.compressedFile(segments) : console.file(segments) else {
            return plain(.notFound, "{\"error\":\"No such file.\"}\n", "application/json", request)
        }
        var fields: HTTPFields = [
            .contentType: file.type, .cacheControl: "no-cache", .xContentTypeOptions: "nosniff", .vary: "Accept-Encoding",
            .contentSecurityPolicy: "default-src 'self'; connect-src 'self' ws: wss: http: https:; style-src 'self' 'unsafe-inline'; "
                + "img-src 'self' http: https:",
        ]
        fields.forbidFrames()
        if file.isCompressed { fields[.contentEncoding] = "gzip" }
        // Pages of other origins may import the client from here.
        if segments.elementsEqual(["vigla.js"]) { fields[.accessControlAllowOrigin] = "*" }
        return HTTPResponseEncoder.response(
            .ok, fields: fields, body: file.bytes, keepsAlive: request.keepsAlive, isHead: request.method == .head)
    }
}
