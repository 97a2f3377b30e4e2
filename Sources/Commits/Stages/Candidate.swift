package import Journal
package import JSONTree
package import SecurityRules

/// The first three stages of a commit: the tree as it would be afterwards, and its operations. It shares all untouched nodes with its base
/// tree. Pure: on any queue.
package struct Candidate: Sendable {
    /// The tree on which it was built.
    package let base: Node
    package private(set) var tree: Node
    /// The operations: values, removals, then defaults at other paths. Without the operations that a `.drop` removed.
    package private(set) var operations: [JournalOperation] = []
    /// The requested paths, then the paths to which a default was added.
    package private(set) var paths: [Path]
    /// The paths written, consequences included, of which none contains another. Nil without consequences.
    private var outermost: [Path]?
    /// The paths at which nothing is stored because of a `.drop`.
    package private(set) var dropped: Set<Path> = []
    /// How many of the paths were requested.
    private let askedCount: Int
    /// ms since the epoch: the time of the commit.
    package let now: Int64
    /// Text work that `.drop` and `.default` have done.
    package private(set) var textWork = 0
    /// Whether the stored values differ from those sent.
    package private(set) var isShaped = false
    /// The dependencies of the shaping, if the caller asked for them.
    private(set) var shapeDependencies: WriteDecision?

    /// O(depth + size of the writes)
    /// - Parameters:
    ///   - writes: none is at, above or below another.
    ///   - shaping: the `.drop` and `.default` of the rules; nil if there are none.
    /// - Throws: when the tree cannot hold a stored value.
    package init(_ writes: [TreeWrite], on base: Node, now: Int64, shaping: WriteShaping? = nil) throws(Failure) {
        // A merge keeps a node's priority (contract check 87), also when all its children are replaced: it must not be empty in between.
        let writes = writes.puttingLast(\.isRemoval)
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

    /// The requested paths: the only ones for which `.write` is evaluated.
    package var asked: [Path] { paths.count == askedCount ? paths : Array(paths.prefix(askedCount)) }
    /// Further paths, to which a default was added.
    package var added: [Path] { paths.count == askedCount ? [] : Array(paths.dropFirst(askedCount)) }

    /// Adds the consequences.
    package mutating func add(_ consequences: Consequences) {
        tree = consequences.tree
        operations += consequences.operations
        if !consequences.writes.isEmpty { outermost = consequences.places.with(paths) }
    }

    /// The paths written, consequences included.
    package var touched: [Path] { outermost ?? paths }

    /// The values written, if no written path lies above or below another: then each path holds its value. Nil if another operation is
    /// among them, or nothing follows. O(operations)
    package func values() -> [(path: Path, value: Node)]? {
        guard let outermost, dropped.isEmpty, outermost.count == operations.count else { return nil }
        var values: [(path: Path, value: Node)] = []
        values.reserveCapacity(operations.count)
        for operation in operations {
            guard case .set(let path, let value) = operation, value.exists else { return nil }
            values.append((path, value))
        }
        return values
    }

    /// The value that its only operation stores at its only path; nil in all other cases.
    package var onlyValue: Node? {
        guard operations.count == 1, paths.count == 1, case .set(_, let value) = operations[0] else { return nil }
        return value
    }

    /// The touched paths without those at which nothing is stored: these do not count as written.
    package var stored: [Path] { dropped.isEmpty ? touched : touched.filter { !dropped.contains($0) } }

    /// Applies `.drop` and `.default` to the written nodes. Priorities are not shaped.
    private mutating func shape(_ shaping: WriteShaping, _ writes: [TreeWrite]) throws(Failure) {
        let sent = operations
        let values = writes.indices.filter { writes[$0].part == .node }
        var shaped = shaping.rules.shape(
            values.count == writes.count ? paths : values.map { paths[$0] }, old: base, new: tree,
            auth: shaping.auth, now: now, textWork: shaping.textWork, keeping: shaping.dependencies
        ) { ignored in
            var tree = base
            let ignored = ignored.map { values[$0] }
            for (i, operation) in sent.enumerated() where !ignored.contains(i) { tree.apply(operation) }
            return tree
        }
        if shaped.needsTooMuchWork { throw .tooMuchShaping }
        (shaped.ignored, shaped.changed) = (shaped.ignored.map { values[$0] }, shaped.changed.map { values[$0] })
        (textWork, shapeDependencies) = (shaped.textWork, shaped.dependencies)
        guard shaped.differsFromSent else { return }
        isShaped = true
        tree = shaped.tree
        for i in shaped.changed { operations[i] = .set(paths[i], tree.node(at: paths[i])) }
        if !shaped.ignored.isEmpty {
            let ignored = Set(shaped.ignored)
            dropped = Set(shaped.ignored.map { paths[$0] })
            operations = operations.enumerated().filter { !ignored.contains($0.offset) }.map(\.element)
        }
        operations = operations.puttingLast(\.isRemoval)
        for path in shaped.added {
            operations.append(.set(path, tree.node(at: path)))
            paths.append(path)
        }
        // Rebuilt from the operations, to match the log: shaping ran after all writes, where a path that one of them empties may have
        // another priority.
        tree = base
        for operation in operations { tree.apply(operation) }
    }
}

/// The part of the rules that changes what a commit stores: `.drop` and `.default`.
package struct WriteShaping: Sendable {
    package let rules: RuleSet
    package let auth: Node
    /// Text work that they may do.
    package let textWork: Int
    /// Recorded dependencies at most; nil to record none.
    package let dependencies: Int?

    /// Nil where the rules change nothing for this commit.
    package init?(_ rules: RuleSet, _ origin: WriteOrigin, textWork: Int = .max, dependencies: Int? = nil) {
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

extension Array {
    /// The same elements; those that satisfy a condition follow the others.
    fileprivate func puttingLast(_ isLast: (Element) -> Bool) -> [Element] {
        guard count > 1, let first = firstIndex(where: isLast), !self[first...].allSatisfy(isLast) else { return self }
        return filter { !isLast($0) } + filter(isLast)
    }
}

extension TreeWrite {
    /// A server value for the priority of nothing stores nothing.
    fileprivate var isRemoval: Bool { part == .node && value.node.isNull && value.deferred.allSatisfy { $0.target == .priority } }
}

extension JournalOperation {
    fileprivate var isRemoval: Bool { if case .set(_, .null) = self { true } else { false } }
}

extension [Path] {
    /// Ascending, without paths that lie below others.
    package var outermost: [Path] {
        var kept: [Path] = []
        for path in sorted() where kept.last?.contains(path) != true { kept.append(path) }
        return kept
    }

    /// Merges more paths into these ascending ones. The result ascends, without paths that lie below others. O(count + more · log more)
    package func with(_ more: [Path]) -> [Path] {
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
    /// The stored value: the node, or the priority. Null for operations that do not change the tree.
    package var value: Node {
        switch self {
        case .set(_, let value), .priority(_, let value), .add(_, let value): value
        case .pending, .written, .pendingRows, .open, .peer, .delivery, .watch: .null
        }
    }
}
