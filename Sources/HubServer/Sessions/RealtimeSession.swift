import DispatchNet
import HubEngine
import JSONTree
import WireProtocols

/// A stock SDK: realtime protocol v5 (contract §1.2–§2.5).
final class RealtimeSession: Session, @unchecked Sendable {
    // Sendable: everything declared here is used on the lane's loop only.
    private var assembler: RealtimeAssembler
    private let limits: RealtimeLimits

    /// Says hello before anything else is heard (contract §1.3).
    /// - Parameters:
    ///   - id: names the session to the client; whoever knows it can end the session.
    ///   - host: what this client can dial.
    ///   - previous: the client's last session, which ends now.
    init(
        _ carrier: any Carrier, id: String, host: String, replacing previous: String?, lane: Int, database: Database, server: Server
    ) {
        limits = server.settings.limits.realtime
        assembler = RealtimeAssembler(limits: limits)
        super.init(carrier, lane: lane, database: database, server: server, dialect: .realtime)
        carrier.send(RealtimeFraming.frames(for: RealtimeReply.hello(nowMs: Clock.nowMs(), host: host, session: id)))
        database.submit(.begin(sessionID: id, replacing: previous), from: self)
    }

    override func received(text: UnsafeRawBufferPointer) {
        assembler.receive(text) { inbound in
            do throws(RealtimeError) {
                switch try inbound.message(limits: limits) {
                case .request(let request): submit(request)
                case .control(.ping): carrier.send(RealtimeFraming.frames(for: RealtimeReply.pong))
                case .control, nil: break
                }
            } catch { carrier.close(error.closeCode, error.reason) }
        }
    }

    /// Hands the request to the database, which answers all of them in order of arrival (contract §2.5 rule 1).
    func submit(_ request: RealtimeRequest) {
        if isWaiting { wait { [self] in carryOut(request) } } else { carryOut(request) }
    }

    private func carryOut(_ request: RealtimeRequest) {
        let (number, size) = (request.number, request.bytes)
        func ask(_ request: Request, _ number: Int64) { self.ask(request, number, size: size) }
        func answer(_ reply: Reply, _ number: Int64) { ask(.answer(HubFormat().reply(reply, to: number, dialect: .realtime)), number) }
        switch request.action {
        case .stats, .appCheck, .unappCheck: answer(.done, number)
        case .listen(let path, let query, let tag, let hash):
            let filter = Self.filter(query)
            // Without a tag the client would take the part that a query shows for the whole place (contract §2.3).
            if filter != nil, tag == nil { return answer(.failed(Failure(.failure, "A query needs a tag.")), number) }
            ask(.observe(path, query: filter, style: .patches(tag: tag), hash: hash ?? ""), number)
        case .unlisten(let path, let query, let tag):
            // No such listen was accepted: the one without a query and a tag stays.
            if tag == nil, Self.filter(query) != nil { return answer(.done, number) }
            ask(.unobserve(path, style: .patches(tag: tag)), number)
        case .get(let path, let query):
            ask(.get(path, query: Self.filter(query)), number)
        case .put(let write, let hash): ask(.write([write], condition: hash.map { Condition(write.path, hash: $0) }), number)
        case .merge(let base, let writes, let hash):
            ask(.write(writes.map { $0.below(base) }, condition: hash.map { Condition(base, hash: $0) }), number)
        case .onDisconnectPut(let write): ask(.onDisconnect([write]), number)
        case .onDisconnectMerge(let base, let writes): ask(.onDisconnect(writes.map { $0.below(base) }), number)
        case .onDisconnectCancel(let path): ask(.cancelOnDisconnect(path), number)
        case .auth(let credential), .gauth(let credential):
            identify(credential.credential, override: credential.noauth ? .null : credential.authvar, token: number)
        case .unauth:
            expire(at: nil)
            hold(nil)
            ask(.signOut, number)
        case .unknown(let name): answer(.failed(Failure(.failure, "Unknown action \"\(name.prefix(32))\".")), number)
        case .invalid(_, let refusal): answer(.failed(Failure(refusal)), number)
        }
    }

    /// The query if it selects; one that loads everything is a plain listen, whatever its order (contract §2.2).
    private static func filter(_ query: TreeQuery?) -> TreeQuery? {
        guard let query, !query.isDefault else { return nil }
        return query
    }
}

extension Failure {
    init(_ refusal: RealtimeRefusal) {
        self.init(Code(rawValue: refusal.status.rawValue) ?? .failure, refusal.text)
    }
}
