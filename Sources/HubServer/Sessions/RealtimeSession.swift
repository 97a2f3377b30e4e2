import DispatchNet
import HubEngine
import JSONTree
import WireProtocols

/// A stock SDK: realtime protocol v5 over a WebSocket (contract §1.2–§2.5).
final class RealtimeSession: WebSocketSession, @unchecked Sendable {
    // Sendable: everything declared here is used on the connection's loop only.
    private var assembler: RealtimeAssembler
    private let limits: RealtimeLimits

    /// Says hello before anything else is heard (contract §1.3).
    init(_ connection: Connection, database: Database, server: Server, request: HTTPInboundRequest) {
        limits = server.settings.limits.realtime
        assembler = RealtimeAssembler(limits: limits)
        super.init(connection, database: database, server: server, dialect: .realtime)
        let sessionID = Self.makeSessionID()
        let hello = RealtimeReply.hello(nowMs: Clock.nowMs(), host: request.host ?? "\(server.settings.host):\(server.port)", session: sessionID)
        connection.send(RealtimeFraming.frames(for: hello))
        database.submit(.begin(sessionID: sessionID, replacing: request.target.value("ls")), from: self)
    }

    /// 32 letters and digits, from the system's generator: whoever knows it can end the session.
    private static func makeSessionID() -> String {
        let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789".utf8)
        return String(decoding: (0..<32).map { _ in alphabet[Int.random(in: 0..<alphabet.count)] }, as: UTF8.self)
    }

    override func received(text: UnsafeRawBufferPointer) {
        assembler.receive(text) { inbound in
            switch inbound {
            case .keepAlive: break
            case .message(let bytes):
                do throws(RealtimeError) {
                    switch try RealtimeMessage.parse(bytes, limits: limits) {
                    case .request(let request): submit(request)
                    case .control(.ping): connection.send(RealtimeFraming.frames(for: RealtimeReply.pong))
                    case .control: break
                    }
                } catch { close(error.closeCode, error.reason) }
            case .oversized(let number): answer(.failed(Failure(RealtimeRefusal.writeTooBig)), number)
            case .failure(let error): close(error.closeCode, error.reason)
            }
        }
    }

    /// Hands the request to the database, which answers all of them in order of arrival (contract §2.5 rule 1).
    private func submit(_ request: RealtimeRequest) {
        let number = request.number
        switch request.action {
        case .stats, .appCheck, .unappCheck: answer(.done, number)
        case .listen(let path, let query, let tag, let hash):
            if let refusal = Self.unsupported(query) { return answer(.failed(refusal), number) }
            ask(.observe(path, style: .patches(tag: tag), hash: hash ?? ""), number)
        case .unlisten(let path, _, let tag): ask(.unobserve(path, style: .patches(tag: tag)), number)
        case .get(let path, let query):
            if let refusal = Self.unsupported(query) { return answer(.failed(refusal), number) }
            ask(.get(path), number)
        case .put(let write, let hash): ask(.write([write], expectedHash: hash), number)
        case .merge(let base, let writes, let hash):
            // An update is conditional on the place it is made at, not on the places it names.
            if hash != nil { return answer(.failed(Failure(.failure, "A hash is possible with put only.")), number) }
            ask(.write(writes.map { $0.below(base) }), number)
        case .onDisconnectPut(let write): ask(.onDisconnect([write]), number)
        case .onDisconnectMerge(let base, let writes): ask(.onDisconnect(writes.map { $0.below(base) }), number)
        case .onDisconnectCancel(let path): ask(.cancelOnDisconnect(path), number)
        case .auth(let credential), .gauth(let credential): identify(credential, number)
        case .unauth: ask(.identify(.anonymous), number)
        case .unknown(let name): answer(.failed(Failure(.failure, "Unknown action \"\(name.prefix(32))\".")), number)
        case .invalid(_, let refusal): answer(.failed(Failure(refusal)), number)
        }
    }

    private func ask(_ request: Request, _ number: Int64) { database.submit(request, from: self, token: number) }
    private func answer(_ reply: Reply, _ number: Int64) {
        ask(.answer(HubFormat().reply(reply, to: number, dialect: .realtime)), number)
    }

    private func identify(_ credential: RealtimeCredential, _ number: Int64) {
        do throws(Failure) {
            let override = credential.noauth ? Node.null : credential.authvar
            ask(.identify(try Credentials(isDev: server.settings.isDev).identity(for: credential.credential, override: override)), number)
        } catch { answer(.failed(error), number) }
    }

    /// Queries that filter come with a later version; those that load everything are plain listens.
    private static func unsupported(_ query: RealtimeQuery?) -> Failure? {
        guard let query, !query.isDefault else { return nil }
        return Failure(.failure, "Filtered queries (ranges and limits) are not supported by this version of the server.")
    }
}

extension Failure {
    init(_ refusal: RealtimeRefusal) {
        self.init(Code(rawValue: refusal.status.rawValue) ?? .failure, refusal.text)
    }
}
