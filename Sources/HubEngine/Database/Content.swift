import Journal
import JSONTree
import SecurityRules
import Synchronization

/// The current state of a database: its tree, the number of the last commit, and the rules in force.
///
/// Confined to the database queue, but for `publishedRules`. Changed by the commit line, by rollback and by a deploy of rules only.
final class Content {
    private(set) var root: Node
    /// When nodes were last written, where the rules ask.
    private(set) var written: WrittenTimes
    /// Number of the last commit.
    private(set) var sequence: UInt64
    private(set) var rules: RuleSet
    /// Number of the rules in force; each deploy counts.
    private(set) var rulesNumber = 0
    private let published: Mutex<RuleSet>

    init(root: Node, sequence: UInt64, written: WrittenTimes = WrittenTimes(), rules: RuleSet) {
        self.root = root
        self.written = written
        self.sequence = sequence
        self.rules = rules
        published = Mutex(rules)
    }

    /// The rules in force, from any thread.
    var publishedRules: RuleSet { published.withLock { $0 } }

    /// Makes a tree the one of now, as the next commit.
    /// - Returns: the tree before.
    func install(_ candidate: Node) -> Node {
        let old = root
        root = candidate
        sequence += 1
        return old
    }

    /// Installs the tree of a commit and its number.
    /// - Returns: the tree before.
    func install(_ candidate: Node, as sequence: UInt64) -> Node {
        let old = root
        (root, self.sequence) = (candidate, sequence)
        return old
    }

    /// The number of a commit that leaves the tree as it is.
    func skip() -> UInt64 {
        sequence += 1
        return sequence
    }

    /// Takes over what operations say about times.
    func note(_ operations: some Sequence<JournalOperation>) {
        for operation in operations { written.apply(operation) }
    }

    /// Goes back to what is durable.
    /// - Returns: the tree before.
    func rollBack(to durable: (root: Node, sequence: UInt64, written: WrittenTimes)) -> Node {
        let before = root
        (root, sequence, written) = durable
        return before
    }

    func deploy(_ rules: RuleSet) {
        self.rules = rules
        rulesNumber += 1
        published.withLock { $0 = rules }
    }
}
