public import JSONTree

/// What has the hub write by itself: a key of the rules file.
public enum ConsequenceKind: String, Sendable, Hashable, CaseIterable {
    case removes = ".removes"
    case counts = ".counts"
    case copy = ".copy"
    case inbox = ".inbox"
    case expire = ".expire"

    /// Its name in metrics.
    public var name: String { String(rawValue.dropFirst()) }
}

/// A write that the rules have follow from another.
public struct SystemWrite: Sendable, Equatable {
    public let path: Path
    /// What is put there; null removes.
    public let value: Node
    public let kind: ConsequenceKind
    /// The rule node that has it follow, with its wildcards' names.
    public let pattern: Path

    /// Such as `/posts/$post.removes`.
    public var rule: String { "\(pattern)\(kind.rawValue)" }
}

/// All that follows from the writes of a commit.
public struct Consequences: Sendable {
    /// The tree with them made.
    public internal(set) var tree: Node
    /// In the order in which they are made.
    public internal(set) var writes: [SystemWrite] = []
    /// Their places, ascending, without those that lie below others.
    public internal(set) var places: [Path] = []
    /// Whether none of them lies at, above or below another: then each has the value that was put there.
    var areApart: Bool { places.count == writes.count }
    mutating func findPlaces() { places = writes.map(\.path).outermost }
    /// Keys that were looked at to find them.
    public internal(set) var keysLookedAt = 0
    /// Written places, and counters, copies and removals of them, that were asked about.
    public internal(set) var asked = 0
    /// Conditions that were evaluated, of copies, rows and members of counted sets.
    public internal(set) var evaluated = 0
    /// Bytes of the writes, as `ConsequenceLimits.bytes` counts them.
    public internal(set) var bytes = 0
    /// Rows of inboxes that are to follow in commits of their own, and how many they are at most; all together.
    public internal(set) var continued: [(rows: ContinuedRows, most: Int)] = []
    var continuedRows = 0
    /// Removals of the commit whose own consequences are to follow in later commits.
    public internal(set) var continuedRemovals: ContinuedRemovals?
    /// Inboxes of which rows have followed.
    var sent: Set<ConsequenceRound.Sending> = []
    /// Places of copies and of members of sets that were written by this commit so far; nil where existing ones are looked for in the tree.
    var written: CopyIndex?
    /// Counters of new nodes, whose sets were counted.
    public internal(set) var counted: [Path] = []
    /// Whether a new node has a set that is too large for that: all is to be counted.
    public internal(set) var needsCounting = false
}

/// Who makes a commit, as far as it matters to what follows.
public enum ConsequenceAuthor: Sendable {
    /// Refused when it writes a counter.
    case client
    /// Its counters are replaced by the right ones.
    case administrator
    /// Corrects counters itself.
    case hub
}

/// Why what the rules have follow cannot be done, so that the commit is refused.
public struct ConsequenceFault: Error, Sendable, Hashable, CustomStringConvertible {
    public enum Reason: Sendable, Hashable {
        /// More writes than the limit.
        case tooManyWrites(Int)
        /// More bytes than the limit.
        case tooManyBytes(Int)
        /// More keys are to be looked at than the limit.
        case tooManyKeys(Int)
        /// More written places, or counters, copies and removals of them, are to be asked about than the limit.
        case tooManyAsked(Int)
        /// More rows of inboxes would be owed than may be, by all commits together.
        case tooManyRows(Int)
        /// The same for nodes that owe rows.
        case tooManyContinuations(Int)
        /// A value that is to be a key, and cannot.
        case illegalKey(String)
        /// A place that would be deeper than data may be.
        case tooDeep
        /// A client has written a counter.
        case counterWritten(String)
        /// An expression of an `.expire` or an `.inbox` fails, or what is to be written has no place or is nothing.
        case failed
        /// What has been patched would be due again at once.
        case stillDue
        /// The conditions of counters need more work on texts than there is.
        case tooMuchWork
    }

    public let reason: Reason
    /// Such as `/posts/$post.removes`, and the place in the data.
    public let rule: String
    public let path: Path

    public var description: String {
        switch reason {
        case .tooManyWrites(let limit): "\(rule) at \(path): more than \(limit) writes would follow"
        case .tooManyBytes(let limit): "\(rule) at \(path): more than \(limit) bytes would follow"
        case .tooManyKeys(let limit): "\(rule) at \(path): more than \(limit) keys would have to be looked at"
        case .tooManyAsked(let limit): "\(rule) at \(path): more than \(limit) places, counters and copies would have to be asked about"
        case .tooManyRows(let limit): "\(rule) at \(path): more than \(limit) rows would be owed to inboxes"
        case .tooManyContinuations(let limit): "\(rule) at \(path): \(limit) nodes still owe rows or removals to later commits"
        case .illegalKey(let text): "\(rule) at \(path): '\(text.prefix(64))' cannot be a key"
        case .counterWritten(let name): "\(rule) at \(path): '\(name)' is counted, and no client writes another value"
        case .failed: "\(rule) at \(path): what is to be written cannot be found out"
        case .stillDue: "\(rule) at \(path): it would be due again at once: let the patch make its 'if' false"
        case .tooMuchWork: "\(rule) at \(path): too much text would have to be looked at"
        case .tooDeep: "\(rule) at \(path): the place would be deeper than \(Path.maxDepth) levels"
        }
    }
}

/// Bounds for what may follow from one commit.
public struct ConsequenceLimits: Sendable, Hashable {
    /// Most writes. Default 1,000.
    public var writes = 1_000
    /// Most bytes of these writes, places and values, each node as 32 more: a copy is written as a whole. Default 2 MiB.
    public var bytes = 2 << 20
    /// Most keys that are looked at to find them: of the places that wildcards range over, and of what was removed.
    /// Default 10,000.
    public var keys = 10_000
    /// Most questions: one for each written place from which something may follow, and for each counter, copy and removal of one, or of what
    /// is below it. Default 10,000.
    public var asked = 10_000
    /// Most children of a set that are asked about when a counter's node is made; those of a larger one are counted beside the queue.
    /// Default 1,000.
    public var counted = 1_000
    /// Places where copies may be that are noted for one commit; more are looked for. Default 1,000.
    public var noted = CopyIndex.notedAtOnce

    /// Rows of inboxes that may be owed, to be made in later commits, and nodes that may owe some. Default 1,000,000 and 100.
    public var continuedRows = 1_000_000
    public var continuations = 100
    /// What is owed already: rows, and how often which nodes owe some. What such a node owes now comes behind those.
    public var owedRows = 0
    public var owing: [Path: Int] = [:]
    /// When a removal of which too much follows leaves that to later commits.
    public enum Continuing: Sendable {
        /// However many nodes owe something.
        case always
        /// While fewer than `continuations` do.
        case withinBound
        /// It fails instead.
        case never
    }
    public var continuesRemovals = Continuing.withinBound
    /// Whether all rows of inboxes are owed, however few they are, and all consequences of removals.
    var continuesAll = false

    public init() {}
}

extension RuleSet {
    /// Whether the rules have anything follow from writes.
    public var hasConsequences: Bool { program.hasConsequences }

    /// What `auth` is when `.validate` is asked about a write of the hub.
    public static let hubAuth: Node = ["provider": "hub"]

    /// What the rules have follow from writes; a pure function. `.validate` is not asked yet.
    ///
    /// ```
    /// old ── asked ──► new ── round 1 ──► · ── round 2: of what round 1 wrote ──► · … until nothing follows
    /// ```
    /// Costs the size of what was written where rules with such keys are, and what is written.
    /// - Parameters:
    ///   - locations: the places that the commit writes.
    ///   - old: the tree before.
    ///   - new: the tree after.
    ///   - author: who makes the commit.
    ///   - now: ms since the epoch.
    ///   - index: of the copies in `old`; nil to look for them in the tree.
    public func consequences(
        of locations: [Path], old: Node, new: Node, by author: ConsequenceAuthor = .client, now: Int64 = 0,
        limits: ConsequenceLimits = ConsequenceLimits(), copies index: CopyIndex? = nil
    ) throws(ConsequenceFault) -> Consequences {
        guard hasConsequences else { return Consequences(tree: new) }
        do throws(ConsequenceFault) { return try find(locations, old, new, author, now, limits, index) } catch {
            // Rows of inboxes, and what follows from removals, may be more than a commit has room for: they come behind it.
            guard error.reason.isBound || error.reason == .tooMuchWork else { throw error }
            let removed = locations.filter { new.node(at: $0).isNull && old.node(at: $0).exists && mayFollow(from: $0) }
            guard program.hasInboxes && error.reason.isBound || !removed.isEmpty else { throw error }
            var limits = limits
            limits.continuesAll = true
            var found = try find(locations, old, new, author, now, limits, index, later: Set(removed))
            found.addCost(of: error.reason)
            if !removed.isEmpty { try found.continueRemovals(removed, limits, error) }
            if removed.contains(where: isCounted) { found.needsCounting = true }
            return found
        }
    }

    /// - Parameter later: places whose removal has its consequences in later commits.
    private func find(
        _ locations: [Path], _ old: Node, _ new: Node, _ author: ConsequenceAuthor, _ now: Int64, _ limits: ConsequenceLimits,
        _ index: CopyIndex?, later: Set<Path> = []
    ) throws(ConsequenceFault) -> Consequences {
        var scope = later.isEmpty ? RemovalScope.all : .without(later)
        var result = Consequences(tree: new)
        var (before, after, next, work) = (old, new, locations, program.textWork)
        var author: ConsequenceAuthor? = author
        if index != nil {
            result.written = CopyIndex(program)
            result.written?.note(locations, old: old, new: new, atMost: limits.noted)
        }
        while !next.isEmpty {
            var round = ConsequenceRound(
                program, before: before, after: after, result, limits, first: author, textWork: work, base: old, now: now,
                index: index, scope: scope)
            try round.run(next)
            scope = .all
            let written = round.result.writes[result.writes.count...].map(\.path)
            (result, work, author) = (round.result, round.textWork, nil)
            // Of most nothing follows: copies and rows are where others read.
            next = written.filter { mayFollow(from: $0) }.outermost
            if next.isEmpty { break }
            result.written?.note(written.outermost, old: after, new: result.tree, atMost: limits.noted)
            (before, after) = (after, result.tree)
        }
        result.findPlaces()
        return result
    }

    /// Whether `.validate` admits what follows from a commit, asked as the hub.
    /// - Parameters:
    ///   - old: the tree before the commit.
    ///   - now: ms since the epoch.
    ///   - work: text work that may be done; the work done is subtracted.
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

extension ConsequenceFault.Reason {
    /// Whether it is a bound of what one commit does.
    fileprivate var isBound: Bool {
        switch self {
        case .tooManyWrites, .tooManyBytes, .tooManyKeys, .tooManyAsked: true
        default: false
        }
    }
}

extension [Path] {
    /// Ascending, without those that lie below others.
    var outermost: [Path] {
        var kept: [Path] = []
        for path in sorted() where kept.last?.contains(path) != true { kept.append(path) }
        return kept
    }
}
