import Journal
import JSONTree
import SecurityRules

/// The tree as it would be after a commit, with what was written: the third stage. It shares all that the writes do not touch with
/// the tree that it was made on. Pure: on any queue.
struct Candidate: Sendable {
    /// The tree that it was made on.
    let base: Node
    private(set) var tree: Node
    /// The operations of the commit, in the order of the writes, then those of defaults beside them. Fewer where a `.drop` has one
    /// dropped.
    private(set) var operations: [JournalOperation] = []
    /// Where the writes are, then where a default was put beside them.
    private(set) var paths: [Path]
    /// Where it writes, with what follows from it; then no place contains another. Nil where nothing does.
    private var outermost: [Path]?
    /// Those of them of which nothing is stored, by a `.drop`.
    private(set) var dropped: Set<Path> = []
    /// How many of the paths were asked for.
    private let askedCount: Int
    /// ms since the epoch: the time of the commit.
    let now: Int64
    /// Text work that `.drop` and `.default` have done.
    private(set) var textWork = 0
    /// Whether something else is stored than was sent.
    private(set) var isShaped = false
    /// What its shape rests on, if the shaping is to say so.
    private(set) var shapeDependencies: WriteDecision?

    /// O(depth and size of the writes)
    /// - Parameter shaping: what the rules say about what is stored; nil where they say nothing.
    /// - Throws: when the tree cannot hold what a write stores.
    init(_ writes: [TreeWrite], on base: Node, now: Int64, shaping: WriteShaping? = nil) throws(Failure) {
        self.base = base
        self.now = now
        tree = base
        paths = writes.map(\.path)
        askedCount = writes.count
        operations.reserveCapacity(writes.count)
        for write in writes {
            let value = ServerValues.resolve(write, in: tree, now: now)
            try WriteShape.check(value, of: write)
            switch write.part {
            case .node:
                tree.set(value, at: write.path)
                operations.append(.set(write.path, value))
            case .priority:
                tree.setPriority(value, at: write.path)
                operations.append(.priority(write.path, value))
            }
        }
        if let shaping { try shape(shaping, writes) }
    }

    /// The places that were asked for: all that `.write` is asked about.
    var asked: [Path] { paths.count == askedCount ? paths : Array(paths.prefix(askedCount)) }
    /// The places of defaults beside them.
    var added: [Path] { paths.count == askedCount ? [] : Array(paths.dropFirst(askedCount)) }

    /// Adds what follows from it.
    mutating func add(_ consequences: Consequences) {
        tree = consequences.tree
        operations += consequences.operations
        if !consequences.writes.isEmpty { outermost = consequences.places.with(paths) }
    }

    /// Where it writes, with what follows from it.
    var touched: [Path] { outermost ?? paths }

    /// The values that are written, at places of which none lies above or below another: then each place has its value. Nil where
    /// something else is written, or nothing follows. O(operations)
    func values() -> [(path: Path, value: Node)]? {
        guard let outermost, dropped.isEmpty, outermost.count == operations.count else { return nil }
        var values: [(path: Path, value: Node)] = []
        values.reserveCapacity(operations.count)
        for operation in operations {
            guard case .set(let path, let value) = operation, value.exists else { return nil }
            values.append((path, value))
        }
        return values
    }

    /// What its only operation stores at its only place, where that is a value.
    var onlyValue: Node? {
        guard operations.count == 1, paths.count == 1, case .set(_, let value) = operations[0] else { return nil }
        return value
    }

    /// The same without those of which nothing is stored: there nothing counts as written.
    var stored: [Path] { dropped.isEmpty ? touched : touched.filter { !dropped.contains($0) } }

    /// Shapes the values that are written; a priority is none.
    private mutating func shape(_ shaping: WriteShaping, _ writes: [TreeWrite]) throws(Failure) {
        let sent = operations
        let values = writes.indices.filter { writes[$0].part == .node }
        var shaped = shaping.rules.shape(
            values.count == writes.count ? paths : values.map { paths[$0] }, old: base, new: tree, auth: shaping.auth, now: now, textWork: shaping.textWork, keeping: shaping.dependencies
        ) { ignored in
            var tree = base
            let ignored = ignored.map { values[$0] }
            for (i, operation) in sent.enumerated() where !ignored.contains(i) { tree.apply(operation) }
            return tree
        }
        if shaped.needsTooMuchWork { throw .tooMuchShaping }
        (shaped.ignored, shaped.changed) = (shaped.ignored.map { values[$0] }, shaped.changed.map { values[$0] })
        (textWork, shapeDependencies) = (shaped.textWork, shaped.dependencies)
        guard shaped.isOther else { return }
        isShaped = true
        tree = shaped.tree
        for i in shaped.changed { operations[i] = .set(paths[i], tree.node(at: paths[i])) }
        if !shaped.ignored.isEmpty {
            let ignored = Set(shaped.ignored)
            dropped = Set(shaped.ignored.map { paths[$0] })
            operations = operations.enumerated().filter { !ignored.contains($0.offset) }.map(\.element)
        }
        for path in shaped.added {
            operations.append(.set(path, tree.node(at: path)))
            paths.append(path)
        }
        // As the log has it: where the shape was made after all writes, a place that one of them empties has another priority.
        tree = base
        for operation in operations { tree.apply(operation) }
    }
}

/// The rules' say in what a commit stores: `.drop` and `.default`.
struct WriteShaping: Sendable {
    let rules: RuleSet
    let auth: Node
    /// Text work that they may do.
    let textWork: Int
    /// Places in the data on which the shape may rest, if that is to be known.
    let dependencies: Int?

    /// Nil where the rules of the commit have no say.
    init?(_ rules: RuleSet, _ origin: WriteOrigin, textWork: Int = .max, dependencies: Int? = nil) {
        guard rules.shapesWrites, origin.isShaped else { return nil }
        self.rules = rules
        auth = origin.identity.auth
        self.textWork = min(textWork, rules.textWork)
        self.dependencies = dependencies
    }
}

extension Failure {
    static let tooMuchShaping = Failure(.tooBig, "The rules' '.drop' and '.default' would have too much text to work on for this write.")
}

extension [Path] {
    /// Ascending, without those that lie below others.
    var outermost: [Path] {
        var kept: [Path] = []
        for path in sorted() where kept.last?.contains(path) != true { kept.append(path) }
        return kept
    }

    /// These, which ascend, with some more: ascending, without those that lie below others. O(count + more · log more)
    func with(_ more: [Path]) -> [Path] {
        if more.isEmpty { return self }
        var (kept, others) = ([Path](), more.sorted()[...])
        kept.reserveCapacity(count + more.count)
        func keep(_ path: Path) { if kept.last?.contains(path) != true { kept.append(path) } }
        for path in self {
            while let other = others.first, other < path { keep(others.removeFirst()) }
            keep(path)
        }
        for path in others { keep(path) }
        return kept
    }
}

extension JournalOperation {
    /// The stored value: the node, or the priority.
    var value: Node {
        switch self {
        case .set(_, let value), .priority(_, let value), .add(_, let value): value
        case .pending, .written, .owed, .open, .peer: .null
        }
    }
}
