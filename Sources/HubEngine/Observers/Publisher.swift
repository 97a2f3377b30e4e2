import JSONTree
import LiveQueries
import Synchronization

/// Notifies observers of changes. Finds the views that a commit affects, and computes the change of each once for all its observers.
///
/// ```
/// commit ─► places touched (PlaceTrie) ─► Change of each place ─► Difference of each view (Shown) ─► ViewChange ─► ChangeSender
/// ```
/// Confined to the database queue.
final class Publisher {
    private let context: EngineContext
    private let content: Content
    private let places: PlaceTrie
    private let indexes: IndexStore
    private let queries: LiveQueryUpdater
    private let batch: Batch
    private let sender: ChangeSender
    let single: SingleWriteFanOut
    /// The place of the multi-path update that is being published.
    private var update: Path?

    init(
        _ context: EngineContext, _ content: Content, _ places: PlaceTrie, _ indexes: IndexStore, _ queries: LiveQueryUpdater,
        _ batch: Batch, _ sender: ChangeSender, _ single: SingleWriteFanOut
    ) {
        self.context = context
        self.content = content
        self.places = places
        self.indexes = indexes
        self.queries = queries
        self.batch = batch
        self.sender = sender
        self.single = single
    }

    private var limits: EngineLimits { context.limits }
    private var changeLimits: ChangeLimits { ChangeLimits(children: limits.inlineChildren, room: limits.windowsAtOnce) }

    // MARK: Commits

    /// Notifies every view that a commit touched, once each, however many writes touched it (contract §2.5 rule 7). A write that left its place
    /// unchanged is skipped. O(depth of the paths + views touched, and their shown children)
    /// - Parameters:
    ///   - old: the tree before the commit.
    ///   - areCompared: true if the content is known to differ at each path.
    ///   - update: the place whose keys a client has updated; nil for a set.
    ///   - value: the value that the only write has stored, if known.
    func publish(
        _ paths: [Path], old: Node, areCompared: Bool = false, update: Path? = nil, value: @autoclosure () -> Node? = nil
    ) {
        self.update = update
        defer { self.update = nil }
        if paths.count == 1, single.notify(paths[0], old: old, value: value, isChange: areCompared) { return }
        let written = areCompared ? paths : changed(paths, since: old)
        var touched: [(place: TrieNode, change: Change)] = []
        places.visit(touchedBy: written, old: old, new: content.root) { place, below, before, after in
            touched.append((place, Change(at: place.path, from: before, to: after, by: written, below: below)))
        }
        var limits = changeLimits
        // Whole views above a deep write all receive the same frame, so they share it.
        var shared = written.count == 1 ? ChangeSender.SharedFrame() : nil
        for (place, change) in touched { notify(change, at: place, &shared, within: &limits) }
        spend(limits)
    }

    /// The observed places whose content a commit has changed, ascending; none lies below another.
    private func changed(_ paths: [Path], since old: Node) -> [Path] {
        // A large subtree that was replaced is released off the queue. With many writes, subtrees are not measured one by one.
        var room = paths.count > RequestCost.childrenForWork ? -1 : limits.largeWritePlaces
        if room < 0 { batch.retire(old) }
        let changed = paths.filter { path in
            // Most writes affect no observer, so they are not compared with the old value.
            let isObserved = places.hasAny(around: path)
            guard isObserved || room >= 0 && old.hasChildren(at: path) else { return false }
            let before = old.node(at: path)
            if isObserved, before == content.root.node(at: path) { return false }
            if room >= 0, before.hasChildren, !before.hasNodes(within: &room) { batch.retire(old) }
            return isObserved
        }
        return changed.count > 1 ? changed.outermost : changed
    }

    /// Notifies the views of a place. Examines writes only where they affect a view.
    /// - Parameter shared: the frame that views showing all writes share for a single write; nil if there are several writes.
    private func notify(_ change: Change, at place: TrieNode, _ shared: inout ChangeSender.SharedFrame?, within limits: inout ChangeLimits) {
        let children = change.isOverwritten ? nil : change.children(atMost: limits.children)
        if change.isOverwritten {
            indexes.rebuild(place, over: change.new, from: change.old)
        } else if let children {
            indexes.follow(children, at: place, from: change.old, to: change.new)
        } else {
            indexes.follow(place, from: change.old, to: change.new)
        }
        place.views(concernedBy: children) { view, placed in
            guard let difference = apply(change, children, placed, to: view, at: place, within: &limits) else { return }
            var own: ChangeSender.SharedFrame?
            if change.isOverwritten || !view.shown.showsWrites {
                notify(difference, change.paths[change.range], to: view, &own, within: &limits)
            } else {
                notify(difference, change.paths[change.range], to: view, &shared, within: &limits)
            }
        }
        guard let queried = place.queried else { return }
        queries.follow(queried, children, from: change.old, to: change.new) { view, live in
            context.meter.spend(1)
            var own: ChangeSender.SharedFrame?
            notify(.live(live, of: change.new), [], to: view, &own, within: &limits)
        }
    }

    /// Applies a commit to a view: here if it affects few children, otherwise off the queue.
    /// - Parameters:
    ///   - known: the children that contain the writes; nil if there are many, or if the place was overwritten.
    ///   - placed: the same children with their positions in the order of the view.
    private func apply(
        _ change: Change, _ known: [ChildChange]?, _ placed: [PlacedChild], to view: View, at place: TrieNode,
        within limits: inout ChangeLimits
    ) -> Difference? {
        var change = change
        var (children, placed) = (known ?? [], placed)
        if known == nil || change.count > RequestCost.childrenForWork, !change.isOverwritten {
            change = view.shown.part(of: change)
            if change.count == 0 { return nil }
            // Handing a few writes to the background would take longer than applying them here.
            guard change.count <= min(limits.children, max(limits.room, RequestCost.childrenForWork)) else {
                countView(view)
                return view.shown.move(along: change, at: place)
            }
            limits.room = max(0, limits.room - change.count)
            context.meter.counters.changesOnQueue += change.count
            children = change.children() ?? []
            placed = view.query?.plain.map { children.placed(by: $0.orderedBy) } ?? []
        }
        countView(view)
        return view.shown.apply(change, children, placed, at: place)
    }

    private func countView(_ view: View) {
        context.meter.spend(1)
        if !view.isWhole { context.meter.counters.windowsMoved += 1 }
    }

    private func notify(
        _ difference: Difference, _ written: ArraySlice<Path>, to view: View, _ shared: inout ChangeSender.SharedFrame?,
        within limits: inout ChangeLimits
    ) {
        var change = ViewChange(difference, at: view.path, for: view.wanted, sequence: content.sequence, within: &limits)
        change.update = update
        sender.send(change, to: view, written, &shared)
    }

    /// Notifies observers of a commit that was just installed.
    func publish(_ commit: AcceptedCommit, old: Node, update: Path?) {
        guard let changed = commit.changed else { return publish(commit.paths, old: old, update: update, value: commit.onlyValue) }
        guard let orders = commit.orders else { return publish(changed, old: old, areCompared: true, update: update) }
        indexes.use(orders) { publish(changed, old: old, areCompared: true, update: update) }
    }

    private func spend(_ left: ChangeLimits) {
        let collected = limits.windowsAtOnce - left.room
        if collected > 0 { context.meter.spend(collected / RequestCost.childrenForWork) }
    }

    // MARK: Current values

    /// Notifies all observers of a place's live queries in one order of the current result.
    func publish(_ path: Path, _ ordering: TreeQuery.Index, _ update: DeferredUpdate) {
        guard let place = places.existingPlace(at: path) else { return }
        let node = content.root.node(at: path)
        // Notifications of rolled-back commits were never sent.
        let isTakenBack = update.sequence > content.sequence
        if !isTakenBack, let index = place.existingIndex(ordering), index.index == nil { return index.restoreUpdate(update) }
        let lastSeen = isTakenBack ? node : update.content
        var (limits, own) = (changeLimits, ChangeSender.SharedFrame?.none)
        for view in place.views(by: ordering) {
            guard let all = view.shown.all(of: node, at: place)?.since(lastSeen) else { continue }
            notify(all, [], to: view, &own, within: &limits)
        }
        spend(limits)
    }

    /// Notifies the observers of a live query of a change, or of its whole result. Both belong to a content that may be outdated by now.
    func publish(_ view: View, _ change: LiveChange, of content: Node, _ sequence: UInt64) {
        var (limits, own) = (changeLimits, ChangeSender.SharedFrame?.none)
        let viewChange = ViewChange(.live(change, of: content), at: view.path, for: view.wanted, sequence: sequence, within: &limits)
        sender.send(viewChange, to: view, [], &own)
        spend(limits)
    }

    /// Sends one observer a change that only it receives.
    func publish(_ change: ViewChange, _ style: ObserverStyle, to client: Client) {
        sender.send(sender.shared(change), style, to: client, suspends: style.isValue)
    }

    /// Sends a client what its observers have missed, one message each. Observers suspended again receive it later. Observers that missed all of the
    /// same view share one encoded message.
    func publish(_ missed: MissedChanges, to client: Client) {
        var limits = changeLimits
        var wholeChanges: [ObjectIdentifier: EncodedChange] = [:]
        for (observation, missed) in missed {
            if let lag = client.lag, lag.isSuspended {
                lag.mark(observation, missed, limit: context.limits.stalePlaces)
                continue
            }
            guard let place = places.existingPlace(at: observation.path),
                let view = place.existingView(observation.query, for: observation.style)
            else { continue }
            let isWhole = if case .whole = missed { true } else { false }
            let known = isWhole ? wholeChanges[ObjectIdentifier(view)] : nil
            guard let change = known ?? present(view, place, missed, &limits).map(sender.shared) else { continue }
            if isWhole { wholeChanges[ObjectIdentifier(view)] = change }
            sender.send(change, observation.style, to: client, suspends: true)
        }
        spend(limits)
    }

    /// Sends the observers of one rate-limited style the current value of a place or query.
    func publish(_ path: Path, _ query: Query?, to style: ObserverStyle) {
        guard let place = places.existingPlace(at: path), let view = place.existingView(query, for: style),
            let audience = view.audiences[style]
        else { return }
        var limits = changeLimits
        // Without its order nothing is sent now; the observers are notified when the order is ready.
        guard let change = present(view, place, .whole, &limits) else { return }
        var own: ChangeSender.SharedFrame?
        sender.send(sender.shared(change), style, to: audience, of: view, &own)
        spend(limits)
    }

    /// The current state of a view, as a change for an observer that missed parts of it. Nil while its index is built; the observer is notified when
    /// it is ready.
    private func present(_ view: View, _ place: TrieNode, _ missed: MissedPaths, _ limits: inout ChangeLimits) -> ViewChange? {
        let node = content.root.node(at: view.path)
        guard let all = view.shown.all(of: node, at: place) else { return nil }
        guard case .at(let paths) = missed else {
            return ViewChange(all, at: view.path, for: view.wanted, sequence: content.sequence, within: &limits)
        }
        let patches = paths.map { (path: $0, value: content.root.node(at: $0)) }
        return ViewChange(
            at: view.path, sequence: content.sequence, new: node,
            patches: patches.keepingPriorities(below: view.path, in: node, isOneCommit: false) ?? [])
    }
}
