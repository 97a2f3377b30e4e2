public import SecurityRules
import Synchronization

/// The counters of a database. The parts of its engine change them on the database queue; metrics read them from any thread.
final class Meter: @unchecked Sendable {
    // Sendable: `counters` and `work` are confined to the database queue; the rest is safe by itself.

    /// As the parts leave them; readers see what was published last.
    var counters = EngineCounters()
    /// What the turn that runs has cost so far, about, in units of 2 µs: the third of a small write.
    private(set) var work = 0
    /// Bytes of requests that are not carried out and durable yet.
    let waitingBytes = Atomic<Int>(0)
    /// What the batch that runs has of each kind of request.
    private var tally = RequestTally()
    let latencies = Latencies()
    let eventBytes = EventBytes()
    let refusals = RefusalCounts()
    private let published = Mutex(EngineCounters())

    /// Bytes of what followed from writes since they were taken last.
    private var derivedBytes = 0

    func spend(_ units: Int) { work += units }
    /// So many bytes followed from a write.
    func derive(_ bytes: Int) { derivedBytes += bytes }
    func takeDerivedBytes() -> Int {
        defer { derivedBytes = 0 }
        return derivedBytes
    }
    func beginTurn() { work = 0 }

    /// A request is carried out in the batch that runs.
    func count(_ item: Database.Item) {
        counters.requests += 1
        tally.count(item.request, since: item.since)
    }

    /// Ends the tally of a batch.
    func endTally() -> RequestTally {
        defer { tally = RequestTally() }
        return tally
    }

    /// Lets readers see the counters as they are now.
    func publish() { published.withLock { [counters] in $0 = counters } }

    /// As they were published last. From any thread.
    var reading: EngineCounters {
        var counters = published.withLock { $0 }
        counters.waitingBytes = waitingBytes.load(ordering: .relaxed)
        return counters
    }

    /// Requests count as waiting: they came, or are to be carried out again. From any thread.
    func wait(_ bytes: Int) { if bytes > 0 { waitingBytes.add(bytes, ordering: .relaxed) } }

    /// Requests have become durable, or were given up.
    func finish(_ bytes: Int) { if bytes > 0 { waitingBytes.subtract(bytes, ordering: .relaxed) } }
}

/// Counters and sizes of a database, for metrics.
public struct EngineCounters: Sendable {
    /// Commits since the start, and requests handled.
    public var commits = 0
    /// Commits that the hub made itself, by cause.
    public var systemCommits: [SystemCause: Int] = [:]
    /// Times that all counters of the rules were counted, beside the queue.
    public var countings = 0
    /// Writes that followed from commits, by the key of the rules.
    public var systemWrites: [ConsequenceKind: Int] = [:]
    /// Nodes that ended by time, those that are to, as far as they are known, and ms by which the last was late, while more are due.
    public var expired = 0
    public var expiringNodes = 0
    public var expiryLagMs: Int64 = 0
    /// Rows of inboxes that are owed by commits; at most so many, while it is not known who is reached.
    public var owedRows = 0
    public var requests = 0
    /// Requests that wait for their turn now, as others have had the last one.
    public var waitingRequests = 0
    /// Changes that were combined into one message for a slow client's observer.
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
    /// Requests that were refused as their user writes too often.
    public var overBudget = 0
    /// Writes that were prepared off the queue, and times that one had to be prepared again as others changed what it rests on.
    public var prepared = 0
    public var preparedAgain = 0
    /// Places that others had written and that were taken over into prepared writes on the queue.
    public var followedPlaces = 0
    /// Times that the rules were asked on the queue whether an observer may be, and that they were asked beside it about many
    /// observers before a commit.
    public var observersAsked = 0
    public var foreseen = 0
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
    /// Children that live queries with conditions, and circles, hold now; times that one was looked for, and that those of a place followed
    /// a large change beside the queue, since the start.
    public var liveQueryChildren = 0
    public var liveQueriesFound = 0
    public var liveQueriesLent = 0
    /// Writes of commits with many of them that were looked at on the database queue for live queries, once for each.
    public var changesOnQueue = 0
    /// Bytes of requests that wait, for the queue or for the journal.
    public var waitingBytes = 0

    public init() {}
}
