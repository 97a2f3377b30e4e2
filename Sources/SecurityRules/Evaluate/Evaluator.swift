import JSONTree

/// Evaluates rules for one operation. Everything an expression can ask is fixed while it lives: both trees, `auth`, `now`,
/// `query`, and the keys of the path being walked.
///
///     depth       0        1          2          3
///     keys            users-follow    ada       danae            pushed by the walk; a wildcard at depth d is keys[d - 1]
///     old tree   node     node       node       node             filled on demand: data, root
///     new tree   node     node       node       node             filled on demand: newData
///
/// Lives on the stack of one call, in buffers of fixed size: no allocation on the usual path.
struct Evaluator: ~Copyable {
    let program: Program
    let tables: ProgramTables
    let auth: Node
    let now: Node
    let query: UnsafePointer<QueryVariables>

    private let keys: UnsafeMutablePointer<Key>
    private let oldNodes: UnsafeMutablePointer<Node>
    private let newNodes: UnsafeMutablePointer<Node>
    /// Rule nodes by depth, for the walk of writes.
    let places: UnsafeMutablePointer<Int32>
    /// Keys pushed; the depth of the place being looked at.
    private(set) var depth = 0
    private var oldDepth = 0
    private var newDepth = 0

    /// `auth.uid`, once somebody asked.
    private var uid: Node?

    /// Notes every rule that is evaluated, when somebody wants to know why.
    var recorder: TraceRecorder?

    /// Deepest place at which a rule can stand.
    private static let capacity = Path.maxDepth + 1

    /// Runs `body` with an evaluator over the two trees.
    static func run<R>(
        _ program: Program, old: Node, new: Node, auth: Node, now: Int64, query: QueryVariables, recorder: TraceRecorder? = nil,
        _ body: (inout Evaluator) -> R
    ) -> R {
        withUnsafePointer(to: query) { query in
            withUnsafeTemporaryAllocation(of: Node.self, capacity: capacity * 2) { nodes in
                withUnsafeTemporaryAllocation(of: Key.self, capacity: capacity) { keys in
                    withUnsafeTemporaryAllocation(of: Int32.self, capacity: capacity) { places in
                        guard let nodes = nodes.baseAddress, let keys = keys.baseAddress, let places = places.baseAddress else {
                            preconditionFailure("empty stack buffers")
                        }
                        var evaluator = Evaluator(
                            program: program, auth: auth, now: .int(now), query: query, keys: keys, oldNodes: nodes,
                            newNodes: nodes + capacity, places: places, recorder: recorder)
                        evaluator.oldNodes.initialize(to: old)
                        evaluator.newNodes.initialize(to: new)
                        places.initialize(repeating: 0, count: capacity)
                        let result = body(&evaluator)
                        evaluator.release()
                        return result
                    }
                }
            }
        }
    }

    private init(
        program: Program, auth: Node, now: Node, query: UnsafePointer<QueryVariables>, keys: UnsafeMutablePointer<Key>,
        oldNodes: UnsafeMutablePointer<Node>, newNodes: UnsafeMutablePointer<Node>, places: UnsafeMutablePointer<Int32>, recorder: TraceRecorder?
    ) {
        self.program = program
        tables = program.tables
        self.auth = auth
        self.now = now
        self.query = query
        self.keys = keys
        self.oldNodes = oldNodes
        self.newNodes = newNodes
        self.places = places
        self.recorder = recorder
    }

    private mutating func release() {
        pop(to: 0)
        oldNodes.deinitialize(count: 1)
        newNodes.deinitialize(count: 1)
    }

    // MARK: The path

    /// Goes one level down. The caller keeps to the depth of the rules, which is at most `Path.maxDepth`.
    @inline(__always)
    mutating func push(_ key: Key) {
        (keys + depth).initialize(to: key)
        depth &+= 1
    }

    /// Goes one level down to a child of the new tree that is at hand.
    @inline(__always)
    mutating func push(_ key: Key, newNode: Node) {
        fill(.new, to: depth)
        push(key)
        newDepth = depth
        (newNodes + depth).initialize(to: newNode)
    }

    /// Goes up again.
    mutating func pop(to level: Int) {
        while oldDepth > level {
            (oldNodes + oldDepth).deinitialize(count: 1)
            oldDepth &-= 1
        }
        while newDepth > level {
            (newNodes + newDepth).deinitialize(count: 1)
            newDepth &-= 1
        }
        while depth > level {
            depth &-= 1
            (keys + depth).deinitialize(count: 1)
        }
    }

    @inline(__always)
    func key(_ depth: Int) -> Key { keys[depth &- 1] }

    /// The keys from the root down to a depth.
    func path(_ depth: Int) -> [Key] { (0..<depth).map { keys[$0] } }

    @inline(__always)
    private mutating func fill(_ tree: Tree, to level: Int) {
        if tree == .old {
            while oldDepth < level {
                (oldNodes + oldDepth + 1).initialize(to: oldNodes[oldDepth].child(keys[oldDepth]))
                oldDepth &+= 1
            }
        } else {
            while newDepth < level {
                (newNodes + newDepth + 1).initialize(to: newNodes[newDepth].child(keys[newDepth]))
                newDepth &+= 1
            }
        }
    }

    /// The node at a depth of the path.
    @inline(__always)
    mutating func node(_ tree: Tree, at level: Int) -> Node {
        fill(tree, to: level)
        return tree == .old ? oldNodes[level] : newNodes[level]
    }

    /// Whether the path has a value in the new tree where the walk stands.
    @inline(__always)
    mutating func newExists() -> Bool {
        fill(.new, to: depth)
        if case .null = newNodes[depth] { return false }
        return true
    }

    /// `auth.uid`.
    @inline(__always)
    mutating func authUID() -> Node {
        if let uid { return uid }
        let value = auth.child("uid").leaf
        uid = value
        return value
    }
}
