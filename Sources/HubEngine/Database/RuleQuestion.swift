import Dispatch
public import JSONTree
public import SecurityRules

/// One operation as the rules saw it, or would see it: everything that the decision rests on. Immutable, so that why it came
/// out as it did can be found on any queue, while the database goes on.
public struct RuleQuestion: Sendable {
    public enum Operation: Sendable {
        /// A get, a listen or a query.
        case read(Path, QueryVariables)
        /// A set, a removal, or each place of an update.
        case write([Path])
    }

    public let operation: Operation
    public let rules: RuleSet
    /// The tree before and, for writes, after the operation with server values filled in.
    public let old: Node
    public let new: Node
    public let auth: Node
    /// ms since the epoch.
    public let now: Int64

    /// Decides again and tells how. Costs many times what the decision does: not for the database queue.
    public func explained() -> RuleTrace {
        switch operation {
        case .read(let path, let query): rules.explainRead(path, root: old, auth: auth, now: now, query: query)
        case .write(let locations): rules.explainWrite(locations, old: old, new: new, auth: auth, now: now)
        }
    }
}

/// What a client wanted when the rules refused it.
public enum RuledRequest: String, Sendable {
    case get, listen, write, onDisconnect
    /// A listen that was allowed until the rules, the data or the client's identity changed.
    case cancelledListen = "cancelled listen"
}

/// Hears of what the rules refuse. Called on the database queue.
public protocol RefusalListener: Sendable {
    /// Whether the next refusal is to be told; asked for each, so it costs next to nothing.
    /// - Parameter now: ms since the epoch.
    func wantsRefusal(now: Int64) -> Bool
    func refused(_ request: RuledRequest, _ question: RuleQuestion)
}

extension Core {
    /// Tells the listener of a refusal, if it wants to know.
    func note(_ request: RuledRequest, _ question: (Int64) -> RuleQuestion) {
        guard let refusals else { return }
        let now = clock()
        if refusals.wantsRefusal(now: now) { refusals.refused(request, question(now)) }
    }

    func question(_ path: Path, _ query: TreeQuery?, _ auth: Node, now: Int64) -> RuleQuestion {
        RuleQuestion(
            operation: .read(path, query.map(QueryVariables.init) ?? .none), rules: rules, old: root, new: root, auth: auth, now: now)
    }
}

extension Database {
    /// How the rules would decide a read of the content as it is now. Changes nothing.
    /// - Parameters:
    ///   - auth: what `auth` is in the rules; null for nobody.
    ///   - now: ms since the epoch; nil for the database's own time.
    ///   - done: called on the database queue, with what any other queue can explain.
    public func pose(
        readOf path: Path, query: QueryVariables, auth: Node, now: Int64?, _ done: @escaping @Sendable (RuleQuestion) -> Void
    ) {
        queue.async { [core] in
            done(RuleQuestion(
                operation: .read(path, query), rules: core.rules, old: core.root, new: core.root, auth: auth, now: now ?? core.clock()))
        }
    }

    /// The same for writes that are made as one. Refused are those that the tree cannot hold, whatever the rules say.
    public func pose(
        _ writes: [TreeWrite], auth: Node, now: Int64?, _ done: @escaping @Sendable (Result<RuleQuestion, Failure>) -> Void
    ) {
        queue.async { [core] in
            let now = now ?? core.clock()
            do throws(Failure) {
                let candidate = try core.candidate(writes, now: now)
                done(.success(RuleQuestion(
                    operation: .write(writes.map(\.path)), rules: core.rules, old: core.root, new: candidate, auth: auth, now: now)))
            } catch { done(.failure(error)) }
        }
    }
}
