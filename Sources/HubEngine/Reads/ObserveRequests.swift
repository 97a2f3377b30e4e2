import JSONTree
import LiveQueries
import Synchronization

/// Handles requests to observe: checks permission and limits, sends the initial value, and registers the observer.
///
/// ```
/// observe ─► allowed? ─► within limits? ─► query result (ReadRequests) ─► established: initial value and answer, in order
///                                                                               └─ too large after all: withdrawn
/// ```
/// Confined to the database queue.
final class ObserveRequests: @unchecked Sendable {
    // Sendable: background work that captures it only returns to the queue.
    private let context: EngineContext
    private let format: any WireFormat
    private let content: Content
    private let batch: Batch
    private let durability: DurabilityQueue
    private let places: PlaceTrie
    private let indexes: IndexStore
    private let registry: ObserverRegistry
    private let permissions: ReadPermissions
    private let reads: ReadRequests
    private let live: LiveReads
    private let queries: LiveQueryUpdater
    private let publisher: Publisher
    private let outbox: Outbox
    private let slowReaders: SlowReaders
    private let answers: Answers
    private let encodings: EncodeQueue
    /// What resumes returning observers.
    var resumeSupport: (ring: CommitRing, resumption: Resumption)?

    init(
        _ context: EngineContext, _ format: any WireFormat, _ pipeline: BatchPipeline, _ places: PlaceTrie, _ indexes: IndexStore,
        _ registry: ObserverRegistry, _ permissions: ReadPermissions, _ reads: ReadRequests, _ live: LiveReads, _ queries: LiveQueryUpdater,
        _ publisher: Publisher, output: ClientOutput
    ) {
        self.context = context
        self.format = format
        (content, batch, durability) = (pipeline.content, pipeline.batch, pipeline.durability)
        self.places = places
        self.indexes = indexes
        self.registry = registry
        self.permissions = permissions
        self.reads = reads
        self.live = live
        self.queries = queries
        self.publisher = publisher
        (outbox, answers) = (output.outbox, output.answers)
        (slowReaders, encodings) = (output.slowReaders, output.encodings)
    }

    /// - Parameters:
    ///   - hash: hash of the value that the client already has; an equal value is not sent again (contract §2.5 rule 3).
    ///   - since: the last commit that the client has seen.
    func observe(_ asked: Observation, hash: String, since: Position? = nil, _ item: SubmittedRequest) {
        let client = item.client
        let (path, style) = (asked.path, asked.style)
        let query = style.isCount ? permissions.counted(asked.query, at: path, for: client) : asked.query
        let observation = Observation(path: path, query: query, style: style)
        if case .events(let id, _, _) = style, client.observations[id] != nil {
            return answers.answer(.failed(Failure(.duplicateObserver, "An observer has the id \(id) already.")), item)
        }
        if reads.isTooLong(observation.query) { return refuse(observation, .queryTooLong(context.limits.queryBytes), item) }
        guard mayObserve(observation, item) else { return }
        if !client.observations.contains(observation), let failure = registry.refusal(of: observation, of: client) {
            return refuse(observation, failure, item)
        }
        if style.isCount, let failure = permissions.noteCount(of: path, client) { return refuse(observation, failure, item) }
        begin(observation, hash: hash, since: since, item)
    }

    /// Starts an allowed observer with its initial value.
    private func begin(_ observation: Observation, hash: String, since: Position?, _ item: SubmittedRequest) {
        let client = item.client
        let (path, style) = (observation.path, observation.style)
        if let query = observation.query, !query.isPlain { return observe(query, observation, since, item) }
        let missed = missed(observation, since, item.client)
        guard let query = observation.query?.plain else { return establish(observation, nil, hash: hash, since, missed, item) }
        // REST cannot send a warning along with the data (contract §3.4).
        if style.isStream, indexes.isMissing(query.orderedBy, path) {
            return refuse(observation, .missingIndex(query.orderedBy, path), item)
        }
        let sendsResult = missed == nil || !style.parts.contains(.events)
        reads.select(query, at: path, for: item, mustKeep: true, countsOnly: style.isCount || !sendsResult) { [self] result, isLater in
            if isLater {
                if client.isGone.load(ordering: .relaxed) { return }
                guard mayObserve(observation, item) else { return }
            }
            switch result {
            case .success(let selection):
                // More commits may have happened meanwhile than the ring keeps.
                let missed = isLater ? self.missed(observation, since, client) : missed
                if missed == nil, !sendsResult { return begin(observation, hash: hash, since: .unknown, item) }
                establish(observation, selection, hash: hash, since, missed, item)
            case .failure(let failure): refuse(observation, failure, item)
            }
        }
        // The observer does not exist yet, so it needs no rechecks until then.
        if client.suspendedRequest != nil, !client.observations.contains(observation) { registry.setDependencies([], of: observation, client) }
    }

    /// The same for a live query.
    private func observe(_ query: Query, _ observation: Observation, _ since: Position?, _ item: SubmittedRequest) {
        live.find(query, observation.showing, at: observation.path, for: item) { [self] result, isLater in
            if isLater {
                if item.client.isGone.load(ordering: .relaxed) { return }
                guard mayObserve(observation, item) else { return }
            }
            switch result {
            case .success(let view):
                if let failure = registry.refusal(of: observation, showing: view, of: item.client) {
                    return refuse(observation, failure, item)
                }
                let missed = missed(observation, since, item.client)
                let sendsResult = missed == nil || !observation.style.parts.contains(.events)
                let selection = sendsResult ? live.selection(of: view) : Selection(value: .null, window: nil, count: 0)
                establish(observation, selection, hash: "", since, missed, item)
            case .failure(let failure): refuse(observation, failure, item)
            }
        }
        if item.client.suspendedRequest != nil, !item.client.observations.contains(observation) {
            registry.setDependencies([], of: observation, item.client)
        }
    }

    /// Moves the centre of an observed circle. The observer receives the difference after the answer.
    func move(_ id: Int64, to centre: GeoPoint, _ item: SubmittedRequest) {
        let client = item.client
        @Sendable func fail(_ failure: Failure) { answers.answer(.failed(failure), item) }
        guard let observation = client.observations[id] else { return fail(.unknownObserver(id)) }
        guard let query = observation.query, query.near != nil else {
            return fail(Failure(.failure, "The observer \(id) has no circle that could be moved."))
        }
        let isCount = observation.style.isCount
        let there = query.moved(to: centre)
        let next = isCount ? permissions.counted(there, at: observation.path, for: client) ?? there : there
        let moved = Observation(path: observation.path, query: next, style: observation.style)
        if moved == observation { return answers.answer(.written(sequence: content.sequence), item) }
        if let failure = permissions.refusal(of: moved, client) { return fail(failure) }
        if isCount, let failure = permissions.noteCount(of: observation.path, client) { return fail(failure) }
        live.find(next, observation.showing, at: observation.path, for: item) { [self] result, isLater in
            if isLater {
                if client.isGone.load(ordering: .relaxed) { return }
                // The observer may have ended meanwhile, or lost its permission.
                guard client.observations.contains(observation) else { return fail(.unknownObserver(id)) }
                if let failure = permissions.refusal(of: moved, client) { return fail(failure) }
            }
            guard case .success(let now) = result else {
                if case .failure(let failure) = result { fail(failure) }
                return
            }
            guard let before = places.existingView(of: observation), let place = queries.places[observation.path],
                let (was, shown) = before.live.flatMap({ was in now.live.map { (was, $0) } })
            else { return fail(.unknownObserver(id)) }
            // The difference would miss events that the observer has not received yet.
            if was.view.isShort { return fail(.changesTooFast) }
            if let failure = registry.refusal(of: moved, showing: now, of: client, isCounted: true) { return fail(failure) }
            // Checks again, so that the permission now depends on what the rules read for the moved circle.
            guard permissions.permits(moved, of: client, as: .listen) else { return fail(.permissionDenied) }
            let node = content.root.node(at: observation.path)
            let difference = queries.places.metered(place) { place.queries.difference(from: was.view, to: shown.view, over: node) }
            let parts = moved.style.parts
            let change = difference.map { place.liveChange($0, of: shown.view, node, wantsShown: parts.contains(.value)) }
            now.add(client, style: moved.style)
            registry.replace(observation, with: moved, of: client)
            answers.answer(.written(sequence: content.sequence), item)
            guard let change else { return }
            var limits = ChangeLimits(children: .max, room: .max)
            let viewChange = ViewChange(.live(change, of: node), at: moved.path, for: parts, sequence: content.sequence, within: &limits)
            publisher.publish(viewChange, moved.style, to: client)
        }
    }

    /// Ends the observers of a style at a place. Realtime clients distinguish queries of one place by their tag.
    func unobserve(_ path: Path, _ style: ObserverStyle, _ item: SubmittedRequest) {
        for observation in item.client.observations.at(path, style: style) { registry.remove(observation, of: item.client) }
        answers.answer(.done, item)
    }

    func unobserve(_ id: Int64, _ item: SubmittedRequest) {
        guard let observation = item.client.observations[id] else {
            return answers.answer(.failed(.unknownObserver(id)), item)
        }
        registry.remove(observation, of: item.client)
        answers.answer(.done, item)
    }

    /// Removes an observer whose initial value was too large, when its batch runs again.
    func remove(_ observation: Observation, of client: Client) { registry.remove(observation, of: client) }

    /// True if the rules allow the observer. Otherwise answers the request.
    private func mayObserve(_ observation: Observation, _ item: SubmittedRequest) -> Bool {
        if permissions.permits(observation, of: item.client, as: .listen) { return true }
        refuse(observation, .permissionDenied, item)
        return false
    }

    /// Refuses the request. Also ends an existing observer of the same query, because a client treats a refused one as ended (contract §2.4).
    private func refuse(_ observation: Observation, _ failure: Failure, _ item: SubmittedRequest) {
        registry.remove(observation, of: item.client)
        answers.answer(.failed(failure), item)
    }

    // MARK: Initial values

    /// What a returning observer has missed; nil if it starts from scratch, or for the first time.
    private func missed(_ observation: Observation, _ since: Position?, _ client: Client) -> [ViewChange]? {
        guard let since, since != .unknown else { return nil }
        return resumeSupport?.resumption.missed(by: observation, of: client, since: since)
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

    /// - Parameters:
    ///   - selection: what the observer's query shows now.
    ///   - since: the last commit that the client has seen.
    ///   - missed: the changes missed since then; nil if unknown.
    private func establish(
        _ observation: Observation, _ selection: Selection?, hash: String, _ since: Position?, _ missed: [ViewChange]?,
        _ item: SubmittedRequest
    ) {
        let client = item.client
        let (path, style) = (observation.path, observation.style)
        let unindexed = observation.query?.plain.map { indexes.isMissing($0.orderedBy, path) } ?? false
        let node = selection?.value ?? content.root.node(at: path)
        registry.insert(observation, of: client, showing: selection?.window)
        var reply = Reply.observing(sequence: content.sequence, lacksIndex: unindexed)
        if style.isResumable, let ring = resumeSupport?.ring {
            reply = .observed(
                sequence: content.sequence, lacksIndex: unindexed, epoch: ring.epoch, isReset: since != nil && missed == nil)
        }
        reply = reads.explained(reply, observation.query, observation.showing, at: path, isHeld: true, item)
        // An observer of values that has missed changes receives the current value.
        if let missed, style.parts.contains(.events) || missed.isEmpty { return resume(observation, missed, reply, item) }
        if style.isCount {
            answers.answer(reply, item)
            let count = selection?.count ?? node.childCount
            return outbox.send(format.initial(count: count, style: style, sequence: content.sequence), to: client)
        }
        if answers.isLarge(node) { return beginLater(observation, node, hash, reply, item, holding: selection?.hold) }
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
    private func beginLater(
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

extension Failure {
    fileprivate static func unknownObserver(_ id: Int64) -> Failure { Failure(.unknownObserver, "No observer has the id \(id).") }
}
