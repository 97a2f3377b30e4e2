public import JSONTree
public import SecurityRules

extension Database {
    /// How the rules would decide a read or count of the current content. Changes nothing.
    /// - Parameters:
    ///   - auth: the rules' `auth` variable; null when signed out.
    ///   - now: ms since the epoch; nil for the database's own time.
    ///   - done: called on the database queue; the question can be explained on any queue.
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

    /// How the rules would decide the writes of one commit. Writes that the tree cannot hold fail even if the rules allow them. There may
    /// be many, so they are applied in the background.
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
