public import JSONTree

/// A key of the rules file that makes the hub write.
public enum ConsequenceKind: String, Sendable, Hashable, CaseIterable {
    case removes = ".removes"
    case counts = ".counts"
    case copy = ".copy"
    case inbox = ".inbox"
    case watch = ".watch"
    case expire = ".expire"

    /// Its name in metrics.
    public var name: String { String(rawValue.dropFirst()) }
}

/// A write that the rules derive from another write.
public struct SystemWrite: Sendable, Equatable {
    public let path: Path
    /// The value to write; null removes.
    public let value: Node
    public let kind: ConsequenceKind
    /// The rule node that declares it, with the names of its wildcards.
    public let pattern: Path

    /// The rule's name, such as `/posts/$post.removes`.
    public var rule: String { "\(pattern)\(kind.rawValue)" }
}

/// All consequences of the writes of a commit.
public struct Consequences: Sendable {
    /// The tree after the consequences.
    public internal(set) var tree: Node
    /// In the order in which they apply.
    public internal(set) var writes: [SystemWrite] = []
    /// The places of the writes, ascending, without those below others.
    public internal(set) var places: [Path] = []
    /// Whether no write lies at, above or below another: then each place has exactly its written value.
    var areDisjoint: Bool { places.count == writes.count }
    mutating func findPlaces() { places = writes.map(\.path).outermost }
    /// The number of keys scanned.
    public internal(set) var keysScanned = 0
    /// The number of written places processed, and of the counters, copies and removals there.
    public internal(set) var stepCount = 0
    /// The number of conditions evaluated: of copies, of rows and of members of counted sets.
    public internal(set) var evaluated = 0
    /// Bytes of the writes, as `ConsequenceLimits.bytes` counts them.
    public internal(set) var bytes = 0
    /// What leaves the hub because of the commit.
    public internal(set) var deliveries: [RuleDelivery] = []
    /// Deliveries of removals left out because of a limit; at most that many, as they were not all looked for.
    public internal(set) var deliveriesLeftOut = 0
    /// Inbox rows that follow in commits of their own, each with the most rows it may have; and the sum of these.
    public internal(set) var continued: [(rows: ContinuedRows, most: Int)] = []
    var continuedRows = 0
    /// Removals of the commit whose consequences follow in later commits.
    public internal(set) var continuedRemovals: ContinuedRemovals?
    /// The targets of `.removes` on a change that follow there as well, with `$` for every key.
    var deferredTargets: [Path] = []
    /// The hits of watches, which the commit must store, and their pairs.
    public internal(set) var hits: [WatchHit] = []
    var found: Set<WatchPair> = []
    /// Those whose rows follow in later commits, because they are too many.
    public internal(set) var continuedHits: [WatchPair] = []
    /// Inboxes whose rows are already in this result.
    var sent: Set<ConsequenceRound.Sending> = []
    /// Places of copies and set members that this commit has written so far; nil if existing ones are found by scanning the tree.
    var written: CopyIndex?
    /// Counters whose sets were counted.
    public internal(set) var counted: [Path] = []
    /// The other changes of counters that a `max`, `min` or `any` keeps.
    public internal(set) var changedCounters: [(path: Path, change: CounterChange)] = []
    /// Nodes that their counters create and that were removed because they held nothing else: not to be created again.
    var emptied: Set<Path> = []
    /// Whether a set is too large to count here: all counters must be counted in the background.
    public internal(set) var needsCounting = false
}

/// The author of a commit, as far as it affects consequences.
public enum ConsequenceAuthor: Sendable {
    /// May not write a counter: the commit is refused.
    case client
    /// May write counters, but the hub replaces their values by the correct ones.
    case administrator
    /// Writes counters to correct them.
    case hub
}

/// Why the consequences cannot be applied, so that the commit is refused.
public struct ConsequenceFault: Error, Sendable, Hashable, CustomStringConvertible {
    public enum Reason: Sendable, Hashable {
        case tooManyWrites(Int)
        case tooManyBytes(Int)
        /// More keys to scan than the limit.
        case tooManyKeys(Int)
        /// More written places to process, or counters, copies and removals there, than the limit.
        case tooManyProcessed(Int)
        /// More pending inbox rows, over all commits, than the limit.
        case tooManyRows(Int)
        /// More nodes with pending rows than the limit.
        case tooManyContinuations(Int)
        /// More notifications and events than the limit.
        case tooManyDeliveries(Int)
        /// A value used as a key is not a legal key.
        case illegalKey(String)
        /// A target deeper than data may be.
        case tooDeep
        /// A client has written a counter.
        case counterWritten(String)
        /// An expression of an `.expire` or `.inbox` fails, or the write has no place or no value.
        case failed
        /// A patched node would be due again at once.
        case stillDue
        /// The conditions of counters need more text work than the limit.
        case tooMuchWork
    }

    public let reason: Reason
    /// The rule's name, such as `/posts/$post.removes`, and the place in the data.
    public let rule: String
    public let path: Path

    public var description: String {
        switch reason {
        case .tooManyWrites(let limit): "\(rule) at \(path): more than \(limit) writes would follow"
        case .tooManyBytes(let limit): "\(rule) at \(path): more than \(limit) bytes would follow"
        case .tooManyKeys(let limit): "\(rule) at \(path): more than \(limit) keys would have to be looked at"
        case .tooManyProcessed(let limit): "\(rule) at \(path): more than \(limit) places, counters and copies would have to be asked about"
        case .tooManyRows(let limit): "\(rule) at \(path): more than \(limit) rows would be owed to inboxes"
        case .tooManyContinuations(let limit): "\(rule) at \(path): \(limit) nodes still owe rows or removals to later commits"
        case .tooManyDeliveries(let limit): "\(rule) at \(path): more than \(limit) notifications and events would follow"
        case .illegalKey(let text): "\(rule) at \(path): '\(text.prefix(64))' cannot be a key"
        case .counterWritten(let name): "\(rule) at \(path): '\(name)' is counted, and no client writes another value"
        case .failed: "\(rule) at \(path): what is to be written cannot be found out"
        case .stillDue: "\(rule) at \(path): it would be due again at once: let the patch make its 'if' false"
        case .tooMuchWork: "\(rule) at \(path): too much text would have to be looked at"
        case .tooDeep: "\(rule) at \(path): the place would be deeper than \(Path.maxDepth) levels"
        }
    }
}

/// Bounds for the consequences of one commit.
public struct ConsequenceLimits: Sendable, Hashable {
    /// Most writes. Default 1,000.
    package var writes = 1_000
    /// Most bytes of these writes: their places and values, plus 32 for each node. A copy counts in full. Default 2 MiB.
    package var bytes = 2 << 20
    /// Most notifications and events. Default 1,000.
    package var deliveries = 1_000
    /// Most keys scanned to find them: those that wildcards range over, and those that were removed. Default 10,000.
    package var keys = 10_000
    /// Most steps: one for each written place that may have consequences, and for each counter, copy and removal there or below.
    /// Default 10,000.
    package var stepCount = 10_000
    /// Most children of a set counted inline when a counter's node is created; larger sets are counted off the queue. Default 1,000.
    package var counted = 1_000
    /// Most places of possible copies recorded in the index for one commit; copies beyond are found by scanning. Default 1,000.
    package var maxIndexed = CopyIndex.maxIndexed

    /// Most pending inbox rows, which follow in later commits, and most nodes with pending rows. Default 1,000,000 and 100.
    package var continuedRows = 1_000_000
    package var continuations = 100
    /// The rows already pending, and for each source node the number of its pending entries. New rows of such a node queue behind those.
    package var pendingRows = 0
    package var pendingBySource: [Path: Int] = [:]
    /// When a removal with too many consequences leaves them to later commits.
    public enum Continuing: Sendable {
        /// Regardless of the number of pending nodes.
        case always
        /// Only while fewer than `continuations` are pending.
        case withinBound
        /// Never: the commit fails instead.
        case never
    }
    package var continuesRemovals = Continuing.withinBound
    /// Whether watches find nothing: a removal must be possible, however many keys watches would scan for it.
    var skipsWatches = false
    /// Whether every inbox row and every consequence of a removal becomes pending, however few there are.
    var defersAll = false

    public init() {}
}

extension RuleSet {
    /// Whether the rules declare any consequences.
    public var hasConsequences: Bool { program.hasConsequences }

    /// The value of `auth` when `.validate` is evaluated for a write by the hub.
    public static let hubAuth: Node = ["provider": "hub"]

    /// The consequences of writes; a pure function. `.validate` is not evaluated here.
    ///
    /// ```
    /// old ── rules allow ──► new ── round 1 ──► · ── round 2: of the writes of round 1 ──► · … until nothing follows
    /// ```
    /// Costs the size of the data written at places with such rules, plus the size of the consequences.
    /// - Parameters:
    ///   - locations: the places that the commit writes.
    ///   - old: the tree before.
    ///   - new: the tree after.
    ///   - author: who makes the commit.
    ///   - now: ms since the epoch.
    ///   - index: of the copies in `old`; nil to scan the tree for them.
    ///   - watches: what is known about watches.
    public func consequences(
        of locations: [Path], old: Node, new: Node, by author: ConsequenceAuthor = .client, now: Int64 = 0,
        limits: ConsequenceLimits = ConsequenceLimits(), copies index: CopyIndex? = nil, watches: WatchState = WatchState()
    ) throws(ConsequenceFault) -> Consequences {
        guard hasConsequences else { return Consequences(tree: new) }
        do throws(ConsequenceFault) { return try find(locations, old, new, author, now, limits, index, watches) } catch {
            // Inbox rows and consequences of removals may exceed the bounds of a commit: then they follow in later commits.
            guard error.reason.isBound || error.reason == .tooMuchWork else { throw error }
            // A counter that the hub corrects to nothing is no removal: it may empty its node.
            let removed = author == .hub ? []
                : locations.filter { new.node(at: $0).isNull && old.node(at: $0).exists && mayFollow(from: $0) }
            let mayDefer = program.hasInboxes || !program.watches.isEmpty || program.tables.places[0].removesOnChange
            guard mayDefer && error.reason.isBound || !removed.isEmpty else { throw error }
            var limits = limits
            limits.defersAll = true
            var found: Consequences
            do throws(ConsequenceFault) {
                found = try find(locations, old, new, author, now, limits, index, watches, later: Set(removed))
            } catch {
                guard error.isOfWatch, removed.count == locations.count else { throw error }
                limits.skipsWatches = true
                found = try find(locations, old, new, author, now, limits, index, watches, later: Set(removed))
            }
            found.addCost(of: error.reason)
            if !removed.isEmpty || !found.deferredTargets.isEmpty { try found.continueRemovals(removed, limits, now: now, error) }
            let createsNodes = program.tables.places[0].createsNodes
            if removed.contains(where: { createsNodes || isCounted($0) }) { found.needsCounting = true }
            return found
        }
    }

    /// - Parameter later: removed places whose consequences follow in later commits.
    private func find(
        _ locations: [Path], _ old: Node, _ new: Node, _ author: ConsequenceAuthor, _ now: Int64, _ limits: ConsequenceLimits,
        _ index: CopyIndex?, _ watches: WatchState, later: Set<Path> = []
    ) throws(ConsequenceFault) -> Consequences {
        var scope = later.isEmpty ? RemovalScope.all : .without(later)
        var result = Consequences(tree: new)
        var (before, after, next, work) = (old, new, locations, program.textWork)
        var author: ConsequenceAuthor? = author
        if index != nil {
            result.written = CopyIndex(program)
            result.written?.update(locations, old: old, new: new, atMost: limits.maxIndexed)
        }
        // The places that watches look at and that have changed, and whether some have since the watches looked.
        var watched = limits.skipsWatches ? [] : locations.filter { isWatched($0) }
        var isUnseen = !watched.isEmpty
        while !next.isEmpty || isUnseen {
            // Watches look at the tree after everything else. What their hits change makes them look again at the whole commit.
            let isOfWatches = next.isEmpty
            var round = ConsequenceRound(
                program, before: isOfWatches ? old : before, after: isOfWatches ? result.tree : after, result, limits, first: author,
                textWork: work, base: old, candidate: new, now: now, index: index, scope: scope)
            if isOfWatches { try round.watch(watched.outermost, watches) } else { try round.run(next) }
            scope = .all
            let written = round.result.writes[result.writes.count...].map(\.path)
            let last = result.tree
            (result, work, author) = (round.result, round.textWork, nil)
            let seen = limits.skipsWatches ? [] : written.filter { isWatched($0) }
            (watched, isUnseen) = (watched + seen, !seen.isEmpty || isUnseen && !isOfWatches)
            // Most of these writes have no consequences: rows and copies usually lie at places without such rules.
            next = written.filter { mayFollow(from: $0) }.outermost
            if next.isEmpty, !isUnseen { break }
            result.written?.update(written.outermost, old: last, new: result.tree, atMost: limits.maxIndexed)
            (before, after) = (round.after, result.tree)
        }
        result.findPlaces()
        if hasDeliveries {
            var search = DeliverySearch(program, old: old, new: result.tree, now: now, limits, textWork: work)
            for location in (locations + result.places).outermost where mayFollow(from: location) { try search.search(location) }
            (result.deliveries, result.deliveriesLeftOut) = (search.found, search.leftOut)
            result.keysScanned += search.keysScanned
            result.evaluated += search.evaluated
        }
        return result
    }

    /// Whether `.validate`, evaluated as the hub, allows the consequences of a commit.
    /// - Parameters:
    ///   - old: the tree before the commit.
    ///   - now: ms since the epoch.
    ///   - work: the budget of text work; the work done is subtracted.
    public func admits(_ consequences: Consequences, old: Node, now: Int64, textWork work: inout Int) -> Bool {
        let most = min(work, program.textWork)
        return Evaluator.run(program, old: old, new: consequences.tree, auth: Self.hubAuth, now: now, query: nil) { evaluator in
            evaluator.textWork = most
            let isValid = evaluator.areValid(consequences)
            work -= most - evaluator.textWork
            return isValid
        }
    }
}

extension ConsequenceFault {
    fileprivate var isOfWatch: Bool { rule.hasSuffix(ConsequenceKind.watch.rawValue) }
}

extension ConsequenceFault.Reason {
    /// Whether the reason is a bound of a single commit.
    fileprivate var isBound: Bool {
        switch self {
        case .tooManyWrites, .tooManyBytes, .tooManyKeys, .tooManyProcessed, .tooManyDeliveries: true
        default: false
        }
    }
}

extension [Path] {
    /// Ascending, without paths below other paths.
    var outermost: [Path] {
        var kept: [Path] = []
        for path in sorted() where kept.last?.contains(path) != true { kept.append(path) }
        return kept
    }
}
