import DispatchNet
import HTTPTypes
import HubEngine
import JSONTree
import WireProtocols

/// One REST request on its way through the database and back. Lives until it is answered.
///
/// ```
/// loop:    begin ── small body ─────────────► submit                    replied ─► answer
///             └── large ─► aside: parse ─► loop ─► submit                  └─ large ─► aside: measure, hash ─► loop: answer, in pieces
/// ```
///
/// What takes long for its size is `LargeWork`, so that other connections of the loop do not wait.
final class RESTExchange: Client, NodePayer, @unchecked Sendable {
    // Sendable: everything declared here is set before the request is submitted and used on the loop, or by the one thread
    // that the exchange is with.
    private let request: RESTRequest
    private let answer: PendingAnswer
    private let home: Lane
    private let database: Database
    private let asker: Identity
    private unowned let server: Server
    private let beganAt = Clock.nowMs()
    private var isHTTP11 = true
    /// As it was sent, while the answer may have to repeat it.
    private var body: [UInt8] = []
    private var isAnswered = false
    /// The body is, and so may be the answer.
    private var isLarge = false

    /// Up to here an answer is measured and hashed on the loop, and is made in one piece.
    static let inlineBytes = 128 << 10

    init(_ request: RESTRequest, _ identity: Identity, _ answer: PendingAnswer, lane: Lane, database: Database, server: Server) {
        self.request = request
        self.answer = answer
        home = lane
        asker = identity
        self.database = database
        self.server = server
        super.init(lane: lane.index, dialect: .rest, identity: identity)
    }

    func begin(_ body: [UInt8], isHTTP11: Bool) {
        self.isHTTP11 = isHTTP11
        guard request.method != .get else {
            return submit(.read(request.query))
        }
        isLarge = body.count > server.settings.limits.largeRequestBytes
        guard isLarge else {
            home.allowance.begin(self)
            var work = parsed(body, home.allowance)
            if let lease = home.allowance.hold as? MemoryLease { work = Self.judged(work, lease) }
            let (cost, hold) = home.allowance.end()
            return carryOut(work, body, max(body.count, cost), hold)
        }
        let lease = server.memory.lease(of: answer.peer, for: .parsing)
        server.largeWork.run(of: answer.peer) { [self] in
            let allowance = NodeAllowance(lease)
            let work = Self.judged(parsed(body, allowance, permits), lease)
            let (cost, hold) = allowance.end()
            home.loop.execute { [self] in carryOut(work, body, max(body.count, cost), hold) }
        }
    }

    /// A body for which there is no memory is too large, or comes at a bad time: as far as is known it would fit if nobody had
    /// anything else.
    private static func judged(_ work: Result<Parsed, RESTRefusal>, _ lease: MemoryLease) -> Result<Parsed, RESTRefusal> {
        guard case .failure(.overBudget) = work, let refusal = lease.refusal else { return work }
        let isTooLarge = lease.bytes >= min(lease.share.limit, lease.share.budget.limit) / 2
        return isTooLarge ? work : .failure(RESTRefusal(refusal))
    }

    func makeHold() -> any NodeHold { server.memory.lease(of: answer.peer, for: .parsing) }

    /// Says of a place whether some data could make the rules allow a write there.
    private var permits: (@Sendable (Path) -> Bool)? {
        if asker.isAdmin { return nil }
        return { [server, database, asker] in server.mayAllowWrite($0, in: database, by: asker) }
    }

    private func parsed(
        _ body: [UInt8], _ allowance: NodeAllowance, _ permits: (@Sendable (Path) -> Bool)? = nil
    ) -> Result<Parsed, RESTRefusal> {
        var limits = TreeWriteLimits()
        limits.allowance = allowance
        limits.permits = permits
        return body.withUnsafeBytes { bytes in
            do throws(RESTRefusal) { return .success(Parsed(try RESTBody(request, bytes, limits), of: request)) } catch { return .failure(error) }
        }
    }

    /// What a body says, and what its answer will have to know of it.
    private struct Parsed: Sendable {
        let body: RESTBody
        /// Whether the hub computes some of it, so that the answer may have to repeat the body as it came.
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

    private func carryOut(_ work: Result<Parsed, RESTRefusal>, _ body: [UInt8], _ size: Int, _ hold: (any NodeHold)?) {
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

    private func submit(_ work: Exchange.Work, size: Int = 0, hold: (any NodeHold)? = nil) {
        let exchange = Exchange(
            request.path, work, ifHash: request.ifMatch?.hash, wantsContent: request.method != .get && request.wantsETag || request.ifMatch != nil)
        database.submit(.exchange(exchange), from: self, size: size, hold: hold)
    }

    // MARK: The answer

    override func dismissed() {
        refuse(RESTRefusal(.serviceUnavailable, "The request could not be stored and was not carried out. Try again later."))
    }

    override func replied(_ reply: Reply) {
        switch reply {
        case .exchanged(let outcome): request.method == .get ? read(outcome.content) : wrote(outcome)
        case .failed(let failure): refuse(RESTRefusal(failure))
        default: refuse(RESTRefusal(.internalServerError, "Unexpected answer."))
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

    /// The names that an update was sent with; nil for a `null`, which has none.
    private var names: [String]?

    /// An update's values under their names.
    private func echo(_ written: [Node]) {
        guard let names, names.count == written.count else { return send(.null, .ok, tags: nil) }
        let body = OutgoingBody(UpdateEcho(names, written, form(for: .ok)))
        withTag(of: nil) { [self] _ in send(body, .ok, RESTResponse.Head()) }
    }

    private func read(_ content: Node) {
        if Clock.nowMs() - beganAt > Int64(request.timeoutMs) { return refuse(.tookTooLong) }
        let tagged = request.wantsETag || request.ifNoneMatch != nil ? content : nil
        if let shallow = request.shallow {
            let range = NameEncoder.Range(after: shallow.startAfter, limit: shallow.limit, keepsLast: shallow.keepsLast)
            let body = OutgoingBody(content, namesIn: range, isPretty: request.form.isPretty, callback: request.callback)
            return withTag(of: tagged) { [self] tag in send(body, .ok, head(.ok, tag)) }
        }
        let node = request.part == .node ? content : content.priority
        guard request.isSilent else { return send(node, .ok, tags: tagged) }
        send(empty: .noContent, tags: tagged)
    }

    private func onWorker<Value: Sendable>(_ work: @escaping @Sendable () -> Value, _ done: @escaping @Sendable (Value) -> Void) {
        server.largeWork.run(of: answer.peer) { [home] in
            let value = work()
            home.loop.execute { done(value) }
        }
    }

    // MARK: Writing it down

    private func send(empty status: HTTPResponse.Status, tags: Node?) {
        withTag(of: tags) { [self] tag in
            answer.send(RESTResponse.response(status, RESTResponse.Head(etag: tag), [], keepsAlive: answer.keepsAlive))
        }
    }

    private func send(whole body: [UInt8], tags: Node?) {
        withTag(of: tags) { [self] tag in
            guard body.count > Self.inlineBytes else {
                return answer.send(RESTResponse.response(.ok, RESTResponse.Head(etag: tag), body, keepsAlive: answer.keepsAlive))
            }
            send(OutgoingBody(body), .ok, RESTResponse.Head(etag: tag), holding: .answers)
        }
    }

    /// - Parameter tags: what the answer's ETag is of; nil for an answer without one.
    private func send(_ node: Node, _ status: HTTPResponse.Status, tags: Node?) {
        withTag(of: tags) { [self] tag in
            if let wanted = request.ifNoneMatch, wanted == tag { return send(notModified: tag) }
            send(node, status, tag)
        }
    }

    private func send(notModified tag: RESTRequest.ETag?) {
        answer.send(RESTResponse.response(.notModified, RESTResponse.Head(etag: tag), [], keepsAlive: answer.keepsAlive))
    }

    private func withTag(of node: Node?, _ done: @escaping @Sendable (RESTRequest.ETag?) -> Void) {
        guard !isAnswered else { return }
        isAnswered = true
        guard let node else { return done(nil) }
        guard node.isLarger(than: Self.inlineBytes) else { return done(RESTRequest.ETag(hash: node.hash)) }
        onWorker({ node.hash }) { done(RESTRequest.ETag(hash: $0)) }
    }

    private func send(_ node: Node, _ status: HTTPResponse.Status, _ tag: RESTRequest.ETag?) {
        send(OutgoingBody(node, form(for: status), callback: request.callback), status, head(status, tag))
    }

    private func head(_ status: HTTPResponse.Status, _ tag: RESTRequest.ETag?) -> RESTResponse.Head {
        RESTResponse.Head(etag: tag, download: status == .ok ? request.download : nil, content: request.callback == nil ? .json : .script)
    }

    /// What fits in a piece is sent as it is; a large body is measured first, and counted while it is under way.
    /// - Parameter purpose: what it holds: old content that it shares with the tree, or bytes of its own.
    private func send(
        _ body: OutgoingBody, _ status: HTTPResponse.Status, _ head: RESTResponse.Head, holding purpose: MemoryBudget.Purpose = .pinned
    ) {
        var body = body
        let first = body.next(Self.inlineBytes)
        if body.isDone { return answer.send(RESTResponse.response(status, head, first, keepsAlive: answer.keepsAlive, isHead: request.isHead)) }
        let limit = server.settings.limits.restReadBytes
        onWorker({ [body] in body.size(upTo: limit) }) { [self, body] size in
            guard let size else { return sendNothing(.readTooBig, status, head) }
            var body = body
            if !request.isHead {
                let lease = server.memory.lease(of: answer.peer, for: purpose)
                // What is pinned shares most with the tree as it is now.
                guard lease.become(purpose == .pinned ? min(size, server.memory.budget.limit / 8) : size) else {
                    return sendNothing(RESTRefusal(lease.refusal ?? .process), status, head)
                }
                body.lease = lease
            }
            let keepsAlive = answer.keepsAlive && isHTTP11
            body.isChunked = isHTTP11
            var bytes: [UInt8] = []
            RESTResponse.appendHead(status, head, framing: isHTTP11 ? .chunked : .untilClose, keepsAlive: keepsAlive, to: &bytes)
            if request.isHead { return answer.send(bytes, keepsAlive: keepsAlive) }
            answer.send(bytes + body.framed(first), then: body, keepsAlive: keepsAlive)
        }
    }

    /// The body cannot be given. What has been written is told all the same, as with `print=silent`.
    private func sendNothing(_ refusal: RESTRefusal, _ status: HTTPResponse.Status, _ head: RESTResponse.Head) {
        if request.method == .get || status != .ok { return answer.refuse(refusal, isHead: request.isHead) }
        answer.send(RESTResponse.response(.noContent, RESTResponse.Head(etag: head.etag), [], keepsAlive: answer.keepsAlive))
    }

    /// What was written is repeated as it was sent, with priorities.
    private func form(for status: HTTPResponse.Status) -> NodeEncoder.Form {
        var form = request.form
        if request.shallow != nil { form.showsArrays = false }
        if request.method == .put || request.method == .patch, status == .ok { form.showsPriorities = true }
        return form
    }
}

extension TreeWrite {
    /// The name that an update of a place has for the write.
    fileprivate func name(below base: Path) -> String {
        let text = path.dropping(base.depth).relativeText
        return part == .node ? text : text.isEmpty ? ".priority" : text + "/.priority"
    }
}
