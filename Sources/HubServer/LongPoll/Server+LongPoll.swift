import DispatchNet
import HTTPTypes
import HubEngine
import WireProtocols

/// The endpoint `/.lp` (contract §1.8).
extension Server {
    func longPoll(_ request: HTTPInboundRequest, _ connection: Connection) -> Route {
        let json = "application/json; charset=utf-8"
        guard request.method == .get else {
            return .response(plain(.methodNotAllowed, "{\"error\":\"Only GET.\"}\n", json, request, allow: "GET"))
        }
        let asked: LongPollRequest
        do throws(LongPollError) { asked = try LongPollRequest(request.target) } catch {
            return .response(plain(.badRequest, "{\"error\":\"Malformed long-polling request.\"}\n", json, request))
        }
        switch asked {
        case .open(let callback):
            guard let database = database(for: request, connection) else { return .response(unknownNamespace(request)) }
            let carrier = LongPollCarrier(
                callback: callback, from: client(of: request, connection), lane: lanes[connection.loop.index],
                database: database, server: self)
            switch network.longPolls.add(carrier) {
            case .total: return .response(plain(.serviceUnavailable, "{\"error\":\"Too many long-polling sessions.\"}\n", json, request))
            case .address:
                return .response(
                    plain(.tooManyRequests, "{\"error\":\"Too many long-polling sessions of this address.\"}\n", json, request))
            case nil: break
            }
            let address = observingAddress(of: request, connection)
            return .pending { [self] answer in
                carrier.begin(answer, host: dialled(request), replacing: request.target.value("ls"), address: address)
            }
        case .poll(let key, let serial, let segments):
            guard let carrier = network.longPolls.find(key) else { return .response(script(LongPollScript.close, request)) }
            return .pending { answer in
                carrier.lane.loop.execute { carrier.poll(answer, serial: serial, segments: segments) }
            }
        case .disconnectPage(let key):
            guard network.longPolls.find(key) != nil else { return .response(refusal(request)) }
            let fields: HTTPFields = [.contentType: LongPollScript.pageType, .cacheControl: "no-store"]
            return .response(
                HTTPResponseEncoder.response(
                    .ok, fields: fields, body: LongPollScript.disconnectPage(key: key), keepsAlive: request.keepsAlive))
        case .disconnect(let key):
            guard let carrier = network.longPolls.find(key) else { return .response(refusal(request)) }
            carrier.lane.loop.execute { carrier.pageUnloaded() }
            return .response(script([], request))
        }
    }

    /// Attaches a WebSocket to the long-polling session that it names; nil when that session does not exist.
    func join(
        _ carrier: WebSocketCarrier, to session: String, in database: Database, _ request: HTTPInboundRequest
    ) -> (any SocketListener)? {
        guard let target = network.longPolls.find(session: session), target.database === database else {
            carrier.refuse(host: dialled(request))
            return nil
        }
        let joined = JoinedSocket(carrier, session: target)
        joined.join(host: dialled(request))
        return joined
    }

    private func script(_ body: [UInt8], _ request: HTTPInboundRequest) -> [UInt8] {
        HTTPResponseEncoder.response(.ok, fields: LongPollCarrier.scriptFields, body: body, keepsAlive: request.keepsAlive)
    }

    private func refusal(_ request: HTTPInboundRequest) -> [UInt8] {
        plain(.forbidden, "{\"error\":\"No such session.\"}\n", "application/json; charset=utf-8", request)
    }
}
