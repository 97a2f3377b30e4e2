import JSONTree
import SecurityRules

/// Keeps the index of existing copies. It is built in the background at the start, at a deploy, and after a rollback. Until it is ready,
/// commits search the tree for copies.
/// If one commit changes many paths, the changes to the index are also computed in the background, and applied a part per turn.
/// Above `EngineLimits.copyPlaces` copies there is no index.
///
/// Confined to the database queue.
final class CopyIndexStore: @unchecked Sendable {
    // Sendable: background work only hops back to the queue with it.
    private let context: EngineContext
    private let content: Content
    private let derived: DerivedData
    private(set) var index: CopyIndex?
    /// The tree of the index being built, and the paths written since.
    private var begun: Node?
    private var since: [Path] = []
    /// Number of the current build; results of earlier builds are discarded.
    private var building = 0

    /// Paths written during the build that are applied on the queue. More than these are applied in the background.
    private static let followedAtOnce = 1_000
    /// Subtrees that the index does not cover yet, at most. With more of them the index is built again.
    private static let openAtOnce = 8
    /// ms until the next attempt after an index would have been too large.
    private static let retryMs: Int64 = 600_000

    init(_ context: EngineContext, _ content: Content, _ derived: DerivedData) {
        self.context = context
        self.content = content
        self.derived = derived
    }

    /// Builds the index, if the rules have copies that need one.
    func begin() {
        drop()
        guard content.rules.hasIndexedCopies else { return derived.hold(.copies) }
        derived.begin(.copies)
        let (rules, root, number, most) = (content.rules, content.root, building, context.limits.copyPlaces)
        begun = root
        context.background.run(.upkeep) { [self] in
            let built = CopyIndex(rules, root: root, most: most)
            context.queue.async { [self] in finish(built, number) }
        }
    }

    /// Discards the index, or the one being built.
    private func drop() {
        // Most hubs have no index, and every refusal of the log calls this.
        if index != nil || begun != nil || !since.isEmpty { context.release([index, begun, since]) }
        (index, begun, since) = (nil, nil, [])
        building += 1
    }

    private func finish(_ built: CopyIndex?, _ number: Int) {
        guard number == building, let from = begun else { return }
        guard let built else { return giveUp() }
        let (paths, root) = (since, content.root)
        since = []
        guard paths.count > Self.followedAtOnce else {
            (index, begun) = (built, nil)
            derived.hold(.copies)
            follow(paths, built, old: from)
            // The old tree may be large: other clients have written meanwhile.
            return context.release([from])
        }
        // Each round takes a fraction of the time of the round before.
        begun = root
        context.background.run(.upkeep) { [self] in
            built.update(paths, old: from, new: root, atMost: .max)
            context.queue.async { [self] in finish(built, number) }
        }
    }

    /// Adds the paths of a commit.
    /// - Parameter exist: whether a node exists at each of them now.
    func update(_ paths: [Path], exist: Bool = false, old: Node) {
        if let index {
            follow(paths, index, exist: exist, old: old)
        } else if begun != nil {
            since += paths
        }
    }

    /// Too many paths: commits search the tree for copies, until the next attempt.
    private func giveUp() {
        drop()
        derived.hold(.copies)
        let number = building
        context.later(ms: Self.retryMs) { [weak self] in
            if let self, number == building { begin() }
        }
    }

    // Large commits

    /// - Parameter old: the tree that the index knows.
    private func follow(_ paths: [Path], _ index: CopyIndex, exist: Bool = false, old: Node) {
        let (rules, root, number, most) = (content.rules, content.root, building, context.limits.copyPlaces)
        let open = index.update(paths, exist: exist, old: old, new: root)
        if index.count > most { return giveUp() }
        guard let open else { return }
        guard index.open.count <= Self.openAtOnce else { return begin() }
        context.background.run(.upkeep) { [self] in
            let found = CopyIndex.places(rules, below: open, old: old, new: root, atMost: most)
            context.queue.async { [self] in
                if let found { refresh(found[...], open, number) } else if number == building { giveUp() }
            }
        }
    }

    /// Other commits may have changed these paths since, so each is checked against the current tree.
    private func refresh(_ found: ArraySlice<CopyIndex.Place>, _ open: Path, _ number: Int) {
        guard number == building, let index else { return context.release([found]) }
        index.refresh(found.prefix(CopyIndex.maxIndexed), in: content.root)
        if index.count > context.limits.copyPlaces {
            context.release([found])
            return giveUp()
        }
        let rest = found.dropFirst(CopyIndex.maxIndexed)
        if !rest.isEmpty { return context.queue.async { [self] in refresh(rest, open, number) } }
        index.close(open)
        context.release([found])
    }
}
