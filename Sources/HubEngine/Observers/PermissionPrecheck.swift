import JSONTree
import SecurityRules

/// Evaluates read rules for many observers before a commit that their permission depends on. It runs in the background, on the tree after the commit.
/// Only the client of that commit waits.
///
/// ```
/// commit ── affects few observers ──► applied; their rules are evaluated on the queue
///    └── many ──► suspended: rules are evaluated in the background ──► started again with the decisions ──► applied
///                   ▲      meanwhile other writes invalidated too many ┘ (at most `rounds` times)
/// ```
/// Confined to the database queue.
final class PermissionPrecheck {
    private let context: EngineContext
    private let content: Content
    private let places: PlaceTrie
    /// Decisions for the request that is being run again.
    private var known: PrecheckedDecisions?

    /// Maximum number of prechecks in the background for one request.
    private static let rounds = 3
    /// Bytes held for each observer in a precheck: its identity, and what the decision depends on.
    private static let bytesOfObserver = 512

    init(_ context: EngineContext, _ content: Content, _ places: PlaceTrie) {
        self.context = context
        self.content = content
        self.places = places
    }

    // MARK: Commits

    /// True if an observer's permission depends on the path, an ancestor or a descendant. O(depth)
    func hasDependents(around path: Path) -> Bool { places.hasDependents(around: path) }

    /// The observers whose permission may change by writes at these paths. O(depth of the paths + places touched)
    func touched(by paths: [Path], making candidate: Node) -> [Dependent] {
        places.dependents(touchedBy: paths, old: content.root, new: candidate)
    }

    /// The same for a prepared write.
    func touched(by write: PreparedWrite) -> [Dependent] { touched(byMany: write.changed, making: write.candidate) }

    /// The same for many changed places, ascending, none within another.
    func touched(byMany changed: [Path], making candidate: Node) -> [Dependent] {
        places.dependents(touchedByMany: changed, old: content.root, new: candidate)
    }

    /// True if too many of the affected observers lack a decision, so that a precheck in the background must come first.
    func needsPrecheck(about touched: [Dependent], in candidate: Node) -> Bool {
        let most = context.limits.checksAtOnce
        guard touched.count > most, round < Self.rounds else { return false }
        return touched.count { decision(on: $0, in: candidate) == nil } > most
    }

    /// The prechecked decision on an observer, if it holds on this tree.
    func decision(on dependent: Dependent, in tree: Node) -> ReadDecision? {
        known?.decision(on: dependent, in: tree, rules: content.rulesNumber)
    }

    // MARK: Prechecks

    /// Number of prechecks for the request that is being run.
    var round: Int { known?.round ?? 0 }

    /// Bytes that a precheck of these writes holds; nil if they need none.
    func bytes(before writes: [TreeWrite]) -> Int? {
        guard !writes.isEmpty, places.dependentCount > context.limits.checksAtOnce,
            let candidate = try? Candidate(writes, on: content.root, now: context.clock()).tree
        else { return nil }
        let touched = touched(by: writes.map(\.path), making: candidate)
        return needsPrecheck(about: touched, in: candidate) ? touched.count * Self.bytesOfObserver : nil
    }

    /// Bytes that a precheck of a prepared write holds.
    func bytes(before write: PreparedWrite) -> Int { touched(by: write).count * Self.bytesOfObserver }

    /// The input of a precheck of these writes, on the current state.
    func question(before writes: [TreeWrite], round: Int) -> PrecheckedDecisions.Input {
        // An invalid write affects no observer.
        let candidate = (try? Candidate(writes, on: content.root, now: context.clock()).tree) ?? content.root
        return question(touched(by: writes.map(\.path), making: candidate), candidate, round)
    }

    func question(before write: PreparedWrite, round: Int) -> PrecheckedDecisions.Input {
        question(touched(by: write), write.candidate, round)
    }

    private func question(_ touched: [Dependent], _ candidate: Node, _ round: Int) -> PrecheckedDecisions.Input {
        context.meter.counters.observerPrechecks += 1
        return PrecheckedDecisions.Input(
            dependents: touched.map { ($0, $0.client.identity.auth) }, tree: candidate, rules: content.rules,
            rulesNumber: content.rulesNumber, now: context.clock(), round: round)
    }

    /// Runs `body` with the decisions of a precheck.
    func use(_ found: PrecheckedDecisions, _ body: () -> Void) {
        known = found
        body()
        known = nil
    }
}
