import JSONTree
import SecurityRules

/// Keeps the index of existing copies. It is built beside the queue, at the start, at a deploy, and when commits were taken back; until it
/// is there, copies are looked for in the tree.
///
/// Confined to the database queue.
final class CopyKeeper: @unchecked Sendable {
    // Sendable: background work only hops back to the queue with it.
    private let context: EngineContext
    private let content: Content
    /// Nil while there is none.
    private(set) var index: CopyIndex?
    /// The tree that is looked at for the next one, and what was written since.
    private var begun: Node?
    private var since: [Path] = []
    /// Number of the building.
    private var building = 0

    /// Places that others have written and that are followed on the queue; more are followed beside it.
    private static let followedAtOnce = 1_000

    init(_ context: EngineContext, _ content: Content) {
        self.context = context
        self.content = content
    }

    /// Builds the index, if the rules have copies that need one.
    func begin() {
        (index, begun, since) = (nil, nil, [])
        building += 1
        guard content.rules.hasIndexedCopies else { return }
        let (rules, root, number) = (content.rules, content.root, building)
        begun = root
        context.background.run(.upkeep) { [self] in
            let built = CopyIndex(rules, root: root)
            context.queue.async { [self] in finish(built, number) }
        }
    }

    private func finish(_ built: CopyIndex, _ number: Int) {
        guard number == building, let from = begun else { return }
        let (paths, root) = (since, content.root)
        since = []
        guard paths.count > Self.followedAtOnce else {
            built.note(paths, old: from, new: root)
            (index, begun) = (built, nil)
            return
        }
        // Each turn takes a part of the time that the one before took.
        begun = root
        context.background.run(.upkeep) { [self] in
            built.note(paths, old: from, new: root)
            context.queue.async { [self] in finish(built, number) }
        }
    }

    /// A commit has written at these places.
    func note(_ paths: [Path], old: Node) {
        if let index {
            index.note(paths, old: old, new: content.root)
        } else if begun != nil {
            since += paths
        }
    }
}
