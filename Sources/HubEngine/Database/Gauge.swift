import Synchronization

/// What a database tells about itself from any thread: filled by its core, read by metrics and by those who ask.
final class Gauge: Sendable {
    /// Bytes of requests that are not carried out and durable yet.
    let waitingBytes = Atomic<Int>(0)
    private let published = Mutex(EngineCounters())

    func publish(_ counters: EngineCounters) { published.withLock { $0 = counters } }

    var counters: EngineCounters {
        var counters = published.withLock { $0 }
        counters.waitingBytes = waitingBytes.load(ordering: .relaxed)
        return counters
    }
}

/// What a database has done and holds, for metrics.
public struct EngineCounters: Sendable {
    /// Commits since the start, and requests handled.
    public var commits = 0
    public var requests = 0
    /// Requests that wait for their turn now, as others have had the last one.
    public var waitingRequests = 0
    /// Changes that a slow client's observer was not told one by one.
    public var conflated = 0
    /// Times that a client's observers were suspended, and clients that are so now.
    public var suspensions = 0
    public var suspended = 0
    /// Why the log takes no commits now; nil while it does.
    public var refusal: CommitRefusal?
    /// Times that the log began to refuse.
    public var refusals = 0
    /// Requests that were answered with `unavailable`, as the log takes no commits.
    public var refusedWrites = 0
    /// Writes that were prepared off the queue, and times that one had to be prepared again as others changed what it rests on.
    public var prepared = 0
    public var preparedAgain = 0
    /// Places that others had written and that were taken over into prepared writes on the queue.
    public var followedPlaces = 0
    /// Observers now, and what they count as: deep ones more than one.
    public var observers = 0
    public var listens = 0
    /// Kept indexes, and the children in them.
    public var indexes = 0
    public var indexEntries = 0
    /// Children that were sorted into indexes since the start: on the database queue, and beside it.
    public var childrenSortedOnQueue = 0
    public var childrenSorted = 0
    /// Live queries that one commit or another concerned, since the start.
    public var windowsMoved = 0
    /// Bytes of requests that wait, for the queue or for the journal.
    public var waitingBytes = 0

    public init() {}
}
