import DispatchNet
import HubEngine
import JSONTree
import LiveQueries
import Scheduling
import WireProtocols

/// A session of a stock SDK: realtime protocol v5 (contract §1.2–§2.5).
final class RealtimeSession: Session, @unchecked Sendable {
    // Sendable: everything declared here is used on the lane's loop only.
    private var assembler: RealtimeAssembler

    /// Sends the hello before any request is read (contract §1.3).
    /// - Parameters:
    ///   - id: the secret session id: a client that knows it can replace the session.
    ///   - host: `host[:port]` for the client's next connections.
    ///   - previous: id of the client's last session, which ends now.
    init(
        _ carrier: any Carrier, id: String, host: String, replacing previous: String?, lane: Int, database: Database, server: Server
    ) {
        assembler = RealtimeAssembler(limits: server.settings.limits.realtime)
        super.init(carrier, lane: lane, database: database, server: server, dialect: .realtime)
        carrier.send(RealtimeFraming.frames(for: RealtimeReply.hello(nowMs: server.scheduler.wallMs, host: host, session: id)))
        database.submit(.begin(sessionID: id, replacing: previous), from: self)
    }

    override func received(text: UnsafeRawBufferPointer) {
        if isReadingLarge { return enqueue(text) }
        assembler.receive(text) { inbound in
            do throws(RealtimeError) {
                if inbound.bytes > server.settings.limits.largeRequestBytes, let source = inbound.source {
                    if let large = large(source, bytes: inbound.bytes) { read(large) }
                } else {
                    process(try inbound.message(limits: home.messages, payer: self))
                }
            } catch { close(error.closeCode, error.reason) }
        }
        chargeIncoming(assembler.bufferedBytes)
    }

    override func received(large: LargeText) {
        if isReadingLarge { return enqueue(0) { [self] in received(large: large) } }
        guard case .socket(let message) = large.message, !assembler.isInsideMessage,
            message.payload.count <= home.messages.messageBytes
        else {
            // A chunk of a larger message, or too large for one.
            if case .socket(let message) = large.message { message.payload.withUnsafeBytes { received(text: $0) } }
            return
        }
        read(large)
    }

    override var openMessage: OpenMessage? {
        assembler.isInsideMessage ? OpenMessage(number: assembler.messages, bytes: assembler.openBytes) : nil
    }

    override func retireInput() {
        guard assembler.bufferedBytes > IncomingBytes.freeBytes else { return }
        Retired(assembler).retire()
        assembler = RealtimeAssembler(limits: home.messages)
    }

    private func process(_ message: RealtimeMessage?) {
        switch message {
        case .request(let request): submit(request)
        case .control(.ping): carrier.send(RealtimeFraming.frames(for: RealtimeReply.pong))
        case .control, nil: break
        }
    }

    private func read(_ large: LargeText) {
        readLarge(large, largeMessageParser()) { [self] result, bytes, hold in
            switch result {
            case .success(let message): process(message.costing(bytes, hold))
            case .failure(let error): close(error.closeCode, error.reason)
            }
        }
    }

    /// A function that parses a message on another thread.
    func largeMessageParser() -> @Sendable (UnsafeRawBufferPointer, NodeAllowance) -> Result<RealtimeMessage, RealtimeError> {
        var limits = server.settings.limits.realtime
        limits.write.permits = permits
        return { [limits] text, allowance in
            var limits = limits
            limits.write.allowance = allowance
            do throws(RealtimeError) {
                return .success(try RealtimeMessage.parse(text, limits: limits).costing(text.count, nil).withWholePaths)
            } catch { return .failure(error) }
        }
    }

    /// Submits the request to the database, which answers requests in order of arrival (contract §2.5 rule 1).
    func submit(_ request: RealtimeRequest) {
        if isWaiting { waitForCredential(request.bytes) { [self] in carryOut(request) } } else { carryOut(request) }
    }

    private func carryOut(_ request: RealtimeRequest) {
        let (number, size, hold) = (request.number, request.bytes, request.hold)
        func ask(_ request: Request, _ number: Int64) { self.ask(request, number, size: size, hold: hold) }
        func answer(_ reply: Reply, _ number: Int64) { ask(.answer(HubFormat().reply(reply, to: number, dialect: .realtime)), number) }
        switch request.action {
        case .stats, .appCheck, .unappCheck: answer(.done, number)
        case .listen(let path, let query, let tag, let hash):
            let filter = Self.filter(query)
            // Without a tag the client would treat the query's part as the whole place (contract §2.3).
            if filter != nil, tag == nil { return answer(.failed(Failure(.failure, "A query needs a tag.")), number) }
            ask(.observe(path, query: filter, style: .patches(tag: tag), hash: hash ?? ""), number)
        case .unlisten(let path, let query, let tag):
            // No such listen was accepted: the one without a query and a tag stays.
            if tag == nil, Self.filter(query) != nil { return answer(.done, number) }
            ask(.unobserve(path, style: .patches(tag: tag)), number)
        case .get(let path): ask(.get(path), number)
        case .select(let path, let query): ask(.get(path, query: Self.filter(query)), number)
        case .put(let write, let hash): ask(.write([write], condition: hash.map { Condition(write.path, hash: $0) }), number)
        case .merge(let base, let writes, let hash):
            ask(.write(writes.below(base), condition: hash.map { Condition(base, hash: $0) }, update: base), number)
        case .onDisconnectPut(let write): ask(.onDisconnect([write]), number)
        case .onDisconnectMerge(let base, let writes): ask(.onDisconnect(writes.below(base)), number)
        case .onDisconnectCancel(let path): ask(.cancelOnDisconnect(path), number)
        case .auth(let credential), .gauth(let credential):
            identify(credential.credential, override: credential.noauth ? .null : credential.authvar, token: number)
        case .unauth:
            signedOut()
            ask(.signOut, number)
        case .unknown(let name): answer(.failed(Failure(.failure, "Unknown action \"\(name.prefix(32))\".")), number)
        case .invalid(_, let refusal): answer(.failed(Failure(refusal)), number)
        }
    }

    /// The query if it filters; one that selects everything is a plain listen, whatever its order (contract §2.2).
    private static func filter(_ query: TreeQuery?) -> Query? {
        guard let query, !query.isDefault else { return nil }
        return Query(query)
    }
}

extension RealtimeInbound {
    /// Bytes of its text; 0 unless it is a complete message.
    var bytes: Int {
        switch self {
        case .message(let text): text.count
        case .blocks(let blocks): blocks.count
        case .keepAlive, .oversized, .failure: 0
        }
    }

    /// Its text, to be parsed on another thread; nil unless it is a complete message. O(n) unless it came in many chunks.
    var source: LargeText.Source? {
        switch self {
        case .message(let text): .text(Array(text))
        case .blocks(let blocks): .blocks(blocks)
        case .keepAlive, .oversized, .failure: nil
        }
    }

    /// Parses as `message(limits:)` does and charges its values' memory.
    /// - Parameters:
    ///   - limits: with the loop's node allowance.
    ///   - payer: provides the memory hold when the values are many.
    func message(limits: RealtimeLimits, payer: any ReservationMaker) throws(RealtimeError) -> RealtimeMessage? {
        limits.write.allowance?.begin(payer)
        defer { _ = limits.write.allowance?.end() }
        let message = try message(limits: limits)
        // Most messages are longer than their values, and are passed on as they are.
        guard let (values, hold) = limits.write.allowance?.end(), hold != nil || values > bytes else { return message }
        return message?.costing(values, hold)
    }
}

extension [TreeWrite] {
    /// The writes of an update with their whole paths. O(writes) unless `base` is the root.
    func below(_ base: Path) -> [TreeWrite] { base.isRoot ? self : map { $0.below(base) } }
}

extension RealtimeMessage {
    /// The same update with paths relative to the root, so that a large one is resolved where it is parsed.
    var withWholePaths: RealtimeMessage {
        guard case .request(var request) = self else { return self }
        switch request.action {
        case .merge(let base, let writes, hash: nil): request.action = .merge(path: .root, writes.below(base), hash: nil)
        case .onDisconnectMerge(let base, let writes): request.action = .onDisconnectMerge(path: .root, writes.below(base))
        default: return self
        }
        return .request(request)
    }

    /// Bytes of its text or of its values, whichever is more.
    func cost(_ textBytes: Int) -> Int { if case .request(let request) = self { max(textBytes, request.bytes) } else { textBytes } }

    /// The message with its larger cost and its memory hold.
    func costing(_ bytes: Int, _ hold: (any MemoryReservation)?) -> RealtimeMessage {
        guard case .request(var request) = self, bytes > request.bytes || hold != nil else { return self }
        request.bytes = max(request.bytes, bytes)
        request.hold = hold ?? request.hold
        return .request(request)
    }
}

extension Failure {
    init(_ refusal: RealtimeRefusal) {
        self.init(Code(rawValue: refusal.status.rawValue) ?? .failure, refusal.text)
    }
}
