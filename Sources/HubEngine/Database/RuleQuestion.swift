import Dispatch
public import JSONTree
import LiveQueries
public import SecurityRules

/// One operation with everything that the rules' decision about it depends on. Immutable, so that the decision can be explained on
/// any queue while the database continues.
public struct RuleQuestion: Sendable {
    public enum Operation: Sendable {
        /// A get, a listen or a query.
        case read(Path, QueryVariables)
        /// A count of children, once or live.
        case count(Path, QueryVariables)
        /// A set, a removal, or each place of an update.
        case write([Path])
    }

    public let operation: Operation
    /// Places that are written besides, and that only `.validate` is asked about.
    public var added: [Path] = []
    /// Whether `.write` and `.validate` are asked about the operation: not about an administrator's, of which only the consequences are
    /// in question.
    public var isRuled = true
    /// Whether it is one of the hub itself, of which `.validate` alone is asked; and why it cannot be made at all.
    public var isOfHub = false
    public var fault: ConsequenceFault?
    /// The limits of what follows from a write; nil where nothing does.
    public var consequences: ConsequenceLimits?
    /// The budget that a write was over, so that no rule was asked; nil for all others.
    public var budget: String?
    public let rules: RuleSet
    /// The tree before and, for writes, after the operation with server values filled in.
    public let old: Node
    public let new: Node
    public let auth: Node
    /// ms since the epoch.
    public let now: Int64

    /// The failure of a write that the rules refuse, with what they say to its client.
    var refusal: Failure {
        guard case .write(let locations) = operation else { return .permissionDenied }
        var failure = Failure.permissionDenied
        failure.ruleMessages = rules.messages(ofRefused: locations, validating: added, old: old, new: new, auth: auth, now: now)
        return failure
    }

    /// Whether the place of the operation is found by its position, as a child of a place with `.geoIndex`, and why not; nil for others,
    /// and where nothing is.
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

    /// Decides again and tells how. Costs many times what the decision does: not for the database queue.
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
    /// A write by somebody who writes too often.
    case overBudget = "write over budget"
}

/// Receives the requests that the rules refuse. Called on the database queue.
public protocol RefusalListener: Sendable {
    /// Whether to report the next refusal. Called for each refusal, so it must be cheap.
    /// - Parameter now: ms since the epoch.
    func wantsRefusal(now: Int64) -> Bool
    func refused(_ request: RuledRequest, _ question: RuleQuestion)
}

/// Tells the listener of refusals, if there is one and it wants to know. Confined to the database queue.
final class RefusalReports {
    private let context: EngineContext
    private let content: Content
    private let listener: (any RefusalListener)?

    /// - Parameter listener: nil when refusals are not reported.
    init(_ context: EngineContext, _ content: Content, _ listener: (any RefusalListener)?) {
        self.context = context
        self.content = content
        self.listener = listener
    }

    /// - Parameters:
    ///   - path: the place, for writes of several the first.
    ///   - question: asked for when the listener wants it, with the time of now.
    func report<E: Error>(_ request: RuledRequest, of path: Path, _ question: (Int64) throws(E) -> RuleQuestion) throws(E) {
        context.meter.refusals.add(request, path, content.rules)
        guard let listener else { return }
        let now = context.clock()
        if listener.wantsRefusal(now: now) { listener.refused(request, try question(now)) }
    }

    /// A read of the content of now, or a count of it.
    func report(_ request: RuledRequest, readOf path: Path, _ query: ChildQuery?, _ identity: Identity, isCount: Bool = false) {
        report(request, of: path) { now in
            let asked = query.map(QueryVariables.init) ?? .none
            return RuleQuestion(
                operation: isCount ? .count(path, asked) : .read(path, asked), rules: content.rules, old: content.root, new: content.root,
                auth: identity.auth, now: now)
        }
    }
}

extension Database {
    /// How the rules would decide a read of the content as it is now, or a count. Changes nothing.
    /// - Parameters:
    ///   - auth: what `auth` is in the rules; null when signed out.
    ///   - now: ms since the epoch; nil for the database's own time.
    ///   - done: called on the database queue, with what any other queue can explain.
    public func pose(
        readOf path: Path, query: QueryVariables, isCount: Bool = false, auth: Node, now: Int64?,
        _ done: @escaping @Sendable (RuleQuestion) -> Void
    ) {
        queue.async { [engine] in
            let (rules, root) = (engine.content.rules, engine.content.root)
            done(RuleQuestion(
                operation: isCount ? .count(path, query) : .read(path, query), rules: rules, old: root, new: root, auth: auth,
                now: now ?? engine.context.clock()))
        }
    }

    /// The same for writes of one commit. Writes that the tree cannot hold are refused, also where the rules allow them. They may be many:
    /// they are made beside the queue.
    /// - Parameter done: called on any queue.
    public func pose(
        _ writes: [TreeWrite], auth: Node, now: Int64?, _ done: @escaping @Sendable (Result<RuleQuestion, Failure>) -> Void
    ) {
        queue.async { [engine] in
            let (rules, root, now) = (engine.content.rules, engine.content.root, now ?? engine.context.clock())
            let (origin, limits) = (WriteOrigin.client(Identity(auth: auth)), engine.context.limits.consequences)
            engine.context.background.run(.upkeep) {
                do throws(Failure) {
                    let candidate = try Candidate(writes, on: root, now: now, shaping: WriteShaping(rules, origin))
                    var question = WritePermission(rules: rules, origin: origin).question(candidate)
                    question.consequences = limits
                    done(.success(question))
                } catch { done(.failure(error)) }
            }
        }
    }
}
