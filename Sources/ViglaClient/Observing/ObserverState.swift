internal import JSONTree
internal import LiveQueries
internal import WireProtocols

/// One observer's request and progress.
struct ObserverState {
    let path: Path
    /// The events that the program receives.
    let events: ObserveEvents
    /// The query, with its current centre or region.
    private(set) var query: Query?
    let maxHz: Double?
    let handler: ObserveClientState.Handler
    /// Whether the rules do not declare the order of the query (`.indexOn`).
    private(set) var lacksIndex = false
    /// The commit last reported to the program, and the epoch of the hub that counts it; nil before the first report.
    private var lastReported: (epoch: String, seq: Int64)?
    /// The epoch of this connection.
    private var epoch = ""
    /// Events of a commit whose last event has not arrived.
    private var held: [Observation] = []
    /// Number of moves without an answer.
    private var moves = 0
    /// True until the difference after a move's answer has arrived: until then it is unknown which circle the last events belong to.
    private var isMoving = false
    /// Whether this connection starts from the beginning, although events were reported before.
    private var startsOver = false

    init(_ path: Path, _ events: ObserveEvents, query: Query? = nil, maxHz: Double? = nil, _ handler: @escaping ObserveClientState.Handler) {
        self.path = path
        self.events = events
        self.query = query
        self.maxHz = maxHz
        self.handler = handler
    }

    /// `ready` is always requested, so that an observer knows its position even at an empty place.
    private var isReadyHidden: Bool { events.isDisjoint(with: [.value, .count, .ready]) }

    /// The request for a new connection.
    mutating func begin() -> ObserveOperation {
        startsOver = lastReported != nil && isMoving
        let since: ObserveSince = if let lastReported, !isMoving { .after(epoch: lastReported.epoch, seq: lastReported.seq) } else { .now }
        (held, moves) = ([], 0)
        return .observe(path: path, events: isReadyHidden ? events.union(.ready) : events, query: query, maxHz: maxHz, since: since)
    }

    /// Handles the hub's answer to that request.
    mutating func began(_ success: ObserveSuccess) {
        epoch = success.epoch ?? ""
        lacksIndex = success.lacksIndex
        // Held until the first event after it: until then the earlier events count.
        if lastReported != nil, startsOver || success.isReset { held = [.reset(seq: success.seq ?? 0)] }
    }

    /// The notifications to deliver now, in this order.
    mutating func received(_ event: ObserveEvent, seq: Int64, isFollowed: Bool) -> [Observation] {
        if event != .ready || !isReadyHidden { held.append(.event(event, seq: seq)) }
        guard !isFollowed else { return [] }
        lastReported = (epoch, seq)
        isMoving = moves > 0
        defer { held = [] }
        return held
    }

    mutating func moved(to target: QueryMove) {
        query = query?.moved(to: target) ?? query
        moves += 1
        isMoving = true
    }

    /// Handles the answer to a move.
    /// - Parameter query: the query before a refused move.
    mutating func hasMoved(backTo query: Query? = nil) {
        if let query { self.query = query }
        moves = max(0, moves - 1)
    }
}
