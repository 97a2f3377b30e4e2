import HubEngine
import JSONTree
import WireProtocols

/// A session of the observe protocol: one JSON object per text frame (docs/observe-protocol.md).
final class ObserveSession: Session, @unchecked Sendable {
    // Sendable: everything declared here is used on the lane's loop only.

    /// A malformed request has arrived: the session ends behind the requests before it.
    private var hasFailed = false

    init(_ carrier: any Carrier, lane: Int, database: Database, server: Server) {
        super.init(carrier, lane: lane, database: database, server: server, dialect: .observe)
    }

    override func received(text: UnsafeRawBufferPointer) {
        if hasFailed { return }
        if isReadingLarge { return enqueue(text) }
        let size = text.count
        if size > server.settings.limits.largeRequestBytes {
            if let large = large(.text(Array(text)), bytes: size) { received(large: large) }
            return
        }
        do throws(ObserveError) {
            home.allowance.begin(self)
            defer { _ = home.allowance.end() }
            let request = try ObserveRequest.parse(text, limits: home.messages.write)
            let (cost, hold) = home.allowance.end()
            submit(request, size: size, cost: cost, hold)
        } catch { fail(error) }
    }

    override func received(large: LargeText) {
        if hasFailed { return }
        if isReadingLarge { return enqueue(0) { [self] in received(large: large) } }
        var limits = server.settings.limits.realtime.write
        limits.permits = permits
        let read: @Sendable (UnsafeRawBufferPointer, NodeAllowance) -> Result<Sized, ObserveError> = { [limits] text, allowance in
            var limits = limits
            limits.allowance = allowance
            do throws(ObserveError) {
                var request = try ObserveRequest.parse(text, limits: limits)
                // Resolves the paths of a large update off the loop.
                guard case .update(let base, let writes) = request.operation else {
                    return .success(Sized(request: request, bytes: text.count))
                }
                request.operation = .update(path: .root, writes.below(base))
                return .success(Sized(request: request, bytes: text.count, updated: base))
            } catch { return .failure(error) }
        }
        readLarge(large, read) { [self] result, cost, hold in
            switch result {
            case .success(let read): submit(read.request, size: read.bytes, cost: cost, hold, updated: read.updated)
            case .failure(let error): fail(error)
            }
        }
    }

    /// A request and the size of its text.
    private struct Sized: Sendable {
        var request: ObserveRequest
        var bytes: Int
        /// The place of an update whose paths are resolved.
        var updated: Path?
    }

    /// A malformed request has no readable id. Sends the fault without one and closes, both behind the answers to all requests before it.
    /// Later requests are dropped unread.
    private func fail(_ error: ObserveError) {
        hasFailed = true
        guard isWaiting else { return close(behind: error.fault) }
        waitForCredential(0) { [self] in close(behind: error.fault) }
    }

    private func close(behind fault: ObserveFault) {
        ask(.answer(ObserveReply.failed(nil, fault).frame), 0, size: 0)
        closeWhenAnswered(SessionClose(WebSocketCloseCode.policyViolation, fault.message))
    }

    private func submit(_ request: ObserveRequest, size: Int, cost: Int, _ hold: (any MemoryReservation)?, updated: Path? = nil) {
        guard isWaiting else { return carryOut(request, size: size, cost: cost, hold, updated) }
        waitForCredential(max(size, cost)) { [self] in carryOut(request, size: size, cost: cost, hold, updated) }
    }

    private func carryOut(_ request: ObserveRequest, size: Int, cost: Int, _ hold: (any MemoryReservation)?, _ updated: Path?) {
        let id = request.id
        func ask(_ request: Request, _ id: Int64) { self.ask(request, id, size: max(size, cost), hold: hold) }
        func answer(_ reply: Reply, _ id: Int64) { ask(.answer(HubFormat().reply(reply, to: id, dialect: .observe)), id) }
        func write(_ makeRequest: () -> Request) {
            let limit = server.settings.limits.realtime.messageBytes
            if size > limit { return answer(.failed(Failure(.tooBig, "The request is larger than \(limit) bytes.")), id) }
            ask(makeRequest(), id)
        }
        switch request.operation {
        case .auth(let token): identify(token, token: id)
        case .observe, .get, .count, .explained: if let asked = read(request.operation, id) { ask(asked, id) }
        case .unobserve(let sub): ask(.unobserveID(sub), id)
        case .move(let sub, let centre): ask(.move(sub, to: centre), id)
        case .set(let one), .remove(let one): write { .write([one]) }
        case .update(let base, let writes): write { .write(writes.below(base), update: updated ?? base) }
        case .push(let path, let value): write { .push(path, value) }
        case .transaction(let one, let hash): write { .exchange(Exchange(one.path, .write([one]), ifHash: hash)) }
        case .onDisconnect(.set(let one)), .onDisconnect(.remove(let one)): write { .onDisconnect([one]) }
        case .onDisconnect(.update(let base, let writes)): write { .onDisconnect(writes.below(base)) }
        case .onDisconnect(.cancel(let path)): ask(.cancelOnDisconnect(path), id)
        case .ping: answer(.done, id)
        case .invalid(let fault): ask(.answer(ObserveReply.failed(id, fault).frame), id)
        }
    }

    /// The database request of an operation; nil for an operation that reads nothing.
    private func read(_ operation: ObserveOperation, _ id: Int64) -> Request? {
        switch operation {
        case .explained(let asked): return read(asked, id).map { .explained($0) }
        case .get(let path, let query): return .get(path, query: query)
        case .count(let path, let query): return .count(path, query: query)
        case .observe(let path, let events, let query, let maxHz, let since):
            let pace = maxHz.map { Int32((1000 / $0).rounded(.up)) }
            var kinds = EventKinds(rawValue: events.rawValue)
            if since != nil { kinds.insert(.resumable) }
            var position: Position?
            if case .after(let epoch, let seq) = since { position = Position(epoch: epoch, sequence: UInt64(max(0, seq))) }
            let style = ObserverStyle.events(id: id, kinds: kinds, pace: pace)
            return .observe(path, query: query, style: style, hash: "", since: position)
        default: return nil
        }
    }
}
