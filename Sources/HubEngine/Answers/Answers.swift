import JSONTree
import Synchronization

/// Answers requests. Small answers are encoded at once; large ones off the queue, from the immutable tree, but in their place in the order of
/// deliveries. Confined to the database queue.
final class Answers {
    private let context: EngineContext
    private let format: any WireFormat
    private let outbox: Outbox
    private let early: EarlyAnswers
    private let slowReaders: SlowReaders
    private let encodings: EncodeQueue

    init(
        _ context: EngineContext, _ format: any WireFormat, _ outbox: Outbox, _ early: EarlyAnswers, _ slowReaders: SlowReaders,
        _ encodings: EncodeQueue
    ) {
        self.context = context
        self.format = format
        self.outbox = outbox
        self.early = early
        self.slowReaders = slowReaders
        self.encodings = encodings
    }

    /// - Parameter hold: the memory lease of the reply's value, kept until it is encoded. Nil for a value shared with the tree.
    func answer(_ reply: Reply, _ item: SubmittedRequest, holding hold: MemoryLease? = nil) {
        let channel: Outbox.Channel = early.admits(reply, item) ? .early : .batch
        if early.timing == .muted { return }
        let client = item.client
        if client.dialect.hasReplies { return outbox.reply(reply, to: client, channel) }
        if let node = reply.content, isLarge(node) { return answerLater(reply, of: node, item, holding: hold, channel) }
        var bytes = format.reply(reply, to: item.token, dialect: client.dialect)
        if reply.content != nil, bytes.count > context.limits.readBytes {
            bytes = format.reply(.failed(.readTooBig), to: item.token, dialect: client.dialect)
        }
        outbox.send(bytes, to: client, channel)
    }

    /// Answers a read by encoding the stored value in place, without copying the node. Covers most reads, which are small.
    /// - Returns: false, with nothing done, if the place is empty or the value large, or if the client's dialect takes values instead of bytes.
    func answer(contentAt path: Path, of root: Node, _ item: SubmittedRequest) -> Bool {
        let client = item.client
        guard client.dialect == .realtime else { return false }
        var written: [UInt8]?
        root.withCursor(at: path) { node in
            guard let node, !node.isLarger(than: context.limits.inlineBytes) else { return }
            written = format.value(node, to: item.token)
        }
        guard let bytes = written, bytes.count <= context.limits.readBytes else { return false }
        // The reply is only checked for refusals, and this one is none.
        let channel: Outbox.Channel = early.admits(.done, item) ? .early : .batch
        if early.timing != .muted { outbox.send(bytes, to: client, channel) }
        return true
    }

    /// Sends an answer that was made without reading the database.
    func answer(_ bytes: [UInt8], to client: Client) { outbox.send(bytes, to: client, early.admitsWithoutRead(client) ? .early : .batch) }

    /// True if a value is encoded off the queue. O(`inlineBytes`)
    func isLarge(_ node: Node) -> Bool { node.isLarger(than: context.limits.inlineBytes) }

    /// - Parameter hold: released when the value is encoded or dropped.
    private func answerLater(_ reply: Reply, of node: Node, _ item: SubmittedRequest, holding hold: MemoryLease?, _ channel: Outbox.Channel) {
        let (client, token, limit, format) = (item.client, item.token, context.limits.readBytes, self.format)
        let answer = DeferredBytes(context.limits.inlineBytes)
        outbox.send(answer, to: client, channel)
        slowReaders.holdUntilReceived(client, suspends: false, channel)
        encodings.add(answer, isHeavy: { node.isLarger(than: $0) }) { _ in
            if client.isGone.load(ordering: .relaxed) { return .done(DeferredBytes.Outcome()) }
            guard let size = node.encodedSize(upTo: limit) else {
                return .done(DeferredBytes.Outcome(format.reply(.failed(.readTooBig), to: token, dialect: client.dialect)))
            }
            return .make(reserving: size * encodingFactor) {
                withExtendedLifetime(hold) { DeferredBytes.Outcome(format.reply(reply, to: token, dialect: client.dialect)) }
            }
        }
    }
}

extension Failure {
    /// Contract §7.5.
    static let readTooBig = Failure(.tooBig, "The specified payload is too large, please request a location with less data.")
}

extension Reply {
    /// The value that was read, which may be large.
    fileprivate var content: Node? {
        switch self {
        case .value(let node), .selected(let node, _): node
        case .explained(let reply, _): reply.content
        default: nil
        }
    }
}
