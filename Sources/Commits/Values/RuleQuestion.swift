public import JSONTree
import LiveQueries
public import SecurityRules

/// One operation with everything that the rules' decision about it depends on. Immutable, so the decision can be explained on any queue
/// while the database continues.
public struct RuleQuestion: Sendable {
    public enum Operation: Sendable {
        /// A get, a listen or a query.
        case read(Path, QueryVariables)
        /// A count of children, once or live.
        case count(Path, QueryVariables)
        /// A set, a removal, or the paths of an update.
        case write([Path])
    }

    public let operation: Operation
    /// Further paths written, for which only `.validate` is evaluated.
    public var added: [Path] = []
    /// Whether `.write` and `.validate` are evaluated. False for administrators, where only the consequences are in question.
    public var isRuled = true
    /// Whether the hub itself writes, so that only `.validate` is evaluated; and why the write is impossible, if it is.
    public var isOfHub = false
    public var fault: ConsequenceFault?
    /// The limits of a write's consequences; nil where it has none.
    public var consequences: ConsequenceLimits?
    /// The budget that a write exceeded, so that no rule was evaluated; nil for all others.
    public var budget: String?
    public let rules: RuleSet
    /// The tree before and, for writes, after the operation with server values filled in.
    public let old: Node
    public let new: Node
    public let auth: Node
    /// ms since the epoch.
    public let now: Int64

    package init(
        operation: Operation, added: [Path] = [], isRuled: Bool = true, isOfHub: Bool = false, fault: ConsequenceFault? = nil,
        consequences: ConsequenceLimits? = nil, budget: String? = nil, rules: RuleSet, old: Node, new: Node, auth: Node, now: Int64
    ) {
        self.operation = operation
        self.added = added
        self.isRuled = isRuled
        self.isOfHub = isOfHub
        self.fault = fault
        self.consequences = consequences
        self.budget = budget
        self.rules = rules
        self.old = old
        self.new = new
        self.auth = auth
        self.now = now
    }

    /// The failure of a write that the rules refuse, with the rules' messages to the client.
    package var refusal: Failure {
        guard case .write(let locations) = operation else { return .permissionDenied }
        var failure = Failure.permissionDenied
        failure.ruleMessages = rules.messages(ofRefused: locations, validating: added, old: old, new: new, auth: auth, now: now)
        return failure
    }

    /// For a child of a path with `.geoIndex`: whether it can be found by its position, and if not, why. Nil for other paths, and if there
    /// is no node.
    public var position: String? {
        let path: Path? =
            switch operation {
            case .read(let path, _), .count(let path, _): path
            case .write(let paths): paths.count == 1 ? paths[0] : nil
            }
        guard let path, !path.isRoot, let fields = rules.geoFields(at: path.parent) else { return nil }
        let node = new.node(at: path)
        return node.exists ? fields.position(of: node).description : nil
    }

    /// Decides again and explains each step. Costs many times as much as the decision: not for the database queue.
    public func explained() -> RuleTrace {
        switch operation {
        case .read(let path, let query): rules.explainRead(path, root: old, auth: auth, now: now, query: query)
        case .count(let path, let query): rules.explainCount(path, root: old, auth: auth, now: now, query: query)
        case .write(let locations) where isOfHub && (fault != nil || consequences == nil):
            rules.explainSystemWrite(locations, old: old, new: new, now: now, fault: fault)
        case .write(let locations) where isRuled:
            rules.explainWrite(
                locations, validating: added, old: old, new: new, auth: auth, now: now, following: consequences)
        case .write(let locations):
            rules.explainConsequences(
                of: locations + added, old: old, new: new, now: now, by: .administrator, limits: consequences ?? ConsequenceLimits())
        }
    }
}

/// The kind of request that the rules refused.
public enum RuledRequest: String, Sendable {
    case get, listen, write, onDisconnect
    /// A listen that was allowed until the rules, the data or the client's identity changed.
    case cancelledListen = "cancelled listen"
    /// A write over the user's write rate.
    case overBudget = "write over budget"
}

/// Receives the requests that the rules refuse. Called on the database queue.
public protocol RefusalListener: Sendable {
    /// Whether to report the next refusal. Called for each refusal, so it must be cheap.
    /// - Parameter now: ms since the epoch.
    func wantsRefusal(now: Int64) -> Bool
    func refused(_ request: RuledRequest, _ question: RuleQuestion)
}
