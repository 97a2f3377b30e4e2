import DispatchNet
import HTTPTypes
import HubEngine
import JSONTree
import Scheduling
import WireProtocols

/// One REST request on its way through the database and back. Lives until its response is sent.
///
/// ```
/// loop:    begin ── small body ─────────────► submit                    replied ─► response
///             └── large ─► worker: parse ─► loop ─► submit                └─ large ─► worker: measure, hash ─► loop: response, in pieces
/// ```
///
/// Work that grows with size runs in `LargeWork`, so that other connections of the loop do not wait.
final class RESTExchange: Client, ReservationMaker, @unchecked Sendable {
    // Sendable: everything declared here is set before the request is submitted and used on the loop, or by the one worker thread that
    // parses the body.
    let request: RESTRequest
    let answer: PendingResponse
    let home: LoopSessions
    let database: Database
    private let requester: Identity
    let server: Server
    /// ms of the steady clock.
    private let beganAt: Int64
    var isHTTP11 = true
    /// The request body, kept while the response may have to echo it.
    private var body: [UInt8] = []
    var isAnswered = false
    /// The request body is large, so the response may be.
    private var isLarge = false

    /// Largest response that is measured, hashed and encoded on the loop, in one piece.
    static let inlineBytes = 128 << 10

    init(_ request: RESTRequest, _ identity: Identity, _ answer: PendingResponse, lane: LoopSessions, database: Database, server: Server) {
        self.request = request
        self.answer = answer
        home = lane
        requester = identity
        self.database = database
        self.server = server
        beganAt = server.scheduler.steadyMs
        super.init(lane: lane.index, dialect: .rest, identity: identity)
    }

    func begin(_ content: HTTPBody, isHTTP11: Bool) {
        self.isHTTP11 = isHTTP11
        guard request.method != .get else {
            return submit(request.isCount ? .count(request.query) : .read(request.query))
        }
        isLarge = content.count > server.settings.limits.largeRequestBytes
        guard isLarge else {
            let body = content.bytes
            home.allowance.begin(self)
            var work = parsed(body, home.allowance)
            if let lease = home.allowance.hold as? MemoryLease { work = Self.classified(work, lease) }
            let (cost, hold) = home.allowance.end()
            return carryOut(work, body, max(body.count, cost), hold)
        }
        let lease = server.memory.lease(of: answer.peer, for: .parsing)
        server.memory.largeWork.run(of: answer.peer) { [self] in
            let allowance = NodeAllowance(lease)
            let body = content.detachBytes()
            let large = LargeBody(Self.classified(parsed(body, allowance, permits), lease), body)
            let (cost, hold) = allowance.end()
            home.loop.execute { [self] in
                // If the request is refused at once, this would be the last reference: free it in the background.
                self.large = Retired(large)
                carryOut(large.work, large.body, max(large.body.count, cost), hold)
            }
        }
    }

    /// A body that the budget refuses is too large if it needs half of the limit or more; otherwise the refusal is temporary, as it would
    /// fit in an idle hub.
    private static func classified(_ work: Result<Parsed, RESTRefusal>, _ lease: MemoryLease) -> Result<Parsed, RESTRefusal> {
        guard case .failure(.overBudget) = work, let refusal = lease.refusal else { return work }
        let isTooLarge = lease.bytes >= min(lease.share.limit, lease.share.budget.limit) / 2
        return isTooLarge ? work : .failure(RESTRefusal(refusal))
    }

    func makeReservation() -> any MemoryReservation { server.memory.lease(of: answer.peer, for: .parsing) }

    /// Whether the rules could allow the requester some write of a place; nil for administrators.
    private var permits: (@Sendable (Path) -> Bool)? {
        if requester.isAdmin { return nil }
        return { [server, database, requester] in server.mayAllowWrite($0, in: database, by: requester) }
    }

    private func parsed(
        _ body: [UInt8], _ allowance: NodeAllowance, _ permits: (@Sendable (Path) -> Bool)? = nil
    ) -> Result<Parsed, RESTRefusal> {
        var limits = TreeWriteLimits()
        limits.allowance = allowance
        limits.permits = permits
        return body.withUnsafeBytes { bytes in
            do throws(RESTRefusal) { return .success(Parsed(try RESTBody(request, bytes, limits), of: request)) } catch {
                return .failure(error)
            }
        }
    }

    /// A parsed body, with the facts that the response needs.
    private struct Parsed: Sendable {
        let body: RESTBody
        /// Whether it has server values, so that the response may have to echo the body as sent.
        var isComputed = false
        /// The names that an update was sent with.
        var names: [String]?

        init(_ body: RESTBody, of request: RESTRequest) {
            self.body = body
            guard case .write(let writes) = body else { return }
            isComputed = writes.contains { !$0.value.deferred.isEmpty }
            // A body of `null` is one write of the place itself, and has no names.
            let isRemoval = writes.count == 1 && writes[0].part == .node && writes[0].path == request.path
            if request.method == .patch, !isRemoval { names = writes.map { $0.name(below: request.path) } }
        }
    }

    /// A large body and its values.
    private final class LargeBody: Sendable {
        let work: Result<Parsed, RESTRefusal>
        let body: [UInt8]
        init(_ work: Result<Parsed, RESTRefusal>, _ body: [UInt8]) { (self.work, self.body) = (work, body) }
    }

    private func carryOut(_ work: Result<Parsed, RESTRefusal>, _ body: [UInt8], _ size: Int, _ hold: (any MemoryReservation)?) {
        switch work {
        case .failure(let refusal): refuse(refusal)
        case .success(let parsed):
            if parsed.isComputed { self.body = body }
            names = parsed.names
            switch parsed.body {
            case .push(let value): submit(.push(value), size: size, hold: hold)
            case .write(let writes): submit(.write(writes), size: size, hold: hold)
            }
        }
    }

    private func submit(_ work: Exchange.Work, size: Int = 0, hold: (any MemoryReservation)? = nil) {
        var exchange = Exchange(
            request.path, work, ifHash: request.ifMatch?.hash,
            wantsContent: request.method != .get && request.wantsETag || request.ifMatch != nil)
        exchange.isUpdate = request.method == .patch
        exchange.isImport = request.isImport
        exchange.explains = request.explains
        home.willStart(database, isWrite: exchange.isWrite)
        _ = database.enqueue(.exchange(exchange), from: self, size: size, hold: hold)
    }

    // MARK: The response

    override func dismissed() {
        refuse(RESTRefusal(.serviceUnavailable, "The request could not be stored and was not carried out. Try again later."))
    }

    override func replied(_ reply: Reply) {
        switch reply {
        case .exchanged(let outcome):
            if isLarge || !outcome.content.hasNodes(atMost: Self.nodesFreedInline) { lastContent = Retired(outcome) }
            request.method == .get ? read(outcome.content) : wrote(outcome)
        case .failed(let failure): refuse(RESTRefusal(failure))
        default: refuse(RESTRefusal(.internalServerError, "Unexpected answer."))
        }
    }

    /// Large content that a later write may have replaced, so that this is its last reference. It is freed in the background, after the
    /// loop turn in which the other references are released.
    private var lastContent: Retired?
    /// The parsed request, freed in the same way.
    private var large: Retired?
    /// The most nodes whose content is freed on the loop.
    private static let nodesFreedInline = 1000

    deinit {
        if lastContent == nil, large == nil { return }
        home.loop.execute { [lastContent, large] in
            lastContent?.retire()
            large?.retire()
        }
    }

    private func refuse(_ refusal: RESTRefusal) {
        guard !isAnswered else { return }
        isAnswered = true
        answer.refuse(refusal, isHead: request.isHead)
    }

    private func wrote(_ outcome: Exchanged) {
        if outcome.isStale { return send(outcome.content, .preconditionFailed, tags: outcome.content) }
        let tagged = request.wantsETag || request.ifMatch != nil ? outcome.content : nil
        if request.isSilent { return send(empty: .noContent, tags: tagged) }
        switch request.method {
        case .post:
            var writer = JSONWriter()
            writer.raw("{\"name\":")
            writer.string(outcome.key?.text ?? "")
            writer.raw("}")
            send(whole: writer.bytes, tags: tagged)
        case .delete, .get: send(.null, .ok, tags: tagged)
        case .put, .patch:
            guard let written = outcome.written else { return send(whole: body, tags: tagged) }
            if request.method == .put { return send(written.first ?? .null, .ok, tags: tagged) }
            echo(written)
        }
    }

    /// The names in an update's body; nil for a `null` body, which has none.
    private var names: [String]?

    /// Echoes an update's values under their names.
    private func echo(_ written: [Node]) {
        guard let names, names.count == written.count else { return send(.null, .ok, tags: nil) }
        let body = ResponseBody(UpdateEcho(names, written, form(for: .ok)))
        withTag(of: nil) { [self] _ in send(body, .ok, RESTResponse.Head(), .values(written)) }
    }

    private func read(_ content: Node) {
        if server.scheduler.steadyMs - beganAt > Int64(request.timeoutMs) { return refuse(.tookTooLong) }
        let tagged = request.wantsETag || request.ifNoneMatch != nil ? content : nil
        if let shallow = request.shallow {
            let range = NameEncoder.Range(after: shallow.startAfter, limit: shallow.limit, keepsLast: shallow.keepsLast)
            let body = ResponseBody(content, namesIn: range, isPretty: request.form.isPretty, callback: request.callback)
            return withTag(of: tagged) { [self] tag in send(body, .ok, head(.ok, tag), .version(content)) }
        }
        let node = request.part == .node ? content : content.priority
        if let limit = request.sizeUpTo { return send(sizeOf: node, upTo: limit) }
        guard request.isSilent else { return send(node, .ok, tags: tagged) }
        send(empty: .noContent, tags: tagged)
    }

    func onWorker<Value: Sendable>(_ work: @escaping @Sendable () -> Value, _ done: @escaping @Sendable (Value) -> Void) {
        server.memory.largeWork.run(of: answer.peer) { [home] in
            let value = work()
            home.loop.execute { done(value) }
        }
    }
}

extension TreeWrite {
    /// The name of a write of a place within an update.
    fileprivate func name(below base: Path) -> String {
        let text = path.dropping(base.depth).relativeText
        return part == .node ? text : text.isEmpty ? ".priority" : text + "/.priority"
    }
}
