public import JSONTree

/// The security rules of one database: who may read and write which place, and what a value must look like there.
///
///     text ──parse──► nodes and expressions ──check──► terms ──compile──► flat instructions ──evaluate──► allowed or not
///
/// Immutable, so a deploy replaces the whole set. Evaluation takes the trees as they are and allocates nothing on the usual
/// path; it costs the depth of the place plus, for writes, the size of what was written (rules contract §13).
public struct RuleSet: Sendable {
    /// The file as it was given, comments and layout included.
    public let text: String
    let program: Program

    /// Largest rules file in bytes of UTF-8.
    public static let maxBytes = RulesLimits.fileBytes

    /// Parses and checks a rules file.
    /// - Throws: all its faults, in the order of the text; at most one per expression.
    public init(parsing text: String) throws(RulesErrors) {
        self.text = text
        program = try RulesCompiler.compile(text)
    }

    /// The same with another bound than `RulesLimits.textWork`, for tests.
    init(parsing text: String, textWork: Int) throws(RulesErrors) {
        self.text = text
        program = try RulesCompiler.compile(text, textWork: textWork)
    }

    private init(text: String, granting: Bool) {
        self.text = text
        var builder = ProgramBuilder()
        builder.addRoot(granting: granting)
        program = Program(builder)
    }

    /// Refuses everything: what holds without a rules file.
    public static let denyAll = RuleSet(text: "{\"rules\":{}}", granting: false)
    /// Allows everything: development without a rules file.
    public static let allowAll = RuleSet(text: "{\"rules\":{\".read\":true,\".write\":true}}", granting: true)

    // MARK: Decisions

    /// Whether a `.read` rule from the root down to the path is true (rules contract §10.1).
    /// - Parameters:
    ///   - root: the stored tree.
    ///   - auth: `.null` when signed out, else an object of `uid`, `provider` and `token`.
    ///   - now: ms since the epoch.
    public func allowsRead(_ path: Path, root: Node, auth: Node, now: Int64, query: QueryVariables = .none) -> Bool {
        Evaluator.run(program, old: root, new: root, auth: auth, now: now, query: query) { $0.grantsRead(path) }
    }

    /// Whether every written location is granted by a `.write` on its own chain and passes its `.validate` rules, all seeing
    /// one merged tree (rules contract §10.2, §10.3). No location is allowed.
    /// - Parameters:
    ///   - locations: the target of a set or removal, or each path of a multi-path update.
    ///   - old: the tree before; `data` and `root`.
    ///   - new: the tree after, server values resolved; `newData`.
    ///   - auth: `.null` when signed out, else an object of `uid`, `provider` and `token`.
    ///   - now: ms since the epoch, the value that server timestamps of the write have.
    public func allowsWrite(
        _ locations: [Path], old: Node, new: Node, auth: Node, now: Int64, query: QueryVariables = .none
    ) -> Bool {
        Evaluator.run(program, old: old, new: new, auth: auth, now: now, query: query) { $0.allowsWrite(locations) }
    }

    /// The same with less work on texts than an operation may ask for (`textWork`).
    /// - Parameter work: what may be asked for; what was done is taken off.
    public func allowsWrite(_ locations: [Path], old: Node, new: Node, auth: Node, now: Int64, textWork work: inout Int) -> Bool {
        Evaluator.run(program, old: old, new: new, auth: auth, now: now, query: .none) { evaluator in
            let most = min(work, program.textWork)
            evaluator.textWork = most
            let isAllowed = evaluator.allowsWrite(locations)
            work -= most - evaluator.textWork
            return isAllowed
        }
    }

    /// The most work on texts that one operation may ask for (`RulesLimits.textWork`).
    public var textWork: Int { program.textWork }

    /// Decides as `allowsRead` and tells how.
    public func explainRead(_ path: Path, root: Node, auth: Node, now: Int64, query: QueryVariables = .none) -> RuleTrace {
        let recorder = TraceRecorder(self)
        let isAllowed = Evaluator.run(program, old: root, new: root, auth: auth, now: now, query: query, recorder: recorder) {
            $0.grantsRead(path)
        }
        return RuleTrace(operation: .read(path), isAllowed: isAllowed, steps: recorder.steps)
    }

    /// Decides as `allowsWrite` and tells how; rules that several locations share are told once.
    public func explainWrite(
        _ locations: [Path], old: Node, new: Node, auth: Node, now: Int64, query: QueryVariables = .none
    ) -> RuleTrace {
        let recorder = TraceRecorder(self)
        let isAllowed = Evaluator.run(program, old: old, new: new, auth: auth, now: now, query: query, recorder: recorder) {
            $0.allowsWrite(locations)
        }
        return RuleTrace(operation: .write(locations), isAllowed: isAllowed, steps: recorder.steps)
    }
}
