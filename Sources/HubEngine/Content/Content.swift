import Journal
import JSONTree
import SecurityRules
import Synchronization

/// The current state of a database: its tree, the number of the last commit, and the rules in force.
///
/// Confined to the database queue, except `publishedRules`. Only `CommitPipeline`, `Rollback` and a deploy of rules change it.
final class Content {
    /// The part that commits change.
    struct State {
        var root = Node.null
        /// Number of the last commit.
        var sequence: UInt64 = 0
        var beside = StateBesideTree()
    }

    private(set) var state: State
    private(set) var rules: RuleSet
    /// Number of the rules in force, incremented by each deploy.
    private(set) var rulesNumber = 0
    private let published: Mutex<RuleSet>

    init(_ state: State, rules: RuleSet) {
        self.state = state
        self.rules = rules
        published = Mutex(rules)
    }

    var root: Node { state.root }
    var sequence: UInt64 { state.sequence }
    var written: WrittenTimes { state.beside.written }
    var pendingRows: PendingInboxRows { state.beside.pendingRows }
    var watchHits: WatchHits { state.beside.watchHits }
    var peers: PeerRequests { state.beside.peers }
    var deliveries: PendingDeliveries { state.beside.deliveries }

    /// The rules in force, from any thread.
    var publishedRules: RuleSet { published.withLock { $0 } }

    /// Makes a candidate the current tree, as the next commit.
    /// - Returns: the previous tree.
    func install(_ candidate: Node) -> Node {
        let old = root
        state.root = candidate
        state.sequence += 1
        return old
    }

    /// Writes a value to the current tree, as the next commit. Pages that nothing else holds are changed in place.
    func write(_ value: Node, at path: Path) {
        state.root.set(value, at: path)
        state.sequence += 1
    }

    /// Installs the tree and the number of a commit.
    /// - Returns: the previous tree.
    func install(_ candidate: Node, as sequence: UInt64) -> Node {
        let old = root
        (state.root, state.sequence) = (candidate, sequence)
        return old
    }

    /// The number of a commit that does not change the tree.
    func skip() -> UInt64 {
        state.sequence += 1
        return state.sequence
    }

    /// Applies the operations of the last commit that concern state outside the tree.
    func apply(_ operations: some Sequence<JournalOperation>) {
        for operation in operations { state.beside.apply(operation, in: state.root) }
    }

    /// Goes back to the durable state.
    /// - Returns: the tree before.
    func rollBack(to durable: State) -> Node {
        let before = root
        state = durable
        return before
    }

    func deploy(_ rules: RuleSet) {
        self.rules = rules
        rulesNumber += 1
        published.withLock { $0 = rules }
    }
}
