package import LiveQueries
package import SecurityRules

/// Limits on the requests of one client to a database. A request over a limit is refused, with no other effect.
public struct EngineLimits: Sendable {
    /// Bytes of one answer or first content; larger ones are refused with `too_big`. A client whose observers need more at once is
    /// disconnected. Default 48 MiB: less than the output that may wait for a slow reader.
    package var readBytes = 48 << 20
    /// Bytes of a value, without escapes, up to which it is encoded on the database queue. Larger values are encoded in the background.
    /// Default 64 KiB.
    package var inlineBytes = 64 << 10
    /// Bytes encoded on the database queue for the output of one request or commit. The rest is encoded in the background, and waits for
    /// memory there: a thousand observers with ids of their own get a thousand different messages. Default 4 MiB: some 15 ms if all
    /// messages differ.
    package var outputBytes = 4 << 20
    /// Pending onDisconnect writes of one client. Default 1,000.
    package var pendingWrites = 1_000
    /// Bytes of those writes in memory; more are refused with `too_big`. They are applied on the database queue, as one commit.
    /// Default 1 MiB.
    package var pendingBytes = 1 << 20
    /// Bytes of the onDisconnect writes of all clients of a database; more are refused with `unavailable`. Default 64 MiB.
    package var pendingBytesOfAll = 64 << 20

    /// Writes by the hub that one commit may cause; a commit with more is refused. Default 1,000.
    package var systemWrites = 1_000
    /// Bytes of these writes, paths and values, plus 32 per node; a commit with more is refused. A copy is always stored in full: a node
    /// of 1 MiB with 1,000 copies would write a GiB for each change. Default 2 MiB.
    package var systemWriteBytes = 2 << 20
    /// Bytes of consequences of one author's writes that may wait for the journal before that author's next write is carried out. The
    /// second limit is for all authors together: beyond it every author with some must wait. Default 256 KiB and 4 MiB: some ms of a disk.
    package var derivedBytes = 256 << 10
    package var derivedBytesOfAll = 4 << 20
    /// Written paths that may have consequences, plus the counters, copies and removals evaluated for them and their descendants. A commit
    /// with more is refused. Default 10,000: some 15 ms of the database queue.
    package var systemWriteQuestions = 10_000
    /// Nodes that expire in one turn of the database queue (`.expire`), before other work has its turn. Default 50: some 2 ms.
    package var expiredAtOnce = 50
    /// Expiring nodes of a namespace in the index, some 250 bytes each: the earliest ones. The others are searched for in the background
    /// before the first of them is due. Default 1,000,000.
    package var expiringNodes = 1_000_000
    /// Nodes of a namespace whose `.expire` uses the time of the last write: the journal keeps that time for each. A write that adds more
    /// is refused with `too_big`. Default 100,000.
    package var expiryEntries = 100_000
    /// ms between two checks whether the wall clock was set. Default 1,000.
    package var clockCheckMs: Int64 = 1_000
    /// ms until an expiry that the rules refused is tried again. Doubled each time, up to the second value. A write of the node starts
    /// over. Default 60,000 and 3,600,000.
    package var expiryRetryMs: Int64 = 60_000
    package var expiryRetryMostMs: Int64 = 3_600_000
    /// Paths of a namespace in the copy index: where copies by rules with `each` may be, and members of the sets that an `.inbox` reads.
    /// Some 150 bytes each, more with long keys. Above the limit there is no index, and commits search the tree, charged to `systemWriteKeys`.
    /// Default 2,000,000.
    package var copyPlaces = 2_000_000
    /// Entries of the index of watches of a namespace: watching nodes, and children of large watched places. Some 1.2 KB for each node and
    /// place that it watches, 150 bytes for each child. Above the limit there is no index, and commits scan the tree, charged to
    /// `systemWriteKeys`. Default 2,000,000.
    package var watchIndexEntries = 2_000_000
    /// Nodes of this index that one commit updates; for more it is built again in the background. Default 1,000.
    package var watchUpdates = WatchIndex.maxUpdated
    /// ms between two searches for hits of watches whose cooldown is over. Default 600,000.
    package var watchSweepMs: Int64 = 600_000
    /// Inbox rows that one follow-up commit writes, when there were too many for the commit that caused them (`.inbox`). Then other work
    /// has its turn. Default 100: some 0.5 ms.
    package var continuedAtOnce = 100
    /// Pending inbox rows of a namespace, and nodes with pending rows; a commit that would exceed them is refused. Default 1,000,000 and
    /// 100.
    package var owedRows = 1_000_000
    package var owingNodes = 100
    /// Notifications and events of a namespace that are not over, dead letters included, and their bytes. Notifications beyond are left out;
    /// a client's commit with an event beyond is refused. Default 500,000 and 256 MiB.
    package var deliveries = 500_000
    package var deliveryBytes = 256 << 20
    /// Notifications of one recipient, by the place of the devices, that are not over. More are left out. Default 1,000.
    package var deliveriesOfRecipient = 1_000
    /// Dead letters kept, in total and of notifications to one recipient; the oldest are dropped. Default 10,000 and 20.
    package var deadLetters = 10_000
    package var deadLettersOfRecipient = 20
    /// Deliveries being sent at once. The sender has limits of its own, for each host. Default 40,000.
    package var deliveriesAtOnce = 40_000
    /// Devices of one recipient that a notification is sent to: the last ones by key. Default 20.
    package var devicesOfRecipient = 20
    /// Keys scanned to find consequences: of the nodes that wildcards range over, and of removed nodes, once for each counter with a
    /// condition. A commit that needs more is refused. Default 10,000: some 13 ms of the database queue.
    package var systemWriteKeys = 10_000
    /// Children of a set that are evaluated on the database queue when a node with a counter is created. Larger sets are counted in the
    /// background, a moment later. Default 1,000.
    package var countedAtOnce = 1_000

    /// Callers whose recent counts are remembered, where rules limit them (`perMinute`). Above it those that counted least are forgotten.
    /// Default 10,000, some 200 bytes each.
    package var countedCallers = 10_000

    /// Orders by members of a set (`.indexOn: ["types/*"]`) kept at one path. Above it idle ones are dropped; if there are none, the
    /// request is refused with `too_big`. All of them together take at most half of `indexEntries`. Default 400.
    package var membershipOrders = 400

    /// How often each user may write, in addition to the rates of the rules; nil for no limit. Default nil.
    package var writeRate: WriteRate?
    /// Write budgets of users in memory, those that are not full, per namespace; some 60 bytes each. Above it those with most left are
    /// dropped. Default 100,000.
    package var writeBudgets = 100_000
    /// Written paths of one request that rates of the rules count, and budgets of the rules that count it. A request with more is refused
    /// with `too_big`, before any rule is evaluated. Default 1,000 and 100.
    package var ratedPlaces = 1_000
    package var ratedBudgets = 100

    /// Writes of an account deletion in one commit; the rest are in further commits. Default 1,000.
    package var accountWrites = 1_000

    // MARK: Large writes

    /// Paths in one write of a client that is not an administrator; more are refused with `too_big`. Default 100,000.
    package var writePlaces = 100_000
    /// Bytes of a request above which its write is prepared off the database queue. Default 64 KiB: with a `.validate` for each child, that
    /// is some ms.
    package var largeWriteBytes = 64 << 10
    /// Written paths, written nodes, or nodes in subtrees whose priority is set, above which a write is prepared off the queue. Default
    /// 1,000.
    package var largeWritePlaces = 1_000
    /// Nodes hashed on the database queue for a comparison; each 64 bytes of text count as one more. Larger ones are hashed in the
    /// background. Default 1,000.
    package var hashNodes = 1_000
    /// Times that a write is prepared, or brought up to date with other commits, before it is refused with `unavailable`. Default 10.
    package var preparations = 10
    /// Paths of other commits merged into a prepared write on the queue; more are merged in the background. Default 1,000.
    package var followedPlaces = 1_000
    /// Paths of commits remembered while writes are prepared. Writes that fall further behind are prepared again. Default 100,000.
    package var recentPlaces = 100_000
    /// Bytes of these paths, whose keys may be long. Above it the oldest commits are forgotten. Default 64 MiB.
    package var recentBytes = 64 << 20
    /// Commits whose paths are remembered while no write is prepared. Default 100: forgetting a commit touches its memory again, and with
    /// more commits that has left the processor's caches.
    package var recentCommits = 100
    /// Commits kept with their trees for observers that resume; paths they wrote; bytes that only these old trees and paths hold; and ms
    /// they are kept. An observer that was away for longer starts over. Default 10,000, 100,000, 64 MiB and 300,000.
    package var resumeCommits = 10_000
    package var resumePlaces = 100_000
    package var resumeBytes = 64 << 20
    package var resumeMs: Int64 = 300_000
    /// Events sent to one resuming observer, and commits they come from; an observer that needs more starts over. Default 1,000.
    package var resumeEvents = 1_000
    /// Paths on which the decision about a prepared write may depend. With more, it is taken to depend on the whole tree, and any other
    /// write causes it to be prepared again. Default 10,000.
    package var dependencies = 10_000
    /// Requests of one user prepared at the same time; further ones wait. All anonymous clients count as one user, administrators do not
    /// count. Default 2.
    package var preparationsOfUser = 2
    /// Bytes of answers in flight to one client before its next request is carried out. Default 1 MiB.
    package var answerBytes = 1 << 20
    /// Changed paths remembered for an observer of a client that reads too slowly. Above it the observer gets its whole content again.
    /// Default 64.
    package var stalePlaces = 64
    /// Observers of one connection; of all connections of one user (of one address while not signed in); and of the namespace. One more is
    /// refused with `too_big`. An observer takes 1.3 KB and 0.4 KB per level that it shares with no other. So one at a depth of 8 counts as
    /// two, of 16 as three, of 24 as four, and each KiB of its keys and its query as one more. Default 5,000, 20,000 and 500,000.
    package var listens = 5_000
    package var listensOfOwner = 20_000
    package var listensOfNamespace = 500_000
    /// Trie nodes of the observers and indexes of a namespace, ancestors included: some 400 bytes each. Each 256 bytes of a name count as
    /// one more. Default 1,000,000.
    package var observedPlaces = 1_000_000
    /// Observers of one connection at one path: each query adds work to every write there. Default 1,000.
    package var listensAtPlace = 1_000
    /// Bytes of a query's bounds and order as text, in total: an observer keeps them and compares them with written values. More is refused
    /// with `too_big`. Default 8 KiB: a key has at most 768 bytes.
    package var queryBytes = 8 << 10
    /// Children of a path up to which it may be observed in an order without `.indexOn`, with a warning. With more it is refused. Default
    /// 10,000.
    package var unindexedChildren = 10_000
    /// Orders without `.indexOn` kept for observers of one path. Default 50.
    package var unindexedOrders = 50
    /// Children in such orders, and in those by members of sets, charged to the connections of one user (or address). Each order counts as
    /// 100 at least; a single order by a member of a set may exceed the limit. Of several clients that observe the same order, one is
    /// charged. Default 200,000.
    package var unindexedEntriesOfOwner = 200_000
    /// Children in all indexes of a namespace, some 48 bytes each; each index counts as 100 at least. Half of it is for orders without
    /// `.indexOn`. Idle indexes are dropped first. Without memory for an index, queries are sorted for each answer and observers refused
    /// with `too_big`. Default 8,000,000.
    package var indexEntries = 8_000_000
    /// ms until an unused index is dropped. Default 600,000.
    package var indexIdleMs = 600_000
    /// Children sorted, selected or compared on the database queue for one request, and writes of one commit checked there for one path or
    /// live query. More are processed in the background. Default 1,000.
    package var inlineChildren = 1_000
    /// Children that all live queries together collect on the database queue when their path was written as a whole. Also the writes
    /// checked there for all live queries of one path. The rest is computed while encoding, in the background. Default 10,000.
    package var windowsAtOnce = 10_000
    /// Bytes of all strings by which children are sorted on the database queue. With more, they are sorted in the background. Default 1
    /// MiB.
    package var inlineTextBytes = 1 << 20
    /// Observers whose permission depends on a write and is evaluated on the database queue. With more, the rules are evaluated in the
    /// background before the commit, and only the writing client waits. Default 500.
    package var checksAtOnce = 500
    /// Changed entries for which a background result is brought up to date on the queue. With more it is brought up to date, or computed
    /// again, in the background. Default 1,000: some 2 ms.
    package var followedChanges = 1_000
    /// Observers of an ended session removed before other requests have their turn. A client with more also yields after a change of its
    /// identity. Default 1,000.
    package var removalsAtOnce = 1_000
    /// Children that a live query with conditions, or a circle, may show without a limit, and the largest limit of one. With more it is
    /// refused with `too_big`; it ends when it shows twice as many. Default 10,000.
    package var liveQueryChildren = 10_000
    /// Children, points and cells of points scanned by one search for a live query's content, with any access path. A request that needs
    /// more is refused with `too_big`. Searches over some 1,000 run off the queue. Default 1,000,000: some 1 s of a background thread.
    package var liveQuerySteps = 1_000_000
    /// Children held by all live queries of a namespace, some 50 bytes each; above it new queries are refused. The connections of one user
    /// (or address) are charged for a quarter at most. Default 5,000,000.
    package var liveQueryChildrenOfAll = 5_000_000
    /// Memory of a live query beyond its visible children, and the scan limit per turn.
    package var windows = WindowSettings()
    /// Work of one turn, in units of some 2 µs. When more waits, each client's requests get an equal part of it, in one batch; then later
    /// requests have their turn.
    /// A request counts as one unit, plus one for each 128 bytes over 2.5 KiB, each written path, each observer notified, checked or
    /// removed, each 16 children selected by a query, and each KiB encoded.
    /// When half as many commits wait for the journal, clients that already wait for it get no further turn. Default 4,000.
    package var turnWork = 4_000
    /// µs after which a turn ends even if less work was done: the estimates are rough, and the machine may be slow.
    package var turnUs: Int64 = 4_000
    /// Work in the same units that a net loop carries out itself when the database is idle, instead of a hop to its queue and back. Default
    /// 150: some 0.3 ms. Larger work uses the queue; 0: all work does.
    package var directWork = 150
    /// ms after which such work has taken too long, and ms for which the queue then carries out all requests. One request can take some ms,
    /// while the loop's other clients wait. Default 1 and 100.
    package var directMs = 1
    package var directRestMs = 100
    /// Commits waiting for the journal at which a net loop with writes of several clients commits them itself, if the journal is idle. It
    /// then pauses before it reads more. Default 12.
    package var crowdCommits = 12
    /// µs of such a pause, at most; it lasts as long as a batch waits, after a commit by the loop itself. Default 150; 0: loops neither
    /// pause nor commit for several clients.
    package var crowdPauseUs = 150
    /// µs of the pause, at most, while a commit runs on the journal's queue. Default 800.
    package var crowdWaitUs = 800
    /// ms of waiting for a batch above which this no longer helps. Default 4.
    package var crowdSlowMs: Int64 = 4
    /// Bytes of requests waiting for a database, for its queue or its journal, above which its clients are not read. Default 256 MiB.
    package var waitingBytes = 256 << 20
    /// ms between two counts of all keys and bytes for metrics, at least; and the pause as a multiple of the last count's duration. Default
    /// 10,000 and 100.
    package var dataCountRestMs: Int64 = 10_000
    package var dataCountRestFactor: Int64 = 100
    // MARK: Other hubs

    /// Bytes of requests that a follower has in flight to the writer, also the limit of one request; and number of requests. Default 16 MiB
    /// and 4,096.
    package var forwardedBytes = 16 << 20
    package var forwardedRequests = 4_096
    /// ms after which a request that no writer has carried out is answered with `unavailable`. Longer than the cluster needs for a
    /// failover. Default 30,000.
    package var forwardMs: Int64 = 30_000
    /// ms for which a client that moved here from another hub waits for the pending writes of its session there. Default 2,000.
    package var endMs: Int64 = 2_000
    /// ms between two checks of requests in flight, and ms after which a lost request is sent again. Default 250 and 1,000.
    package var forwardCheckMs: Int64 = 250
    package var forwardAgainMs: Int64 = 1_000
    /// Bytes of requests of one other hub, and of all hubs, that are carried out or wait for it; and hubs that forward requests. Default 32
    /// MiB, 128 MiB and 64.
    package var remoteBytes = 32 << 20
    package var remoteBytesOfAll = 128 << 20
    package var hubs = 64
    /// ms after a hub was noticed absent until the pending writes of its sessions are applied; and ms between two checks. Default 10,000
    /// and 1,000.
    package var presenceMs: Int64 = 10_000
    package var hubCheckMs: Int64 = 1_000
    /// ms between two tries while the log refuses commits. Default 1,000.
    package var retryMs = 1_000

    public init() {}

    /// The limits of one commit's consequences.
    var consequences: ConsequenceLimits {
        var limits = ConsequenceLimits()
        (limits.writes, limits.bytes, limits.counted) = (systemWrites, systemWriteBytes, countedAtOnce)
        (limits.keys, limits.stepCount) = (systemWriteKeys, systemWriteQuestions)
        (limits.continuedRows, limits.continuations) = (owedRows, owingNodes)
        return limits
    }
}

// MARK: Shares

extension EngineLimits {
    var listensShare: Share { Share(total: listensOfNamespace, each: listensOfOwner) }
    var unindexedEntriesShare: Share { Share(total: indexEntries / 2, each: unindexedEntriesOfOwner) }
    /// Per path.
    var unindexedOrdersShare: Share { Share(total: unindexedOrders, each: max(2, unindexedOrders / 8)) }
    var membershipOrdersShare: Share { Share(total: membershipOrders, each: max(2, membershipOrders / 8)) }
    var liveChildrenShare: Share { Share(total: liveQueryChildrenOfAll, each: liveQueryChildrenOfAll / 4) }
    var pendingBytesShare: Share { Share(total: pendingBytesOfAll, each: pendingBytesOfAll / 8) }
}
