public import SecurityRules
import Synchronization

/// The counters of a database. The parts of its engine change them on the database queue; metrics read them from any thread.
final class Meter: @unchecked Sendable {
    // Sendable: `counters` and `work` are confined to the database queue; the rest is safe by itself.

    /// Current values; readers see the last published ones.
    var counters = EngineCounters()
    /// Approximate work of the running turn, in units of 2 µs: a third of a small write.
    private(set) var work = 0
    /// Bytes of requests that are not yet carried out and durable.
    let waitingBytes = Atomic<Int>(0)
    /// The requests of the running batch, by kind.
    private var tally = RequestTally()
    let latencies = Latencies()
    let eventBytes = EventBytes()
    let refusals = RefusalCounts()
    private let published = Mutex(EngineCounters())

    /// Bytes of consequences since they were last taken.
    private var derivedBytes = 0

    func spend(_ units: Int) { work += units }
    /// Adds the bytes of a write's consequences.
    func derive(_ bytes: Int) { derivedBytes += bytes }
    func takeDerivedBytes() -> Int {
        defer { derivedBytes = 0 }
        return derivedBytes
    }
    func beginTurn() { work = 0 }

    /// Counts a request of the running batch.
    /// - Parameter since: when it was submitted, steady ns; 0 when unknown.
    func count(_ request: Request, since: Int64) {
        counters.requests += 1
        tally.count(request, since: since)
    }

    /// Ends the tally of a batch.
    func endTally() -> RequestTally {
        defer { tally = RequestTally() }
        return tally
    }

    /// Makes the current counters visible to readers.
    func publish() { published.withLock { [counters] in $0 = counters } }

    /// The last published counters. From any thread.
    var reading: EngineCounters {
        var counters = published.withLock { $0 }
        counters.waitingBytes = waitingBytes.load(ordering: .relaxed)
        return counters
    }

    /// Counts the bytes of requests that arrived, or will be carried out again. From any thread.
    func wait(_ bytes: Int) { if bytes > 0 { waitingBytes.add(bytes, ordering: .relaxed) } }

    /// Subtracts the bytes of requests that are durable or were given up.
    func finish(_ bytes: Int) { if bytes > 0 { waitingBytes.subtract(bytes, ordering: .relaxed) } }
}

/// Counters and sizes of a database, for metrics.
public struct EngineCounters: Sendable {
    /// Commits since the start, and requests handled.
    public var commits = 0
    /// Commits by the hub itself, by cause.
    public var systemCommits: [SystemCause: Int] = [:]
    /// Full counts of the rules' counters, in the background.
    public var countings = 0
    /// Writes caused by commits, by the key of the rules.
    public var systemWrites: [ConsequenceKind: Int] = [:]
    /// Nodes expired; nodes known to expire later; and ms by which the last one was late, while more are due.
    public var expired = 0
    public var expiringNodes = 0
    public var expiryLagMs: Int64 = 0
    /// Pending inbox rows; an upper bound while the recipients are not yet known.
    public var owedRows = 0
    /// Deliveries that are not over, and dead letters. Since the start: deliveries done, attempts that failed for a time, deliveries that
    /// failed for good, and those left out because too many waited.
    public var deliveriesPending = 0
    public var deadLetters = 0
    public var deliveriesDone = 0
    public var deliveriesRetried = 0
    public var deliveriesFailed = 0
    public var deliveriesLeftOut = 0
    public var requests = 0
    /// Requests that wait for their turn because other clients had the last one.
    public var waitingRequests = 0
    /// Changes that were combined into one message for a slow client's observer.
    public var conflated = 0
    /// Times that a client's observers were suspended, and clients suspended now.
    public var suspensions = 0
    public var suspended = 0
    /// Why the log accepts no commits now; nil while it does.
    public var refusal: CommitRefusal?
    /// Times that the log began to refuse.
    public var refusals = 0
    /// Requests answered with `unavailable` because the log accepts no commits.
    public var refusedWrites = 0
    /// Requests refused because their user writes too often.
    public var overBudget = 0
    /// Writes prepared off the queue, and times that one was prepared again because other commits changed its dependencies.
    public var prepared = 0
    public var preparedAgain = 0
    /// Paths of other commits merged into prepared writes on the queue.
    public var followedPlaces = 0
    /// Evaluations of the rules for an observer on the queue, and evaluations off the queue for many observers before a commit.
    public var observersAsked = 0
    public var observerPrechecks = 0
    /// Observers now, and their weight: deep ones count more than once.
    public var observers = 0
    public var listens = 0
    /// Kept indexes, and the children in them.
    public var indexes = 0
    public var indexEntries = 0
    /// Children sorted into indexes since the start: on the database queue, and off it.
    public var childrenSortedOnQueue = 0
    public var childrenSorted = 0
    /// Live queries affected by commits, since the start.
    public var windowsMoved = 0
    /// Children that live queries with conditions, and circles, hold now. Since the start: searches for them, and times that a path's live
    /// queries were updated for a large change in the background.
    public var liveQueryChildren = 0
    public var liveQueriesFound = 0
    public var liveQueriesUpdatedInBackground = 0
    /// Writes of large commits checked for live queries on the database queue, each counted once.
    public var changesOnQueue = 0
    /// Bytes of requests that wait for the queue or the journal.
    public var waitingBytes = 0

    public init() {}
}
