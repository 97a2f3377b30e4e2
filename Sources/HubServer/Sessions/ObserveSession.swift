import HubEngine
import JSONTree
import WireProtocols

/// A program that speaks the observe protocol: one JSON object per text frame (docs/observe-protocol.md).
final class ObserveSession: Session, @unchecked Sendable {
    // Sendable: everything declared here is used on the lane's loop only.

    init(_ carrier: any Carrier, lane: Int, database: Database, server: Server) {
        super.init(carrier, lane: lane, database: database, server: server, dialect: .observe)
    }

    override func received(text: UnsafeRawBufferPointer) {
        do throws(ObserveError) {
            let (request, size) = (try ObserveRequest.parse(text), text.count)
            if isWaiting { wait { [self] in carryOut(request, size: size) } } else { carryOut(request, size: size) }
        } catch {
            // Nobody can be told which request it was: say what is wrong and end.
            carrier.send(WebSocketFrame.text(ObserveReply.failed(nil, error.fault)))
            carrier.close(WebSocketCloseCode.policyViolation, error.fault.message)
        }
    }

    private func carryOut(_ request: ObserveRequest, size: Int) {
        let id = request.id
        func ask(_ request: Request, _ id: Int64) { self.ask(request, id, size: size) }
        func answer(_ reply: Reply, _ id: Int64) { ask(.answer(HubFormat().reply(reply, to: id, dialect: .observe)), id) }
        func write(_ makeRequest: () -> Request) {
            let limit = server.settings.limits.realtime.messageBytes
            if size > limit { return answer(.failed(Failure(.tooBig, "The request is larger than \(limit) bytes.")), id) }
            ask(makeRequest(), id)
        }
        switch request.operation {
        case .auth(let token): identify(token, token: id)
        case .observe(let path, let events):
            ask(.observe(path, style: .events(id: id, kinds: EventKinds(rawValue: events.rawValue)), hash: ""), id)
        case .unobserve(let sub): ask(.unobserveID(sub), id)
        case .get(let path): ask(.get(path), id)
        case .set(let one), .remove(let one): write { .write([one]) }
        case .update(let base, let writes): write { .write(writes.map { $0.below(base) }) }
        case .push(let path, let value): write { .push(path, value) }
        case .ping: answer(.done, id)
        case .invalid(let fault): ask(.answer(WebSocketFrame.text(ObserveReply.failed(id, fault))), id)
        }
    }
}
