import JSONTree
import LiveQueries
import Synchronization

/// Moves the centres of observed circles, and changes the regions of observers with `within`.
///
/// Confined to the database queue.
final class QueryMoves: @unchecked Sendable {
    // Sendable: background work that captures it only returns to the queue.
    private let content: Content
    private let places: PlaceTrie
    private let registry: ObserverRegistry
    private let permissions: ReadPermissions
    private let live: LiveReads
    private let queries: QuerySetStore
    private let publisher: Publisher
    private let answers: Answers

    init(
        _ content: Content, _ places: PlaceTrie, _ registry: ObserverRegistry, _ permissions: ReadPermissions, _ live: LiveReads,
        _ publisher: Publisher, _ answers: Answers
    ) {
        self.content = content
        self.places = places
        self.registry = registry
        self.permissions = permissions
        self.live = live
        queries = live.places
        self.publisher = publisher
        self.answers = answers
    }

    /// Gives an observer another centre or another region. The observer receives the difference after the answer.
    func move(_ id: Int64, to target: QueryMove, _ item: SubmittedRequest) {
        let client = item.client
        @Sendable func fail(_ failure: Failure) { answers.answer(.failed(failure), item) }
        guard let observation = client.observations[id] else { return fail(.unknownObserver(id)) }
        guard let moving = observation.query?.moved(to: target) else {
            let area = if case .centre = target { "circle" } else { "region" }
            return fail(Failure(.failure, "The observer \(id) has no \(area) that could be moved."))
        }
        let there: Query
        switch permissions.located(moving, at: observation.path, for: client) {
        case .failure(let failure): return fail(failure)
        case .success(let located): there = located
        }
        let isCount = observation.style.isCount
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
            guard let before = places.existingView(of: observation), let place = queries[observation.path],
                let (was, shown) = before.live.flatMap({ was in now.live.map { (was, $0) } })
            else { return fail(.unknownObserver(id)) }
            // The difference would miss events that the observer has not received yet.
            if was.view.isShort { return fail(.changesTooFast) }
            if let failure = registry.refusal(of: moved, showing: now, of: client, replacing: observation) { return fail(failure) }
            // Checks again, so that the permission now depends on what the rules read for the moved circle.
            guard permissions.permits(moved, of: client, as: .listen) else { return fail(.permissionDenied) }
            let node = content.root.node(at: observation.path)
            let difference = queries.metered(place) { place.queries.difference(from: was.view, to: shown.view, over: node) }
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
}
