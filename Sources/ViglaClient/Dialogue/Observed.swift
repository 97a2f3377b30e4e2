internal import JSONTree
internal import LiveQueries
internal import WireProtocols

/// What one observer observes, and how far it was told.
struct Observed {
    let path: Path
    /// What the program hears of.
    let events: ObserveEvents
    /// Which children, and around which centre now.
    private(set) var query: ObserveQuery?
    let maxHz: Double?
    let handler: Dialogue.Handler
    /// Whether the rules do not declare the order of the query.
    private(set) var lacksIndex = false
    /// The commit of which the program was told last, and the hub's life that counts it; nil before anything was told.
    private var told: (epoch: String, seq: Int64)?
    /// Of this connection.
    private var epoch = ""
    /// Events of a commit whose last has not come.
    private var held: [Observation] = []
    /// Moves of the centre without an answer.
    private var moves = 0
    /// Until the difference has come, which is behind the answer: it is not known which circle was told last.
    private var isMoving = false
    /// Whether this connection tells it from the beginning, although the program was told something before.
    private var isAnew = false

    init(_ path: Path, _ events: ObserveEvents, query: ObserveQuery? = nil, maxHz: Double? = nil, _ handler: @escaping Dialogue.Handler) {
        self.path = path
        self.events = events
        self.query = query
        self.maxHz = maxHz
        self.handler = handler
    }

    /// `ready` always comes: so an observer knows how far it is, also where there is nothing.
    private var isReadyHidden: Bool { events.isDisjoint(with: [.value, .count, .ready]) }

    /// The request over a new connection.
    mutating func begin() -> ObserveOperation {
        isAnew = told != nil && isMoving
        let since: ObserveSince = if let told, !isMoving { .after(epoch: told.epoch, seq: told.seq) } else { .now }
        (held, moves) = ([], 0)
        return .observe(path: path, events: isReadyHidden ? events.union(.ready) : events, query: query, maxHz: maxHz, since: since)
    }

    /// The hub's answer to that.
    mutating func began(_ success: ObserveSuccess) {
        epoch = success.epoch ?? ""
        lacksIndex = success.lacksIndex
        // Told with the first of what follows it: until then what was told before counts.
        if told != nil, isAnew || success.isReset { held = [.reset(seq: success.seq ?? 0)] }
    }

    /// What the program is to be told now, in this order.
    mutating func received(_ event: ObserveEvent, seq: Int64, isFollowed: Bool) -> [Observation] {
        if event != .ready || !isReadyHidden { held.append(.event(event, seq: seq)) }
        guard !isFollowed else { return [] }
        told = (epoch, seq)
        isMoving = moves > 0
        defer { held = [] }
        return held
    }

    mutating func moved(to centre: GeoPoint) {
        query = query?.moved(to: centre) ?? query
        moves += 1
        isMoving = true
    }

    /// A move was answered.
    /// - Parameter query: what it was before, where the move was refused.
    mutating func hasMoved(backTo query: ObserveQuery? = nil) {
        if let query { self.query = query }
        moves = max(0, moves - 1)
    }
}

extension ObserveQuery {
    /// The same around another centre; nil without a circle.
    fileprivate func moved(to centre: GeoPoint) -> ObserveQuery? {
        guard let near else { return nil }
        return try? ObserveQuery(tree, where: filter, near: NearQuery(centre: centre, metres: near.metres, limit: near.limit))
    }
}
