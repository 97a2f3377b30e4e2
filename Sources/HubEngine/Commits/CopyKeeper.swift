import JSONTree
import SecurityRules

/// Keeps the index of existing copies. It is built beside the queue, at the start, at a deploy, and when commits were taken back; until it
/// is there, copies are looked for in the tree. What one commit changes at many places is found out beside the queue as well, and taken a
/// part in a turn. Where there are more of them than a limit, there is no index.
///
/// Confined to the database queue.
final class CopyKeeper: @unchecked Sendable {
    // Sendable: background work only hops back to the queue with it.
    private let context: EngineContext
    private let content: Content
    private let derived: DerivedData
    /// Nil while there is none.
    private(set) var index: CopyIndex?
    /// The tree that is looked at for the next one, and what was written since.
    private var begun: Node?
    private var since: [Path] = []
    /// Number of the building.
    private var building = 0

    /// Places that others have written and that are followed on the queue; more are followed beside it.
    private static let followedAtOnce = 1_000
    /// Places of which the index may not know all; with more of them it is built anew.
    private static let openAtOnce = 8
    /// ms until an index is built again that would have been too large.
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

    /// What is there, or being built, is of no use.
    private func drop() {
        // Most hubs have none, and each refusal of the log comes by here.
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
            // Others have written meanwhile.
            return context.release([from])
        }
        // Each turn takes a part of the time that the one before took.
        begun = root
        context.background.run(.upkeep) { [self] in
            built.note(paths, old: from, new: root, atMost: .max)
            context.queue.async { [self] in finish(built, number) }
        }
    }

    /// A commit has written at these places.
    /// - Parameter exist: whether there is something at each of them now.
    func note(_ paths: [Path], exist: Bool = false, old: Node) {
        if let index {
            follow(paths, index, exist: exist, old: old)
        } else if begun != nil {
            since += paths
        }
    }

    /// There are too many places: copies are looked for in the tree, until there may be fewer.
    private func giveUp() {
        drop()
        derived.hold(.copies)
        let number = building
        context.later(ms: Self.retryMs) { [weak self] in
            if let self, number == building { begin() }
        }
    }

    // MARK: Many at once

    /// - Parameter old: the tree that the index knows.
    private func follow(_ paths: [Path], _ index: CopyIndex, exist: Bool = false, old: Node) {
        let (rules, root, number, most) = (content.rules, content.root, building, context.limits.copyPlaces)
        let open = index.note(paths, exist: exist, old: old, new: root)
        if index.count > most { return giveUp() }
        guard let open else { return }
        guard index.open.count <= Self.openAtOnce else { return begin() }
        context.background.run(.upkeep) { [self] in
            let found = CopyIndex.places(rules, below: open, old: old, new: root, atMost: most)
            context.queue.async { [self] in
                if let found { take(found[...], open, number) } else if number == building { giveUp() }
            }
        }
    }

    /// Others have written since: each place counts as it is now.
    private func take(_ found: ArraySlice<CopyIndex.Place>, _ open: Path, _ number: Int) {
        guard number == building, let index else { return context.release([found]) }
        index.take(found.prefix(CopyIndex.notedAtOnce), in: content.root)
        if index.count > context.limits.copyPlaces {
            context.release([found])
            return giveUp()
        }
        let rest = found.dropFirst(CopyIndex.notedAtOnce)
        if !rest.isEmpty { return context.queue.async { [self] in take(rest, open, number) } }
        index.close(open)
        context.release([found])
    }
}
