import JSONTree
import SecurityRules

/// What the rules will say to observers once a commit is made, found out off the queue on the tree that it will make.
///
/// A decision holds on any other tree in which the places that it rests on look the same, for the same rules and identity.
struct Foresight: Sendable {
    /// What is to be found out: of each observer who it is for.
    struct Question: Sendable {
        let dependents: [(dependent: Dependent, auth: Node)]
        let tree: Node
        let rules: RuleSet
        let rulesNumber: Int
        /// ms since the epoch.
        let now: Int64
        /// How often it is asked for one request.
        let round: Int
    }

    private struct Decision {
        let auth: Node
        let read: ReadDecision
        /// Keeps its identity from being used again.
        let dependent: Dependent
    }

    private var decisions: [ObjectIdentifier: Decision] = [:]
    private let tree: Node
    private let rulesNumber: Int
    /// How often it has been asked for one request.
    let round: Int
    /// Whether places look the same in another tree, as far as they were compared, and that tree.
    private var sameness: [Path: Bool] = [:]
    private var comparedTree: Node

    /// Asks the rules. On any thread. O(observers)
    init(_ question: Question) {
        (tree, comparedTree) = (question.tree, question.tree)
        (rulesNumber, round) = (question.rulesNumber, question.round)
        decisions.reserveCapacity(question.dependents.count)
        for (dependent, auth) in question.dependents {
            let observation = dependent.observation
            let read = question.rules.decide(observation, root: tree, auth: auth, now: question.now)
            decisions[ObjectIdentifier(dependent)] = Decision(auth: auth, read: read, dependent: dependent)
        }
    }

    /// The decision on an observer, if it holds on a tree. On the database queue. O(places that it rests on)
    /// - Parameter number: of the rules in force.
    mutating func decision(on dependent: Dependent, in root: Node, rules number: Int) -> ReadDecision? {
        guard number == rulesNumber, let known = decisions[ObjectIdentifier(dependent)], known.auth == dependent.client.identity.auth
        else { return nil }
        if root.isIdentical(to: tree) { return known.read }
        if !root.isIdentical(to: comparedTree) { (sameness, comparedTree) = ([:], root) }
        let holds = known.read.dependencies.allSatisfy { looksSame($0) }
            && known.read.wholes.allSatisfy { tree.node(at: $0).isIdentical(to: root.node(at: $0)) }
        return holds ? known.read : nil
    }

    /// Most observers rest on the same places: each is compared once.
    private mutating func looksSame(_ place: Path) -> Bool {
        if let known = sameness[place] { return known }
        let isSame = tree.node(at: place).hasSameSurface(as: comparedTree.node(at: place))
        sameness[place] = isSame
        return isSame
    }
}
