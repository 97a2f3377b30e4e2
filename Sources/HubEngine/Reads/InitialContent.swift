import JSONTree
import LiveQueries
import Synchronization

/// Sends new observers their first content with the answer to their request. A large one is encoded off the queue.
///
/// Confined to the database queue.
final class InitialContent: @unchecked Sendable {
    // Sendable: background work that captures it only returns to the queue.
    private let context: EngineContext
    private let format: any WireFormat
    private let content: Content
    private let batch: Batch
    private let durability: DurabilityQueue
    private let registry: ObserverRegistry
    private let outbox: Outbox
    private let slowReaders: SlowReaders
    private let answers: Answers
    private let encodings: EncodeQueue

    init(
        _ context: EngineContext, _ format: any WireFormat, _ pipeline: BatchPipeline, _ registry: ObserverRegistry, output: ClientOutput
    ) {
        self.context = context
        self.format = format
        (content, batch, durability) = (pipeline.content, pipeline.batch, pipeline.durability)
        self.registry = registry
        (outbox, answers) = (output.outbox, output.answers)
        (slowReaders, encodings) = (output.slowReaders, output.encodings)
    }

    /// Resumes an observer: sends the answer, then the child events that it has missed.
    private func resume(_ observation: Observation, _ missed: [ViewChange], _ reply: Reply, _ item: SubmittedRequest) {
        answers.answer(reply, item)
        for change in missed {
            var parts: (any ChangeParts)?
            outbox.send(format.change(change, for: observation.style, sharing: &parts), to: item.client)
        }
        outbox.send(format.ready(observation.style, sequence: content.sequence), to: item.client)
    }

    /// The answer to an observer's request.
    /// - Parameters:
    ///   - epoch: with which a client may return to this hub; nil if it cannot.
    ///   - isReset: true if the client has to start from scratch.
    func reply(lacksIndex: Bool, epoch: String?, isReset: Bool) -> Reply {
        guard let epoch else { return .observing(sequence: content.sequence, lacksIndex: lacksIndex) }
        return .observed(sequence: content.sequence, lacksIndex: lacksIndex, epoch: epoch, isReset: isReset)
    }

    /// Sends a new observer its first content, and the answer.
    /// - Parameters:
    ///   - selection: what the observer's query shows now; nil for the whole place.
    ///   - hash: of the value that the client already has.
    ///   - missed: the changes missed by a returning client; nil if unknown.
    func send(
        _ observation: Observation, _ selection: Selection?, _ reply: Reply, hash: String, _ missed: [ViewChange]?, _ item: SubmittedRequest
    ) {
        let client = item.client
        let (path, style) = (observation.path, observation.style)
        let node = selection?.value ?? content.root.node(at: path)
        // An observer of values that has missed changes receives the current value.
        if let missed, style.parts.contains(.events) || missed.isEmpty { return resume(observation, missed, reply, item) }
        if style.isCount {
            answers.answer(reply, item)
            let count = selection?.count ?? node.childCount
            return outbox.send(format.initial(count: count, style: style, sequence: content.sequence), to: client)
        }
        if answers.isLarge(node) { return sendLater(observation, node, hash, reply, item, holding: selection?.hold) }
        let first = mustSend(node, hash, style) ? self.initial(node, observation) : []
        guard first.count <= context.limits.readBytes else {
            registry.remove(observation, of: client)
            return answers.answer(.failed(.readTooBig), item)
        }
        switch style {
        case .patches:
            // Data first: the ok marks the client's view as complete (contract §2.5 rule 2).
            outbox.send(first, to: client)
            answers.answer(reply, item)
        case .events, .stream, .countStream:
            answers.answer(reply, item)
            outbox.send(first, to: client)
        }
    }

    private func initial(_ node: Node, _ observation: Observation) -> [UInt8] {
        format.initial(node, at: observation.path, query: observation.query, style: observation.style, sequence: content.sequence)
    }

    /// True if a realtime client lacks the value. An equal value is not sent again.
    private func mustSend(_ node: Node, _ hash: String, _ style: ObserverStyle) -> Bool {
        guard case .patches = style else { return true }
        return hash.isEmpty ? node.exists : node.hash != hash
    }

    /// Encodes an observer's initial value and the answer to its request as one message, off the queue. The observer already exists; it is removed
    /// again if the value is too large.
    /// - Parameter hold: released when the value is encoded or dropped.
    private func sendLater(
        _ observation: Observation, _ node: Node, _ hash: String, _ reply: Reply, _ item: SubmittedRequest, holding hold: MemoryLease?
    ) {
        let (client, style, limit, format) = (item.client, observation.style, context.limits.readBytes, self.format)
        let sequence = content.sequence
        let first = DeferredBytes(context.limits.inlineBytes)
        outbox.send(first, to: client)
        slowReaders.holdUntilReceived(client, suspends: style.isValue)
        let finished = { @Sendable (reply: Reply, content: [UInt8]) -> DeferredBytes.Outcome in
            let answer = format.reply(reply, to: item.token, dialect: client.dialect)
            return switch style {
            // Data first: the ok marks the client's view as complete (contract §2.5 rule 2).
            case .patches: DeferredBytes.Outcome(content + answer)
            case .events: DeferredBytes.Outcome(answer + content)
            case .stream, .countStream: DeferredBytes.Outcome(content, reply: reply)
            }
        }
        let refuse = { @Sendable [self] (first: DeferredBytes) in
            context.queue.async { [self] in
                withdraw(observation, of: client, first)
                first.fill(finished(.failed(.readTooBig), []))
            }
        }
        encodings.add(first, isHeavy: { node.isLarger(than: $0) }) { first in
            if client.isGone.load(ordering: .relaxed) { return .done(DeferredBytes.Outcome()) }
            // An equal value is not sent again.
            if case .patches = style, !hash.isEmpty, node.hash == hash { return .done(finished(reply, [])) }
            guard let size = node.encodedSize(upTo: limit) else {
                refuse(first)
                return .elsewhere
            }
            return .make(reserving: (size + node.childCount * Self.eventOverheadBytes) * encodingFactor) {
                let content = withExtendedLifetime(hold) {
                    format.initial(node, at: observation.path, query: observation.query, style: style, sequence: sequence)
                }
                // Events of many small children are larger than the children.
                if content.count > limit, style.parts.contains(.events) {
                    refuse(first)
                    return nil
                }
                return finished(reply, content)
            }
        }
    }

    /// Approximate bytes of an event in addition to its child.
    private static let eventOverheadBytes = 80

    private func withdraw(_ observation: Observation, of client: Client, _ first: DeferredBytes) {
        context.queue.assertCurrent()
        // The batch was rolled back, and the observer was registered again with another initial value.
        if first.isAbandoned.load(ordering: .relaxed) { return }
        registry.remove(observation, of: client)
        batch.record(.tooLarge(client, observation))
        durability.finishBatch()
    }
}
