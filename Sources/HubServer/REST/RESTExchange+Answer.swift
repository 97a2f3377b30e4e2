import HTTPTypes
import HubEngine
import JSONTree
import WireProtocols

/// Encodes and sends responses: a small one at once; a large one is measured and charged first, then sent piece by piece.
extension RESTExchange {
    func send(empty status: HTTPResponse.Status, tags: Node?) {
        withTag(of: tags) { [self] tag in
            answer.send(RESTResponse.response(status, RESTResponse.Head(etag: tag), [], keepsAlive: answer.keepsAlive))
        }
    }

    func send(whole body: [UInt8], tags: Node?) {
        withTag(of: tags) { [self] tag in
            guard body.count > Self.inlineBytes else {
                return answer.send(RESTResponse.response(.ok, RESTResponse.Head(etag: tag), body, keepsAlive: answer.keepsAlive))
            }
            send(ResponseBody(body), .ok, RESTResponse.Head(etag: tag), .bytes)
        }
    }

    /// - Parameter tags: the node that the ETag is the hash of; nil for a response without one.
    func send(_ node: Node, _ status: HTTPResponse.Status, tags: Node?) {
        withTag(of: tags) { [self] tag in
            if let wanted = request.ifNoneMatch, wanted == tag { return send(notModified: tag) }
            send(node, status, tag)
        }
    }

    /// Answers with the size of a node in bytes, without escapes; with null when it exceeds `limit` or the largest allowed response.
    /// Encodes nothing of the node. O(nodes within the limit)
    func send(sizeOf node: Node, upTo limit: Int) {
        let most = min(limit, server.settings.limits.restReadBytes)
        withTag(of: nil) { [self] _ in
            guard most > Self.inlineBytes, node.isLarger(than: Self.inlineBytes) else { return send(size: node.size(upTo: most)) }
            onWorker({ node.size(upTo: most) }) { [self] in send(size: $0) }
        }
    }

    private func send(size: Int?) { send(size.map { .int(Int64($0)) } ?? .null, .ok, nil) }

    private func send(notModified tag: RESTRequest.ETag?) {
        answer.send(RESTResponse.response(.notModified, RESTResponse.Head(etag: tag), [], keepsAlive: answer.keepsAlive))
    }

    func withTag(of node: Node?, _ done: @escaping @Sendable (RESTRequest.ETag?) -> Void) {
        guard !isAnswered else { return }
        isAnswered = true
        guard let node else { return done(nil) }
        guard node.isLarger(than: Self.inlineBytes) else { return done(RESTRequest.ETag(hash: node.hash)) }
        onWorker({ node.hash }) { done(RESTRequest.ETag(hash: $0)) }
    }

    private func send(_ node: Node, _ status: HTTPResponse.Status, _ tag: RESTRequest.ETag?) {
        send(ResponseBody(node, form(for: status), callback: request.callback), status, head(status, tag), .version(node))
    }

    func head(_ status: HTTPResponse.Status, _ tag: RESTRequest.ETag?) -> RESTResponse.Head {
        RESTResponse.Head(etag: tag, download: status == .ok ? request.download : nil, content: request.callback == nil ? .json : .script)
    }

    /// The memory that a large body retains until it is sent.
    enum Holding: Sendable {
        /// A version of the request's place.
        case version(Node)
        /// Values of several places.
        case values([Node])
        /// The body's own bytes.
        case bytes
    }

    /// Sends a body: in one piece if it fits, else measured and charged first.
    func send(_ body: ResponseBody, _ status: HTTPResponse.Status, _ head: RESTResponse.Head, _ holding: Holding) {
        var body = body
        let first = body.next(Self.inlineBytes)
        if body.isDone {
            return answer.send(RESTResponse.response(status, head, first, keepsAlive: answer.keepsAlive, isHead: request.isHead))
        }
        onWorker({ [self, body] in measured(body, holding) }) { [self, body] measured in
            var body = body
            switch measured {
            case .failure(let refusal): return sendNothing(refusal, status, head)
            case .success(let hold): body.hold = hold
            }
            let keepsAlive = answer.keepsAlive && isHTTP11
            body.isChunked = isHTTP11
            var bytes: [UInt8] = []
            RESTResponse.appendHead(status, head, framing: isHTTP11 ? .chunked : .untilClose, keepsAlive: keepsAlive, to: &bytes)
            if request.isHead { return answer.send(bytes, keepsAlive: keepsAlive) }
            answer.send(bytes + body.framed(first), then: body, keepsAlive: keepsAlive)
        }
    }

    /// Measures a body against `restReadBytes` and charges it to the budget. On any thread. O(nodes)
    private func measured(_ body: ResponseBody, _ holding: Holding) -> Result<BodyHold?, RESTRefusal> {
        guard let size = body.size(upTo: server.settings.limits.restReadBytes) else { return .failure(.readTooBig) }
        if request.isHead { return .success(nil) }
        switch holding {
        case .bytes:
            let lease = server.memory.lease(of: answer.peer, for: .answers)
            guard lease.become(size) else { return .failure(RESTRefusal(lease.refusal ?? .process)) }
            return .success(BodyHold(lease, home.loop))
        case .version(let content): return pin(content, .place(database.name, request.path))
        case .values(let values): return pin(.object(zip(0..., values).map { (Key(String($0)), $1) }), server.memory.pinned.update())
        }
    }

    private func pin(_ content: Node, _ place: PinnedVersions.Place) -> Result<BodyHold?, RESTRefusal> {
        switch server.memory.pinned.hold(content, of: place, for: server.memory.share(of: answer.peer)) {
        case .failure(let refusal): .failure(RESTRefusal(refusal))
        case .success(let transfer): .success(BodyHold(transfer, home.loop))
        }
    }

    /// Responds without the refused body: to a successful write as with `print=silent`, otherwise with the refusal.
    private func sendNothing(_ refusal: RESTRefusal, _ status: HTTPResponse.Status, _ head: RESTResponse.Head) {
        if request.method == .get || status != .ok { return answer.refuse(refusal, isHead: request.isHead) }
        answer.send(RESTResponse.response(.noContent, RESTResponse.Head(etag: head.etag), [], keepsAlive: answer.keepsAlive))
    }

    /// The form of the response: a write is echoed as it was sent, with priorities.
    func form(for status: HTTPResponse.Status) -> NodeEncoder.Form {
        var form = request.form
        if request.shallow != nil {
            form.arrays = .never
        } else if request.isOrdered, form.arrays == .everywhere {
            form.arrays = .belowRoot
        }
        if request.method == .put || request.method == .patch, status == .ok { form.showsPriorities = true }
        return form
    }
}
