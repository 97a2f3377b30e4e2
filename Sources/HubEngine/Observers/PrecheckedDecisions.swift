import JSONTree
import SecurityRules

/// Read decisions for observers whose permission depends on a commit's writes. Computed off the queue, on the tree after the commit.
///
/// A decision is reused on another tree if the rules, the identity and the places that it depends on are the same there.
struct PrecheckedDecisions: Sendable {
    /// The input: observers, each with the identity that its client has now.
    struct Input: Sendable {
        let dependents: [(dependent: Dependent, auth: Node)]
        let tree: Node
        let rules: RuleSet
        let rulesNumber: Int
        /// ms since the epoch.
        let now: Int64
        /// Number of prechecks for the same request so far.
        let round: Int
    }

    private struct Decision {
        let auth: Node
        let read: ReadDecision
        /// Retained so that its `ObjectIdentifier` is not reused.
        let dependent: Dependent
    }

    private var decisions: [ObjectIdentifier: Decision] = [:]
    private let tree: Node
    private let rulesNumber: Int
    /// Number of prechecks for the same request so far.
    let round: Int
    /// Whether places are the same in `comparedTree`, as far as compared.
    private var sameness: [Path: Bool] = [:]
    private var comparedTree: Node

    /// Evaluates the rules. On any thread. O(observers)
    init(_ question: Input) {
        (tree, comparedTree) = (question.tree, question.tree)
        (rulesNumber, round) = (question.rulesNumber, question.round)
        decisions.reserveCapacity(question.dependents.count)
        for (dependent, auth) in question.dependents {
            let observation = dependent.observation
            let read = question.rules.decide(observation, root: tree, auth: auth, now: question.now)
            decisions[ObjectIdentifier(dependent)] = Decision(auth: auth, read: read, dependent: dependent)
        }
    }

    /// The decision on an observer, if it holds on this tree. On the database queue. O(places that it depends on)
    /// - Parameter number: number of the rules in force.
    mutating func decision(on dependent: Dependent, in root: Node, rules number: Int) -> ReadDecision? {
        guard number == rulesNumber, let known = decisions[ObjectIdentifier(dependent)], known.auth == dependent.client.identity.auth
        else { return nil }
        if root.isIdentical(to: tree) { return known.read }
        if !root.isIdentical(to: comparedTree) { (sameness, comparedTree) = ([:], root) }
        let holds = known.read.dependencies.allSatisfy { looksSame($0) }
            && known.read.subtreeDependencies.allSatisfy { tree.node(at: $0).isIdentical(to: root.node(at: $0)) }
        return holds ? known.read : nil
    }

    /// Compares each place once, since most observers depend on the same places.
    private mutating func looksSame(_ place: Path) -> Bool {
        if let known = sameness[place] { return known }
        let isSame = tree.node(at: place).hasSameSurface(as: comparedTree.node(at: place))
        sameness[place] = isSame
        return isSame
    }
}
