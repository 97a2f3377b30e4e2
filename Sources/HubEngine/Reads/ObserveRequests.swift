import JSONTree
import LiveQueries
import Synchronization

/// Handles requests to observe: checks permission and limits, sends the initial value, and registers the observer.
///
/// ```
/// observe ─► allowed? ─► within limits? ─► query result (ReadRequests) ─► established: initial value and answer, in order
///                                                             (InitialContent)  └─ too large after all: withdrawn
/// ```
/// Confined to the database queue.
final class ObserveRequests: @unchecked Sendable {
    // Sendable: background work that captures it only returns to the queue.
    private let context: EngineContext
    private let indexes: IndexStore
    private let registry: ObserverRegistry
    private let permissions: ReadPermissions
    private let reads: ReadRequests
    private let live: LiveReads
    private let answers: Answers
    private let initial: InitialContent
    private let resumption: Resumption
    /// Handles requests to move an observed circle.
    let queryMoves: QueryMoves

    init(
        _ context: EngineContext, _ indexes: IndexStore, _ registry: ObserverRegistry, _ permissions: ReadPermissions, _ reads: ReadRequests,
        _ live: LiveReads, _ answers: Answers, _ initial: InitialContent, _ resumption: Resumption,
        _ queryMoves: QueryMoves
    ) {
        self.context = context
        self.indexes = indexes
        self.registry = registry
        self.permissions = permissions
        self.reads = reads
        self.live = live
        self.answers = answers
        self.initial = initial
        self.resumption = resumption
        self.queryMoves = queryMoves
    }

    /// - Parameters:
    ///   - hash: hash of the value that the client already has; an equal value is not sent again (contract §2.5 rule 3).
    ///   - since: the last commit that the client has seen.
    func observe(_ asked: Observation, hash: String, since: Position? = nil, _ item: SubmittedRequest) {
        let client = item.client
        let (path, style) = (asked.path, asked.style)
        if case .events(let id, _, _) = style, client.observations[id] != nil {
            return answers.answer(.failed(Failure(.duplicateObserver, "An observer has the id \(id) already.")), item)
        }
        var query = asked.query
        switch query.map({ permissions.located($0, at: path, for: client) }) {
        case .failure(let failure)?: return refuse(asked, failure, item)
        case .success(let located)?: query = located
        case nil: break
        }
        if style.isCount { query = permissions.counted(query, at: path, for: client) }
        let observation = Observation(path: path, query: query, style: style)
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

    /// What a returning observer has missed; nil if it starts from scratch, or for the first time.
    private func missed(_ observation: Observation, _ since: Position?, _ client: Client) -> [ViewChange]? {
        guard let since, since != .unknown else { return nil }
        return resumption.missed(by: observation, of: client, since: since)
    }

    private func establish(
        _ observation: Observation, _ selection: Selection?, hash: String, _ since: Position?, _ missed: [ViewChange]?,
        _ item: SubmittedRequest
    ) {
        let lacksIndex = observation.query?.plain.map { indexes.isMissing($0.orderedBy, observation.path) } ?? false
        registry.insert(observation, of: item.client, showing: selection?.window)
        let epoch = observation.style.isResumable ? resumption.epoch : nil
        let reply = initial.reply(lacksIndex: lacksIndex, epoch: epoch, isReset: since != nil && missed == nil)
        let explained = reads.explained(reply, observation.query, observation.showing, at: observation.path, isHeld: true, item)
        initial.send(observation, selection, explained, hash: hash, missed, item)
    }
}

extension Failure {
    static func unknownObserver(_ id: Int64) -> Failure { Failure(.unknownObserver, "No observer has the id \(id).") }
}
