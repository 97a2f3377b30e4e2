public import LiveQueries
public import SecurityRules

/// Limits on what one client may request of a database. A request over a limit is refused, with no other effect.
public struct EngineLimits: Sendable {
    /// Bytes of one answer or first content; more is answered with `too_big`. A client whose observers would have to be sent more at
    /// once is disconnected. Default 48 MiB: below what may wait for a slow reader.
    public var readBytes = 48 << 20
    /// Bytes of a value up to which it is encoded on the database queue, escapes not counted; larger ones are encoded beside it.
    /// Default 64 KiB.
    public var inlineBytes = 64 << 10
    /// Bytes that are encoded on the database queue for what one request or commit has to say; the rest of it is encoded beside
    /// the queue, and waits for room there: a thousand observers with ids of their own get a thousand messages. Default 4 MiB: some
    /// 15 ms, where no two of them are alike.
    public var outputBytes = 4 << 20
    /// Writes that one client may have waiting for its disconnect. Default 1,000.
    public var pendingWrites = 1_000
    /// Bytes of those writes, as they are kept; more is answered with `too_big`. They are made on the database queue, as one.
    /// Default 1 MiB.
    public var pendingBytes = 1 << 20
    /// The same for all clients of a database together; more is answered with `unavailable`. Default 64 MiB.
    public var pendingBytesOfAll = 64 << 20

    /// Writes of the hub itself that may follow from one commit; a commit with more is refused. Default 1,000.
    public var systemWrites = 1_000
    /// Bytes of these writes, places and values, each node as 32 more; a commit with more is refused. A copy is stored as a whole,
    /// whatever has changed in it: a node of 1 MiB with 1,000 copies would be a GiB for each change. Default 2 MiB.
    public var systemWriteBytes = 2 << 20
    /// Bytes of what followed from one author's writes that may be on their way to the journal before his next write is carried out, and
    /// the same for all together, beyond which whoever has some waits. Default 256 KiB and 4 MiB: some ms of a disk.
    public var derivedBytes = 256 << 10
    public var derivedBytesOfAll = 4 << 20
    /// Written places from which something could follow, and counters, copies and removals that are asked about for them and for what is
    /// below them; a commit with more is refused. Default 10,000: some 15 ms of the database queue.
    public var systemWriteQuestions = 10_000
    /// Nodes that end in one turn of the database queue (`.expire`): then others have theirs. Default 50: some 2 ms.
    public var expiredAtOnce = 50
    /// Nodes of a namespace that are to end by time and are known by an index, some 250 bytes each: the earliest; the others are looked for
    /// beside the queue before the first of them is due. Default 1,000,000.
    public var expiringNodes = 1_000_000
    /// Nodes of a namespace with an `.expire` that asks when they were written: the journal keeps that for each. A write that adds more is
    /// refused with `too_big`. Default 100,000.
    public var expiryEntries = 100_000
    /// ms after which the wall clock is looked at again, which may have been set. Default 1,000.
    public var clockCheckMs: Int64 = 1_000
    /// ms after which a node is tried again that the rules did not let end: twice as many each time, up to the second. A write of the node
    /// begins anew. Default 60,000 and 3,600,000.
    public var expiryRetryMs: Int64 = 60_000
    public var expiryRetryMostMs: Int64 = 3_600_000
    /// Places where copies by rules with `each` may be, and members of sets that an `.inbox` asks for, of a namespace, that are known by an
    /// index: some 150 bytes each, and more where keys are long. Where there are more, they are looked for in the tree, which costs keys.
    /// Default 2,000,000.
    public var copyPlaces = 2_000_000
    /// Rows of inboxes that one commit behind another makes, when there were too many for the commit that they follow from (`.inbox`): then
    /// others have their turn. Default 100: some 0.5 ms.
    public var continuedAtOnce = 100
    /// Rows that may be owed at a time in a namespace, and nodes that may owe some; a commit that would owe more is refused. Default
    /// 1,000,000 and 100.
    public var owedRows = 1_000_000
    public var owingNodes = 100
    /// Keys that are looked at to find them: of the places that wildcards range over, and of what was removed, once for each counter
    /// with a condition. A commit that needs more is refused. Default 10,000: some 13 ms of the database queue.
    public var systemWriteKeys = 10_000
    /// Children of a set that are asked about on the database queue when a node with a counter is made; those of a larger one are counted
    /// beside it, a moment later. Default 1,000.
    public var countedAtOnce = 1_000

    /// Callers of which it is remembered how many counts they have asked for of late, where rules bound that (`perMinute`); with
    /// more of them those are forgotten that have asked least. Default 10,000, some 200 bytes each.
    public var countedCallers = 10_000

    /// Orders by members of a set (`.indexOn: ["types/*"]`) that are kept at one place; beyond, idle ones go, else that request is answered
    /// with `too_big`. All of them together take half of `indexEntries` at most. Default 100.
    public var membershipOrders = 100

    /// How often each user may write, beside what the rules say of places; nil for as often as they want. Default nil.
    public var writeRate: WriteRate?
    /// Budgets of users that have not filled up again, of a namespace, some 60 bytes each; with more of them those go first that have
    /// most left. Default 100,000.
    public var writeBudgets = 100_000
    /// Written places of one request that rates of the rules count, and budgets of the rules that count it; with more it is refused with
    /// `too_big`, before any rule is asked. Default 1,000 and 100.
    public var ratedPlaces = 1_000
    public var ratedBudgets = 100

    /// Writes that the deletion of an account causes in one commit; more are made by further ones. Default 1,000.
    public var accountWrites = 1_000

    // MARK: Large writes

    /// Places that one write of others than administrators may name; more is answered with `too_big`. Default 100,000.
    public var writePlaces = 100_000
    /// Bytes of a request from which on its write is prepared off the database queue. Default 64 KiB: with a `.validate` for
    /// each child that is some ms.
    public var largeWriteBytes = 64 << 10
    /// Places that a write names, nodes that it writes, or nodes at and below the places whose priorities it sets, from which on it is.
    /// Default 1,000.
    public var largeWritePlaces = 1_000
    /// Nodes that are hashed on the database queue for a comparison, each 64 bytes of a text counting as one more; with more it is made
    /// off it. Default 1,000.
    public var hashNodes = 1_000
    /// Times that a write is prepared, or brought up to what others have written, before it is answered with `unavailable`.
    /// Default 10.
    public var preparations = 10
    /// Places that others have written and that are taken over into a prepared write on the queue; more are taken over off it.
    /// Default 1,000.
    public var followedPlaces = 1_000
    /// Places that others write and that are noted while writes are prepared; beyond it these are prepared again.
    /// Default 100,000.
    public var recentPlaces = 100_000
    /// Bytes of these places, whose keys may be long: beyond it the oldest commits are forgotten. Default 64 MiB.
    public var recentBytes = 64 << 20
    /// Commits whose places are remembered while no write is prepared. Default 100: each that is forgotten is touched once more, and with
    /// more of them its memory has left the processor's caches by then.
    public var recentCommits = 100
    /// Commits that are kept with their trees while observers may come back to be told what they have missed, places that they wrote,
    /// bytes that only these former trees and places hold, and ms that they are kept; who comes back from before begins anew.
    /// Default 10,000, 100,000, 64 MiB and 300,000.
    public var resumeCommits = 10_000
    public var resumePlaces = 100_000
    public var resumeBytes = 64 << 20
    public var resumeMs: Int64 = 300_000
    /// Events that one observer that comes back is told, and commits that they are of; with more it begins anew. Default 1,000.
    public var resumeEvents = 1_000
    /// Places in the data on which the decision about a prepared write may depend. A decision with more is taken to depend on the
    /// whole tree, so that any other write causes it to be prepared again. Default 10,000.
    public var dependencies = 10_000
    /// Requests of one user that are prepared at the same time; those of all anonymous clients count as one user's, those of
    /// administrators do not count. The next ones wait. Default 2.
    public var preparationsOfUser = 2
    /// Bytes of answers that may be on their way to one client before its next request is carried out. Default 1 MiB.
    public var answerBytes = 1 << 20
    /// Changed places that are remembered for an observer of a client that reads too slowly; beyond it the observer gets its
    /// whole place again. Default 64.
    public var stalePlaces = 64
    /// Observers of one connection, of one user's connections together (of one address while no user is signed in), and of the
    /// namespace; one more is refused with `too_big`. An observer takes 1.3 KB and 0.4 KB for each level that it shares with no
    /// other, so one at a depth of 8 counts as two, of 16 as three and of 24 as four, and each KiB of its keys and its query as one
    /// more. Default 5,000, 20,000 and 500,000.
    public var listens = 5_000
    public var listensOfOwner = 20_000
    public var listensOfNamespace = 500_000
    /// Places that observers and indexes of a namespace hold, with those above them: some 400 bytes each, and each 256 bytes of a
    /// name count as one more. Default 1,000,000.
    public var observedPlaces = 1_000_000
    /// Observers of one connection at one place: each query costs every write there. Default 1,000.
    public var listensAtPlace = 1_000
    /// Bytes of a query's bounds and order as text, all together: an observer keeps them, and they are compared with what is
    /// written. More is refused with `too_big`. Default 8 KiB: a key has 768 bytes at most.
    public var queryBytes = 8 << 10
    /// Children of a place up to which it is observed in an order that no `.indexOn` names, with a warning; above it that is
    /// refused. Default 10,000.
    public var unindexedChildren = 10_000
    /// Orders that no `.indexOn` names and that are kept for observers of one place. Default 50.
    public var unindexedOrders = 50
    /// Children in such orders, and in those by members of sets, that one user's connections (or one address) pay for, each order counted
    /// as 100 at least; one by a member of a set alone may have more. Of clients that observe the same order one pays. Default 200,000.
    public var unindexedEntriesOfOwner = 200_000
    /// Children in all kept indexes of a namespace, each index counted as 100 at least and each child as some 48 bytes; half of
    /// it for orders that no `.indexOn` names. Idle indexes make room; then queries are sorted for each answer, and observers
    /// refused with `too_big`. Default 8,000,000.
    public var indexEntries = 8_000_000
    /// ms until an unused index is dropped. Default 600,000.
    public var indexIdleMs = 600_000
    /// Children that are sorted, selected or compared on the database queue for one request, and writes of one commit that are
    /// looked at there for one place or live query; more is done beside it. Default 1,000.
    public var inlineChildren = 1_000
    /// Children that live queries collect on the database queue, all together, when their place was written as a whole, and
    /// writes that are looked at there for all live queries of a place together; the rest is found out when it is encoded, beside the
    /// queue. Default 10,000.
    public var windowsAtOnce = 10_000
    /// Bytes of the strings, all together, by which children are sorted on the database queue; with more it is done beside it.
    /// Default 1 MiB.
    public var inlineTextBytes = 1 << 20
    /// Observers whose permission rests on what a write changes and that are asked about on the database queue; with more of
    /// them the rules are asked beside it before the write is made, and only its client waits. Default 500.
    public var checksAtOnce = 500
    /// Changed entries with which work beside the queue is brought up to date on it when it comes back; where there are more, it is
    /// brought up to date, or done anew, beside the queue once more. Default 1,000: some 2 ms.
    public var followedChanges = 1_000
    /// Observers of an ended session that are removed before other requests get their turn; a client with more gives way to
    /// others after its identity has changed. Default 1,000.
    public var removalsAtOnce = 1_000
    /// Children that one live query with conditions, or a circle, may show without a limit, and the largest limit of one; with more it is
    /// refused with `too_big`, and ends when it shows twice as many. Default 10,000.
    public var liveQueryChildren = 10_000
    /// Children, points and cells of points that one search for what a live query shows may look at, whatever it starts from. A request
    /// that needs more is refused with `too_big`. Searches of more than some 1,000 are made off the queue. Default 1,000,000: some 1 s of
    /// a background thread.
    public var liveQuerySteps = 1_000_000
    /// Children that all live queries of a namespace hold together, some 50 bytes each; beyond it new ones are refused. A quarter of it for
    /// those that one user's connections (or one address) pay for. Default 5,000,000.
    public var liveQueryChildrenOfAll = 5_000_000
    /// What one of them holds beyond what it shows, and how far it looks in one turn.
    public var windows = WindowSettings()
    /// Work of one turn, in units of some 2 µs: when more waits, the requests of each client get an equal part of it, in one
    /// batch, then later requests have their turn. A request counts as one and one more for each 128 bytes over 2.5 KiB, a
    /// written place, an observer that is notified, checked or removed, 16 children that a query selects and a KiB that is encoded
    /// as one each. When half as many commits wait for the journal, clients that wait for it already get no further turn.
    /// Default 4,000.
    public var turnWork = 4_000
    /// Work in the same units, some 0.3 ms, that a net loop carries out itself when the database is idle, in place of a hop to its queue
    /// and back; what is more is carried out on the queue. 0: all is. Default 150.
    public var directWork = 150
    /// ms after which such work has taken too long, and ms for which all is carried out on the queue then: one request can take some ms,
    /// and the loop's other clients wait meanwhile. Default 1 and 100.
    public var directMs = 1
    public var directRestMs = 100
    /// Commits of a database that wait for the journal at a time, from which on a net loop that has read writes among requests of several
    /// clients makes them durable itself, if the journal has nothing else to do, and pauses before it reads more. Default 12.
    public var crowdCommits = 12
    /// The most µs of such a pause, which is as long as a batch waits, behind a commit of the loop's own. Default 150; 0: loops neither
    /// pause nor commit for several clients.
    public var crowdPauseUs = 150
    /// The most µs of it while a commit of the journal's queue is under way. Default 800.
    public var crowdWaitUs = 800
    /// ms above which a batch waits too long for all that to be of use. Default 4.
    public var crowdSlowMs: Int64 = 4
    /// Bytes of requests that may wait for a database, for its queue or its journal, before those who ask are read no more.
    /// Default 256 MiB.
    public var waitingBytes = 256 << 20
    /// ms between two counts of all keys and bytes for metrics, at least; and how many times as long as the last one took. Default 10,000
    /// and 100.
    public var dataCountRestMs: Int64 = 10_000
    public var dataCountRestFactor: Int64 = 100
    // MARK: Other hubs

    /// Bytes of requests that a database which does not write has under way to the hub that does, and of the largest of them; and requests.
    /// Default 16 MiB and 4,096.
    public var forwardedBytes = 16 << 20
    public var forwardedRequests = 4_096
    /// ms after which a request that no hub has carried out is answered with `unavailable`. Longer than the cluster needs to find another
    /// hub that writes. Default 30,000.
    public var forwardMs: Int64 = 30_000
    /// ms for which a client that comes back from another hub waits for what its session there has left to be written. Default 2,000.
    public var endMs: Int64 = 2_000
    /// ms between two looks at what is under way, and after which what seems lost is sent again. Default 250 and 1,000.
    public var forwardCheckMs: Int64 = 250
    public var forwardAgainMs: Int64 = 1_000
    /// Bytes of requests of one other hub, and of all together, that are carried out at a time or wait for it; and hubs that forward
    /// requests. Default 32 MiB, 128 MiB and 64.
    public var remoteBytes = 32 << 20
    public var remoteBytesOfAll = 128 << 20
    public var hubs = 64
    /// ms for which a hub is not heard of, after it was noticed, until what its sessions have left is written; and between two looks.
    /// Default 10,000 and 1,000.
    public var presenceMs: Int64 = 10_000
    public var hubCheckMs: Int64 = 1_000
    /// ms between two tries while the log refuses commits. Default 1,000.
    public var retryMs = 1_000

    public init() {}

    /// The limits of what follows from one commit.
    var consequences: ConsequenceLimits {
        var limits = ConsequenceLimits()
        (limits.writes, limits.bytes, limits.counted) = (systemWrites, systemWriteBytes, countedAtOnce)
        (limits.keys, limits.asked) = (systemWriteKeys, systemWriteQuestions)
        (limits.continuedRows, limits.continuations) = (owedRows, owingNodes)
        return limits
    }
}

// MARK: Shares

extension EngineLimits {
    var listensShare: Share { Share(total: listensOfNamespace, each: listensOfOwner) }
    var unindexedEntriesShare: Share { Share(total: indexEntries / 2, each: unindexedEntriesOfOwner) }
    /// At one place.
    var unindexedOrdersShare: Share { Share(total: unindexedOrders, each: max(2, unindexedOrders / 8)) }
    var membershipOrdersShare: Share { Share(total: membershipOrders, each: max(2, membershipOrders / 8)) }
    var liveChildrenShare: Share { Share(total: liveQueryChildrenOfAll, each: liveQueryChildrenOfAll / 4) }
    var pendingBytesShare: Share { Share(total: pendingBytesOfAll, each: pendingBytesOfAll / 8) }
}
