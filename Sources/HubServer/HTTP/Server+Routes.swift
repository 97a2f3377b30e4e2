import DispatchNet
import HTTPTypes
import HubEngine
import JSONTree
import Logging
import WireProtocols

/// What a request leads to.
enum Route {
    case response([UInt8])
    case refusal(HTTPFailure)
    /// Send the bytes, then hand the connection to the session.
    case upgrade([UInt8], () -> WebSocketSession)
}

extension Server {
    /// Finds the endpoint of a request (design: reserved paths begin with a dot and so never collide with data).
    func route(_ request: HTTPInboundRequest, _ connection: Connection) -> Route {
        switch request.target.segments.first {
        case nil: return .response(redirect("/.console/", request))
        case ".ws": return webSocket(request, connection) { RealtimeSession($0, database: $1, server: $2, request: request) }
        case ".observe": return webSocket(request, connection) { ObserveSession($0, database: $1, server: $2) }
        case ".console": return .response(consoleFile(request))
        case ".health": return .response(plain(.ok, "{\"status\":\"ok\"}\n", "application/json", request))
        default:
            let text = "Nothing is served at this path. The console is at /.console/, the realtime socket at /.ws, the observe socket at /.observe."
            return .response(plain(.notFound, "{\"error\":\"\(text)\"}\n", "application/json; charset=utf-8", request))
        }
    }

    private func webSocket(
        _ request: HTTPInboundRequest, _ connection: Connection, _ make: @escaping (Connection, Database, Server) -> WebSocketSession
    ) -> Route {
        let name = Namespace.name(of: request, default: settings.namespace)
        switch WebSocketHandshake.respond(to: request) {
        case .failure(let failure): return .refusal(failure)
        case .success(let accepted):
            guard let database = hub.database(name) else {
                logger.notice("unknown namespace", metadata: ["namespace": "\(name.prefix(64))", "peer": "\(connection.remoteAddress)"])
                let text = "{\"error\":\"Unknown namespace. This server holds: \(settings.namespace).\"}\n"
                return .response(plain(.notFound, text, "application/json; charset=utf-8", request))
            }
            return .upgrade(accepted) { [unowned self] in make(connection, database, self) }
        }
    }

    private func redirect(_ location: String, _ request: HTTPInboundRequest) -> [UInt8] {
        HTTPResponseEncoder.response(.found, fields: [.location: location], keepsAlive: request.keepsAlive, isHead: request.method == .head)
    }

    private func plain(_ status: HTTPResponse.Status, _ text: String, _ type: String, _ request: HTTPInboundRequest) -> [UInt8] {
        HTTPResponseEncoder.response(
            status, fields: [.contentType: type, .cacheControl: "no-cache"], body: Array(text.utf8), keepsAlive: request.keepsAlive,
            isHead: request.method == .head)
    }

    private func consoleFile(_ request: HTTPInboundRequest) -> [UInt8] {
        guard request.method == .get || request.method == .head else {
            return plain(.methodNotAllowed, "{\"error\":\"Only GET and HEAD.\"}\n", "application/json", request)
        }
        if request.target.segments.count == 1, !request.target.hasTrailingSlash { return redirect("/.console/", request) }
        guard let console else {
            return plain(.notFound, "{\"error\":\"No console files. Start with --web DIR (web/ in the source tree).\"}\n", "application/json", request)
        }
        guard let file = console.file(request.target.segments.dropFirst()) else {
            return plain(.notFound, "{\"error\":\"No such file.\"}\n", "application/json", request)
        }
        let fields: HTTPFields = [
            .contentType: file.type, .cacheControl: "no-cache", .xContentTypeOptions: "nosniff",
            .contentSecurityPolicy: "default-src 'self'; connect-src 'self' ws: wss: http: https:; style-src 'self' 'unsafe-inline'; img-src 'self' data:",
        ]
        return HTTPResponseEncoder.response(.ok, fields: fields, body: file.bytes, keepsAlive: request.keepsAlive, isHead: request.method == .head)
    }
}
