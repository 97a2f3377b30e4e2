import JSONTree

/// Evaluates rules for one operation. All inputs of expressions are fixed for its lifetime: both trees, `auth`, `now`,
/// `query`, and the keys of the path being walked.
///
///     depth       0        1          2          3
///     keys            users-follow    ada       danae            pushed by the walk; a wildcard at depth d is keys[d - 1]
///     old tree   node     node       node       node             filled on demand: data, root
///     new tree   node     node       node       node             filled on demand: newData
///     shared     /posts   /posts/$post   …                       paths from a root that several rules use, walked once
///
/// Lives on the stack of one call, in buffers of fixed size, and reads both trees through cursors. The usual path allocates, copies and
/// reference-counts nothing. The caller owns the roots and the paths, and keeps them alive until the end.
struct Evaluator: ~Copyable {
    let program: Program
    let tables: ProgramTables
    let auth: NodeCursor
    var now: Double
    private let query: UnsafePointer<QueryVariables>
    /// Whether rules see the query: only those at the place that is read do. A window granted above it would grant everything below.
    var seesQuery = true

    private let keys: UnsafeMutablePointer<TextCursor>
    private let oldNodes: UnsafeMutablePointer<NodeCursor?>
    private let newNodes: UnsafeMutablePointer<NodeCursor?>
    /// Rule nodes by depth, for the walk of writes.
    let places: UnsafeMutablePointer<Int32>
    /// Number of keys pushed: the depth of the current place.
    private(set) var depth = 0
    private var oldDepth = 0
    private var newDepth = 0

    /// A write that is being decided but not applied to a tree yet. Then `newNodes` holds only nodes from its depth on.
    private var lazyNewTree: LazyNewTree?

    /// Cached nodes of shared paths, by their number.
    let shared: UnsafeMutablePointer<SharedNode>
    /// A stack of strings that expressions computed: each operation pops those of its operands.
    private let scratch: UnsafeMutablePointer<Node>
    private(set) var scratchCount = 0

    /// The last step by a computed key, cached: rules evaluated at many places often repeat it.
    var steppedByValue: (step: Int, from: NodeCursor, name: TextCursor, node: NodeCursor?)?

    /// ms of the last commit at or below the node of an `.expire`; nil if unknown.
    var written: Double?
    /// Metres from the centre of a watch to what it has found; nil without a centre.
    var distance: Double?

    /// The remaining text work, from `RulesLimits.textWork`.
    var textWork: Int

    /// `auth.uid`, cached on first use.
    private var uid: Value?

    /// Whether places with equal values and rules are evaluated once, and the last such place.
    var reusesValidity = false
    var lastValid: ValidPlace?

    /// Records every evaluated rule; nil without a trace.
    var recorder: TraceRecorder?
    /// Collects the `.validate` rules that are not true, so that all are evaluated. Nil for plain decisions, which stop at the first.
    var violations: Violations?
    /// Records every place that is read; nil for decisions without dependencies.
    let dependencies: DependencyRecorder?

    /// The deepest possible rule node, plus one.
    private static let capacity = Path.maxDepth + 1

    /// Runs `body` with an evaluator over the two trees.
    /// - Parameter query: the query of the read; nil for a plain read and for every write.
    static func run<R>(
        _ program: Program, old: Node, new: Node, auth: Node, now: Int64, query: QueryVariables?, recorder: TraceRecorder? = nil,
        dependencies: DependencyRecorder? = nil, _ body: (inout Evaluator) -> R
    ) -> R {
        guard var query else {
            return run(program, old, new, auth, now, QueryVariables.plain, recorder, dependencies, body)
        }
        return withUnsafePointer(to: &query) { run(program, old, new, auth, now, $0, recorder, dependencies, body) }
    }

    /// The inputs are variables, so that each has its own address without a copy in every closure that passes it on.
    private static func run<R>(
        _ program: Program, _ old: Node, _ new: Node, _ auth: Node, _ now: Int64, _ query: UnsafePointer<QueryVariables>,
        _ recorder: TraceRecorder?, _ dependencies: DependencyRecorder?, _ body: (inout Evaluator) -> R
    ) -> R {
        var (old, new, auth) = (old, new, auth)
        return withUnsafePointer(to: &old) { old in
            withUnsafePointer(to: &new) { new in
                withUnsafePointer(to: &auth) { auth in
                    withBuffers(program.tables) { buffers in
                        var evaluator = Evaluator(
                            program: program, auth: NodeCursor(auth), now: Double(now), query: query, buffers: buffers,
                            recorder: recorder, dependencies: dependencies)
                        evaluator.oldNodes.initialize(to: old.pointee.isNull ? nil : NodeCursor(old))
                        evaluator.newNodes.initialize(to: new.pointee.isNull ? nil : NodeCursor(new))
                        let result = body(&evaluator)
                        evaluator.dropScratch(to: 0)
                        return result
                    }
                }
            }
        }
    }

    private struct Buffers {
        let oldNodes: UnsafeMutablePointer<NodeCursor?>
        let newNodes: UnsafeMutablePointer<NodeCursor?>
        let keys: UnsafeMutablePointer<TextCursor>
        let places: UnsafeMutablePointer<Int32>
        let shared: UnsafeMutablePointer<SharedNode>
        let scratch: UnsafeMutablePointer<Node>
    }

    /// Provides the evaluator's buffers on the stack where they fit. Allocations above 1 KiB go to the heap, so the nodes of both trees are
    /// two buffers.
    private static func withBuffers<R>(_ tables: ProgramTables, _ body: (Buffers) -> R) -> R {
        withUnsafeTemporaryAllocation(of: NodeCursor?.self, capacity: capacity) { old in
            withUnsafeTemporaryAllocation(of: NodeCursor?.self, capacity: capacity) { new in
                withUnsafeTemporaryAllocation(of: TextCursor.self, capacity: capacity) { keys in
                    withUnsafeTemporaryAllocation(of: Int32.self, capacity: capacity) { places in
                        withUnsafeTemporaryAllocation(of: SharedNode.self, capacity: tables.sharedPaths.count + 1) { shared in
                            withUnsafeTemporaryAllocation(of: Node.self, capacity: tables.scratchCapacity) { scratch in
                                guard let old = old.baseAddress, let new = new.baseAddress, let keys = keys.baseAddress,
                                    let places = places.baseAddress, let shared = shared.baseAddress, let scratch = scratch.baseAddress
                                else { preconditionFailure("empty stack buffers") }
                                places.initialize(repeating: 0, count: capacity)
                                shared.initialize(repeating: SharedNode(), count: tables.sharedPaths.count)
                                return body(Buffers(
                                    oldNodes: old, newNodes: new, keys: keys, places: places, shared: shared, scratch: scratch))
                            }
                        }
                    }
                }
            }
        }
    }

    private init(
        program: Program, auth: NodeCursor, now: Double, query: UnsafePointer<QueryVariables>, buffers: Buffers, recorder: TraceRecorder?,
        dependencies: DependencyRecorder?
    ) {
        self.program = program
        tables = program.tables
        textWork = program.textWork
        self.auth = auth
        self.now = now
        self.query = query
        keys = buffers.keys
        oldNodes = buffers.oldNodes
        newNodes = buffers.newNodes
        places = buffers.places
        shared = buffers.shared
        scratch = buffers.scratch
        self.recorder = recorder
        self.dependencies = dependencies
    }

    // MARK: The path

    /// Descends one level. The caller ensures that the depth is at most `Path.maxDepth`.
    @inline(__always)
    mutating func push(_ key: TextCursor) {
        keys[depth] = key
        depth &+= 1
    }

    /// Descends one level to a child of the new tree with a known node.
    @inline(__always)
    mutating func push(_ key: TextCursor, newNode: NodeCursor) {
        fill(.new, to: depth)
        push(key)
        newDepth = depth
        newNodes[depth] = newNode
    }

    /// Ascends.
    @inline(__always)
    mutating func pop(to level: Int) {
        oldDepth = min(oldDepth, level)
        newDepth = min(newDepth, level)
        depth = min(depth, level)
    }

    /// Replaces the keys down to the current depth by the equal keys of another path.
    mutating func replaceKeys(by base: UnsafePointer<Key>) {
        for i in 0..<depth { keys[i] = TextCursor(base + i) }
    }

    @inline(__always)
    func key(_ depth: Int) -> TextCursor { keys[depth &- 1] }

    /// The keys from the root down to a depth.
    func path(_ depth: Int) -> [Key] { (0..<depth).map { keys[$0].key } }

    @inline(__always)
    private mutating func fill(_ tree: Tree, to level: Int) {
        if tree == .old {
            while oldDepth < level {
                oldNodes[oldDepth &+ 1] = oldNodes[oldDepth]?.child(keys[oldDepth])
                oldDepth &+= 1
            }
        } else {
            while newDepth < level {
                newNodes[newDepth &+ 1] = newNodes[newDepth]?.child(keys[newDepth])
                newDepth &+= 1
            }
        }
    }

    /// The node at a depth of the path; nil if it does not exist.
    @inline(__always)
    mutating func node(_ tree: Tree, at level: Int) -> NodeCursor? {
        if tree == .new, lazyNewTree != nil { return lazyNode(at: level) }
        fill(tree, to: level)
        return tree == .old ? oldNodes[level] : newNodes[level]
    }

    // MARK: The lazily created new tree

    /// Begins the decision about a write of one value, when `newData` is known only at and below the written place. The new tree is created
    /// when the rules read above it.
    mutating func begin(_ tree: LazyNewTree) {
        // At the root the value is the whole tree.
        if tree.depth == 0 { newNodes[0] = NodeCursor(tree.value) } else { lazyNewTree = tree }
    }

    /// Whether the node of the new tree at a depth of the path exists. Every ancestor of a written value does.
    @inline(__always)
    mutating func existsInNew(at level: Int) -> Bool {
        if let lazyNewTree, level < lazyNewTree.depth { return true }
        return node(.new, at: level) != nil
    }

    @inline(never)
    private mutating func lazyNode(at level: Int) -> NodeCursor? {
        guard let tree = lazyNewTree else { return nil }
        if level < tree.depth {
            newNodes[0] = tree.make()
            newDepth = 0
            lazyNewTree = nil
        } else if newDepth < tree.depth {
            newNodes[tree.depth] = NodeCursor(tree.value)
            newDepth = tree.depth
        }
        fill(.new, to: level)
        return newNodes[level]
    }

    // MARK: Values

    /// The value of a query condition, and of a field of `query`; as for a plain read if the rule does not see the query.
    func queryCondition(_ path: Path) -> Node { seesQuery ? query.pointee.conditions[path] ?? .null : .null }

    func queryValue(_ field: QueryField) -> Node { seesQuery ? query.pointee.value(field) : QueryVariables.none.value(field) }

    @inline(__always)
    mutating func authUID() -> Value {
        if let uid { return uid }
        let value = withUnsafePointer(to: Self.uidKey) { auth.child(TextCursor($0)) }.map { Value($0) } ?? .null
        uid = value
        return value
    }

    private static let uidKey = Key("uid")

    @inline(__always)
    mutating func value(of cursor: NodeCursor?) -> Value {
        guard let cursor else { return .null }
        if case .prioritized = cursor.kind { return keep(cursor.leaf) }
        return Value(cursor)
    }

    /// Keeps a computed value until the operation that uses it has finished.
    mutating func keep(_ node: Node) -> Value {
        assert(scratchCount < tables.scratchCapacity, "an expression holds more strings than its nesting allows")
        (scratch + scratchCount).initialize(to: node)
        scratchCount += 1
        return Value(NodeCursor(scratch + scratchCount - 1))
    }

    @inline(__always)
    mutating func dropScratch(to count: Int) {
        while scratchCount > count {
            scratchCount -= 1
            (scratch + scratchCount).deinitialize(count: 1)
        }
    }
}
