import JSONTree
import Synchronization

/// Answers requests: small answers are encoded at once, large ones off the queue, from the immutable tree; their place in the order
/// of deliveries is taken at once. Confined to the database queue.
final class Answers {
    private let context: EngineContext
    private let outbox: Outbox
    private let early: EarlyAnswers
    private let slowReaders: SlowReaders
    private let encodings: EncodingLine

    init(_ context: EngineContext, _ outbox: Outbox, _ early: EarlyAnswers, _ slowReaders: SlowReaders, _ encodings: EncodingLine) {
        self.context = context
        self.outbox = outbox
        self.early = early
        self.slowReaders = slowReaders
        self.encodings = encodings
    }

    /// - Parameter hold: holds the reply's value in the budget until it is written down; nil for what is shared with the tree.
    func answer(_ reply: Reply, _ item: Database.Item, holding hold: MemoryLease? = nil) {
        let channel: Outbox.Channel = early.admits(reply, item) ? .early : .batch
        if early.departure == .muted { return }
        let client = item.client
        if client.dialect.hasReplies { return outbox.reply(reply, to: client, channel) }
        if let node = reply.content, isLarge(node) { return answerLater(reply, of: node, item, holding: hold, channel) }
        var bytes = context.format.reply(reply, to: item.token, dialect: client.dialect)
        if reply.content != nil, bytes.count > context.limits.readBytes {
            bytes = context.format.reply(.failed(.readTooBig), to: item.token, dialect: client.dialect)
        }
        outbox.send(bytes, to: client, channel)
    }

    /// Answers a read with what is stored at a place, written from where it lies: most reads, of small values.
    /// - Returns: false, with nothing done, where there is nothing, where that is larger, and for clients whose answers are made of values.
    func answer(contentAt path: Path, of root: Node, _ item: Database.Item) -> Bool {
        let client = item.client
        guard client.dialect == .realtime else { return false }
        var written: [UInt8]?
        root.withCursor(at: path) { node in
            guard let node, !node.isLarger(than: context.limits.inlineBytes) else { return }
            written = context.format.value(node, to: item.token)
        }
        guard let bytes = written, bytes.count <= context.limits.readBytes else { return false }
        // It refuses nothing, which is all that is asked of the reply.
        let channel: Outbox.Channel = early.admits(.done, item) ? .early : .batch
        if early.departure != .muted { outbox.send(bytes, to: client, channel) }
        return true
    }

    /// An answer that was written without the database.
    func answer(_ bytes: [UInt8], to client: Client) { outbox.send(bytes, to: client, early.admitsUnread(client) ? .early : .batch) }

    /// Whether a value is encoded off the queue. O(`inlineBytes`)
    func isLarge(_ node: Node) -> Bool { node.isLarger(than: context.limits.inlineBytes) }

    /// - Parameter hold: released when the value is encoded, or dropped.
    private func answerLater(_ reply: Reply, of node: Node, _ item: Database.Item, holding hold: MemoryLease?, _ channel: Outbox.Channel) {
        let (client, token, limit, format) = (item.client, item.token, context.limits.readBytes, context.format)
        let answer = DeferredBytes(context.limits.inlineBytes)
        outbox.send(answer, to: client, channel)
        slowReaders.holdWhileTaking(client, suspends: false, channel)
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
    /// What was read, which may be large.
    fileprivate var content: Node? {
        switch self {
        case .value(let node), .selected(let node, _): node
        case .explained(let reply, _): reply.content
        default: nil
        }
    }
}
