public import JSONTree

/// The security rules of one database: who may read and write which place, and which values are valid there.
///
///     text ──parse──► nodes and expressions ──check──► terms ──compile──► flat instructions ──evaluate──► allowed or not
///
/// Immutable, so a deploy replaces the whole set. Evaluation takes the trees as they are and allocates nothing on the usual
/// path; it costs the depth of the place plus, for writes, the size of what was written (rules contract §13).
public struct RuleSet: Sendable {
    /// All of a set, in one piece: it is handed on with every request.
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
    /// Keys of the text that this version does not act on. Only `init(inForce:)` leaves any.
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

    /// The rules of a text that an earlier version accepted. Keys that nothing acts on are passed over and listed in `unsupported`, so
    /// that a hub starts with the access rules that it had.
    public init(inForce text: String) throws(RulesErrors) {
        let (program, unsupported) = try RulesCompiler.compile(text, keepsUnsupported: true)
        file = File(text, program, unsupported)
    }

    /// The same with other bounds than those of `RulesLimits`, for tests.
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

    /// Refuses everything: the rules without a rules file.
    public static let denyAll = RuleSet(text: "{\"rules\":{}}", granting: false)
    /// Allows everything: the rules of development without a rules file.
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

    /// Whether every written location is granted by a `.write` on its own chain and passes its `.validate` rules, all seeing
    /// one merged tree (rules contract §10.2, §10.3). An empty list of locations is allowed.
    /// - Parameters:
    ///   - locations: the target of a set or removal, or each path of a multi-path update.
    ///   - old: the tree before; `data` and `root`.
    ///   - new: the tree after, server values resolved; `newData`.
    ///   - auth: `.null` when signed out, else an object of `uid`, `provider` and `token`.
    ///   - now: ms since the epoch, the value that server timestamps of the write have.
    public func allowsWrite(
        _ locations: [Path], old: Node, new: Node, auth: Node, now: Int64, query: QueryVariables? = nil
    ) -> Bool {
        Evaluator.run(program, old: old, new: new, auth: auth, now: now, query: query) { $0.allowsWrite(locations) }
    }

    /// The same with a smaller budget of text work than `textWork`.
    /// - Parameters:
    ///   - added: places that are written besides and that only `.validate` is asked about.
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

    /// Decides as `allowsRead`, with a trace.
    public func explainRead(_ path: Path, root: Node, auth: Node, now: Int64, query: QueryVariables? = nil) -> RuleTrace {
        let recorder = TraceRecorder(self)
        let isAllowed = Evaluator.run(program, old: root, new: root, auth: auth, now: now, query: query, recorder: recorder) {
            $0.grantsRead(path)
        }
        return RuleTrace(operation: .read(path), isAllowed: isAllowed, steps: recorder.steps)
    }

    /// Decides as `allowsWrite`, with a trace; rules that several locations share appear once.
    /// - Parameter limits: of what follows from the write, to be found and decided about as well; nil for the write alone.
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

    /// Decides about writes of the hub, of which `.validate` alone is asked, with a trace.
    /// - Parameter fault: why they cannot be made at all.
    public func explainSystemWrite(_ locations: [Path], old: Node, new: Node, now: Int64, fault: ConsequenceFault?) -> RuleTrace {
        let recorder = TraceRecorder(self)
        let isValid = fault == nil && isValidSystemWrite(locations, old: old, new: new, now: now, recorder)
        var trace = RuleTrace(operation: .write(locations), isAllowed: isValid, steps: recorder.steps)
        if let fault { trace.add(fault) }
        return trace
    }

    /// Whether `.validate` admits writes of the hub.
    public func isValidSystemWrite(_ locations: [Path], old: Node, new: Node, now: Int64) -> Bool {
        isValidSystemWrite(locations, old: old, new: new, now: now, nil)
    }

    private func isValidSystemWrite(_ locations: [Path], old: Node, new: Node, now: Int64, _ recorder: TraceRecorder?) -> Bool {
        Evaluator.run(program, old: old, new: new, auth: Self.hubAuth, now: now, query: nil, recorder: recorder) {
            $0.areValid(locations)
        }
    }

    /// Finds and decides about what follows from writes that nobody has to allow, with a trace.
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
