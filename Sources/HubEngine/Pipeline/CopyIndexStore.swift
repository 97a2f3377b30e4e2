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
    /// Tries to build the index while other clients write.
    private static let buildingTries = 10
    /// ms until the next attempt after an index would have been too large, or every try was overtaken.
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
        let (rules, number, most) = (content.rules, building, context.limits.copyPlaces)
        let job = Job<Built>(tries: Self.buildingTries) { [self] last in
            guard number == building else { return nil }
            let (from, paths, root) = (begun, since, content.root)
            (begun, since) = (root, [])
            guard let index = last?.index, let from else { return { Built(index: CopyIndex(rules, root: root, most: most)) } }
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
    private struct Built: Sendable { let index: CopyIndex? }

    /// Discards the index, or the one being built.
    private func drop() {
        // Most hubs have no index, and every refusal of the log calls this.
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
        let paths = since
        (index, begun, since) = (made, nil, [])
        derived.hold(.copies)
        follow(paths, made, old: from)
        // The old tree may be large: other clients have written meanwhile.
        context.release([from])
        return .done
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
    private func doWithout() {
        drop()
        derived.hold(.copies)
        let number = building
        context.later(ms: Self.retryMs) { [weak self] in
            if let self, number == building { begin() }
        }
    }

    // MARK: Large commits

    /// - Parameter old: the tree that the index knows.
    private func follow(_ paths: [Path], _ index: CopyIndex, exist: Bool = false, old: Node) {
        let (rules, root, number, most) = (content.rules, content.root, building, context.limits.copyPlaces)
        let open = index.update(paths, exist: exist, old: old, new: root)
        if index.count > most { return doWithout() }
        guard let open else { return }
        guard index.open.count <= Self.openAtOnce else { return begin() }
        context.compute { CopyIndex.places(rules, below: open, old: old, new: root, atMost: most) } then: { [self] found in
            if let found { refresh(found[...], open, number) } else if number == building { doWithout() }
        }
    }

    /// Other commits may have changed these paths since, so each is checked against the current tree.
    private func refresh(_ found: ArraySlice<CopyIndex.Place>, _ open: Path, _ number: Int) {
        guard number == building, let index else { return context.release([found]) }
        index.refresh(found.prefix(CopyIndex.maxIndexed), in: content.root)
        if index.count > context.limits.copyPlaces {
            context.release([found])
            return doWithout()
        }
        let rest = found.dropFirst(CopyIndex.maxIndexed)
        if !rest.isEmpty { return context.queue.async { [self] in refresh(rest, open, number) } }
        index.close(open)
        context.release([found])
    }
}
