import JSONTree
import SecurityRules

/// Asks the rules about many observers before a commit is made that their permission rests on: beside the queue, on the tree that the
/// commit will make. Only the client that asked for the commit waits.
///
/// ```
/// commit ── few observers rest on it ──► made, and they are asked about on the queue
///    └── many ──► put aside: they are asked about in the background ──► begun again with what is known by then ──► made
///                   ▲                 others wrote meanwhile what that rests on, for many ┘ (`rounds` at most)
/// ```
/// Confined to the database queue.
final class PermissionForesight {
    private let context: EngineContext
    private let content: Content
    private let places: PlaceTrie
    /// What is known for the request that is begun again, while it is carried out.
    private var known: Foresight?

    /// How often the rules are asked in the background for one request.
    private static let rounds = 3
    /// Bytes that are held for each observer that is asked about: who it is for, and what the decision rests on.
    private static let bytesOfObserver = 512

    init(_ context: EngineContext, _ content: Content, _ places: PlaceTrie) {
        self.context = context
        self.content = content
        self.places = places
    }

    // MARK: Commits

    /// Whether the permission of an observer rests on what is above, at or below a path. O(depth)
    func hasDependents(around path: Path) -> Bool { places.hasDependents(around: path) }

    /// The observers whose permission rests on what writes at these paths change. O(depth of the paths + places touched)
    func touched(by paths: [Path], making candidate: Node) -> [Dependent] {
        places.dependents(touchedBy: paths, old: content.root, new: candidate)
    }

    /// The same for a prepared write.
    func touched(by write: PreparedWrite) -> [Dependent] { touched(byMany: write.changed, making: write.candidate) }

    /// The same for many places that differ, ascending; none contains another.
    func touched(byMany changed: [Path], making candidate: Node) -> [Dependent] {
        places.dependents(touchedByMany: changed, old: content.root, new: candidate)
    }

    /// Whether so many of the observers that a commit touches are unknown that they are to be asked about in the background before.
    func mustAsk(about touched: [Dependent], in candidate: Node) -> Bool {
        let most = context.limits.checksAtOnce
        guard touched.count > most, round < Self.rounds else { return false }
        return touched.count { decision(on: $0, in: candidate) == nil } > most
    }

    /// The decision on an observer that was found out before, if it holds on a tree.
    func decision(on dependent: Dependent, in tree: Node) -> ReadDecision? {
        known?.decision(on: dependent, in: tree, rules: content.rulesNumber)
    }

    // MARK: Asking

    /// How often the rules have been asked for the request that is carried out.
    var round: Int { known?.round ?? 0 }

    /// Bytes that asking holds before these writes; nil when no observers are to be asked about before them.
    func bytes(before writes: [TreeWrite]) -> Int? {
        guard !writes.isEmpty, places.dependentCount > context.limits.checksAtOnce,
            let candidate = try? Candidate(writes, on: content.root, now: context.clock()).tree
        else { return nil }
        let touched = touched(by: writes.map(\.path), making: candidate)
        return mustAsk(about: touched, in: candidate) ? touched.count * Self.bytesOfObserver : nil
    }

    /// Bytes that asking holds before a prepared write.
    func bytes(before write: PreparedWrite) -> Int { touched(by: write).count * Self.bytesOfObserver }

    /// What is to be found out before these writes, as things are now.
    func question(before writes: [TreeWrite], round: Int) -> Foresight.Question {
        // What cannot be made touches no observer.
        let candidate = (try? Candidate(writes, on: content.root, now: context.clock()).tree) ?? content.root
        return question(touched(by: writes.map(\.path), making: candidate), candidate, round)
    }

    func question(before write: PreparedWrite, round: Int) -> Foresight.Question {
        question(touched(by: write), write.candidate, round)
    }

    private func question(_ touched: [Dependent], _ candidate: Node, _ round: Int) -> Foresight.Question {
        context.meter.counters.foreseen += 1
        return Foresight.Question(
            dependents: touched.map { ($0, $0.client.identity.auth) }, tree: candidate, rules: content.rules,
            rulesNumber: content.rulesNumber, now: context.clock(), round: round)
    }

    /// Carries something out with what was found out for it.
    func use(_ found: Foresight, _ body: () -> Void) {
        known = found
        body()
        known = nil
    }
}
