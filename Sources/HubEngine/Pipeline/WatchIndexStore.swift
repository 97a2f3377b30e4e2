import JSONTree
import SecurityRules

/// Keeps the index of watches (`.watch`). It is built in the background at the start, at a deploy, after a rollback, and after a commit
/// that changes too much of it. Until it is ready, commits scan the tree, within the limit of keys.
///
/// Confined to the database queue.
final class WatchIndexStore: @unchecked Sendable {
    // Sendable: background work only hops back to the queue with it.
    private let context: EngineContext
    private let content: Content
    private let derived: DerivedData
    private(set) var index: WatchIndex?
    /// The tree of the index being built, and the paths written since.
    private var begun: Node?
    private var since: [Path] = []
    /// Number of the current build; results of earlier builds are discarded.
    private var building = 0

    /// Tries to build the index while other clients write.
    private static let buildingTries = 10
    /// Paths written during the build that are applied on the queue. More than these are applied in the background.
    private static let followedAtOnce = 1_000
    /// ms until the next attempt after an index would have been too large, or every try was overtaken.
    private static let retryMs: Int64 = 600_000

    init(_ context: EngineContext, _ content: Content, _ derived: DerivedData) {
        self.context = context
        self.content = content
        self.derived = derived
    }

    /// Builds the index, if the rules have watches.
    func begin() {
        drop()
        guard content.rules.hasWatches else { return derived.hold(.watches) }
        derived.begin(.watches)
        let (rules, number, most) = (content.rules, building, context.limits.watchIndexEntries)
        let job = Job<Built>(tries: Self.buildingTries) { [self] last in
            guard number == building else { return nil }
            let (from, paths, root) = (begun, since, content.root)
            (begun, since) = (root, [])
            guard let index = last?.index, let from else {
                return {
                    let index = WatchIndex(rules, root: root)
                    return Built(index: index.count <= most ? index : nil)
                }
            }
            return {
                index.update(paths, old: from, new: root, atMost: .max)
                return Built(index: index)
            }
        } use: { [self] built in
            number == building ? finish(built) : .done
        } giveUp: { [self] last in
            context.release([last])
            doWithout()
        }
        job.run(in: context)
    }

    /// An index in the making; nil if it would be too large.
    private struct Built: Sendable { let index: WatchIndex? }

    private func drop() {
        if index != nil || begun != nil || !since.isEmpty { context.release([index, begun, since]) }
        (index, begun, since) = (nil, nil, [])
        building += 1
    }

    private func finish(_ built: Built) -> Job<Built>.Outcome {
        guard let from = begun else { return .done }
        guard let made = built.index else {
            doWithout()
            return .done
        }
        guard since.count <= Self.followedAtOnce else { return .behind(built) }
        guard made.update(since, old: from, new: content.root, atMost: context.limits.watchUpdates) else { return .outdated }
        (index, begun, since) = (made, nil, [])
        derived.hold(.watches)
        context.release([from])
        return .done
    }

    /// Adds the paths of a commit, which is the current tree.
    func update(_ paths: [Path], old: Node) {
        let concerned = paths.filter { content.rules.mayConcernWatches(at: $0) }
        if concerned.isEmpty { return }
        guard let index else {
            if begun != nil { since += concerned }
            return
        }
        context.meter.spend(concerned.count)
        guard index.update(concerned, old: old, new: content.root, atMost: context.limits.watchUpdates) else { return begin() }
        if index.count > context.limits.watchIndexEntries { doWithout() }
    }

    /// Too many entries: commits scan the tree, until the next attempt.
    private func doWithout() {
        drop()
        derived.hold(.watches)
        let number = building
        context.later(ms: Self.retryMs) { [weak self] in
            if let self, number == building { begin() }
        }
    }
}
