public import JSONTree

/// The security rules of one database: which callers may read and write each place, and which values are valid there.
///
///     text ──parse──► nodes and expressions ──check──► terms ──compile──► flat instructions ──evaluate──► allowed or not
///
/// Immutable: a deploy replaces the whole set. Evaluation works on the trees as they are and usually allocates nothing. It costs the depth
/// of the place plus, for writes, the size of the written data (rules contract §13).
public struct RuleSet: Sendable {
    /// The contents of a set in one object, so that passing a set with every request is cheap.
    private final class File: Sendable {
        let text: String
        let unsupported: [RuleError]
        let program: Program

        init(_ text: String, _ program: Program, _ unsupported: [RuleError] = []) {
            (self.text, self.program, self.unsupported) = (text, program, unsupported)
        }
    }

    private let file: File

    /// The text of the file, comments and layout included.
    public var text: String { file.text }
    /// Keys of the text that this version does not implement. Only `init(inForce:)` leaves any.
    public var unsupported: [RuleError] { file.unsupported }
    var program: Program { file.program }

    /// Largest rules file in bytes of UTF-8.
    public static let maxBytes = RulesLimits.fileBytes

    /// Parses and checks a rules file.
    /// - Throws: all its faults, in the order of the text; at most one per expression.
    public init(parsing text: String) throws(RulesErrors) {
        let (program, unsupported) = try RulesCompiler.compile(text)
        file = File(text, program, unsupported)
    }

    /// The rules of a text that an earlier version accepted. Unsupported keys are ignored and listed in `unsupported`, so that a hub starts
    /// with its previous access rules.
    public init(inForce text: String) throws(RulesErrors) {
        let (program, unsupported) = try RulesCompiler.compile(text, keepsUnsupported: true)
        file = File(text, program, unsupported)
    }

    /// Parses with bounds other than those of `RulesLimits`, for tests.
    init(
        parsing text: String, textWork: Int = RulesLimits.textWork, functionParts: Int = RulesLimits.functionParts
    ) throws(RulesErrors) {
        let (program, unsupported) = try RulesCompiler.compile(text, textWork: textWork, functionParts: functionParts)
        file = File(text, program, unsupported)
    }

    private init(text: String, granting: Bool) {
        var builder = ProgramBuilder()
        builder.addRoot(granting: granting)
        file = File(text, Program(builder))
    }

    /// Refuses everything: the default without a rules file.
    public static let denyAll = RuleSet(text: "{\"rules\":{}}", granting: false)
    /// Allows everything: the default of development mode without a rules file.
    public static let allowAll = RuleSet(text: "{\"rules\":{\".read\":true,\".write\":true}}", granting: true)

    // MARK: Decisions

    /// Whether a `.read` rule from the root down to the path is true (rules contract §10.1).
    /// - Parameters:
    ///   - root: the stored tree.
    ///   - auth: `.null` when signed out, else an object of `uid`, `provider` and `token`.
    ///   - now: ms since the epoch.
    public func allowsRead(_ path: Path, root: Node, auth: Node, now: Int64, query: QueryVariables? = nil) -> Bool {
        Evaluator.run(program, old: root, new: root, auth: auth, now: now, query: query) { $0.grantsRead(path) }
    }

    /// Whether every written location is granted by a `.write` on its own chain and passes its `.validate` rules. All rules see one merged
    /// tree (rules contract §10.2, §10.3). An empty list of locations is allowed.
    /// - Parameters:
    ///   - locations: the target of a set or removal, or each path of a multi-path update.
    ///   - old: the tree before the write: `data` and `root`.
    ///   - new: the tree after the write, with server values resolved: `newData`.
    ///   - auth: `.null` when signed out, else an object of `uid`, `provider` and `token`.
    ///   - now: ms since the epoch, equal to the server timestamps of the write.
    public func allowsWrite(
        _ locations: [Path], old: Node, new: Node, auth: Node, now: Int64, query: QueryVariables? = nil
    ) -> Bool {
        Evaluator.run(program, old: old, new: new, auth: auth, now: now, query: query) { $0.allowsWrite(locations) }
    }

    /// Decides with a smaller budget of text work than `textWork`.
    /// - Parameters:
    ///   - added: additional written places for which only `.validate` is evaluated.
    ///   - work: the budget; the work done is subtracted.
    public func allowsWrite(
        _ locations: [Path], validating added: [Path] = [], old: Node, new: Node, auth: Node, now: Int64, textWork work: inout Int
    ) -> Bool {
        Evaluator.run(program, old: old, new: new, auth: auth, now: now, query: nil) { evaluator in
            let most = min(work, program.textWork)
            evaluator.textWork = most
            let isAllowed = evaluator.allowsWrite(locations, validating: added)
            work -= most - evaluator.textWork
            return isAllowed
        }
    }

    /// The budget of text work of one operation (`RulesLimits.textWork`).
    public var textWork: Int { program.textWork }

    /// Decides like `allowsRead`, with a trace.
    public func explainRead(_ path: Path, root: Node, auth: Node, now: Int64, query: QueryVariables? = nil) -> RuleTrace {
        let recorder = TraceRecorder(self)
        let isAllowed = Evaluator.run(program, old: root, new: root, auth: auth, now: now, query: query, recorder: recorder) {
            $0.grantsRead(path)
        }
        return RuleTrace(operation: .read(path), isAllowed: isAllowed, steps: recorder.steps)
    }

    /// Decides like `allowsWrite`, with a trace; rules that several locations share appear once.
    /// - Parameter limits: the bounds of the consequences, to compute and decide about them as well; nil for the write alone.
    public func explainWrite(
        _ locations: [Path], validating added: [Path] = [], old: Node, new: Node, auth: Node, now: Int64, query: QueryVariables? = nil,
        following limits: ConsequenceLimits? = nil
    ) -> RuleTrace {
        let recorder = TraceRecorder(self)
        let isAllowed = Evaluator.run(program, old: old, new: new, auth: auth, now: now, query: query, recorder: recorder) {
            $0.allowsWrite(locations, validating: added)
        }
        var trace = RuleTrace(operation: .write(locations), isAllowed: isAllowed, steps: recorder.steps)
        trace.add(countedRates(locations))
        guard trace.isAllowed, let limits else { return trace }
        follow(&trace, of: locations + added, old: old, new: new, now: now, .client, limits)
        return trace
    }

    /// Decides about writes by the hub, for which only `.validate` is evaluated, with a trace.
    /// - Parameter fault: why the writes are impossible; nil if they are not.
    public func explainSystemWrite(_ locations: [Path], old: Node, new: Node, now: Int64, fault: ConsequenceFault?) -> RuleTrace {
        let recorder = TraceRecorder(self)
        let isValid = fault == nil && isValidSystemWrite(locations, old: old, new: new, now: now, recorder)
        var trace = RuleTrace(operation: .write(locations), isAllowed: isValid, steps: recorder.steps)
        if let fault { trace.add(fault) }
        return trace
    }

    /// Whether `.validate` allows writes by the hub.
    public func isValidSystemWrite(_ locations: [Path], old: Node, new: Node, now: Int64) -> Bool {
        isValidSystemWrite(locations, old: old, new: new, now: now, nil)
    }

    private func isValidSystemWrite(_ locations: [Path], old: Node, new: Node, now: Int64, _ recorder: TraceRecorder?) -> Bool {
        Evaluator.run(program, old: old, new: new, auth: Self.hubAuth, now: now, query: nil, recorder: recorder) {
            $0.areValid(locations)
        }
    }

    /// Computes and decides about the consequences of writes that need no permission, with a trace.
    public func explainConsequences(
        of locations: [Path], old: Node, new: Node, now: Int64, by author: ConsequenceAuthor, limits: ConsequenceLimits
    ) -> RuleTrace {
        var trace = RuleTrace(operation: .write(locations), isAllowed: true, steps: [])
        follow(&trace, of: locations, old: old, new: new, now: now, author, limits)
        return trace
    }

    private func follow(
        _ trace: inout RuleTrace, of locations: [Path], old: Node, new: Node, now: Int64, _ author: ConsequenceAuthor,
        _ limits: ConsequenceLimits
    ) {
        if !hasConsequences { return trace.add(expiring(locations, old: old, new: new, now: now)) }
        do throws(ConsequenceFault) {
            let found = try consequences(of: locations, old: old, new: new, by: author, now: now, limits: limits)
            let recorder = TraceRecorder(self)
            let areAdmitted = Evaluator.run(
                program, old: old, new: found.tree, auth: Self.hubAuth, now: now, query: nil, recorder: recorder
            ) { $0.areValid(found.writes.map(\.path)) }
            trace.add(found, recorder.steps, areAdmitted: areAdmitted)
            if areAdmitted { trace.add(expiring(locations + found.writes.map(\.path), old: old, new: found.tree, now: now)) }
        } catch { trace.add(error) }
    }
}
