import JSONTree
import Synchronization

/// Tells observers what has changed: each view is computed once, and encoded once for each style; what is large is encoded off
/// the queue, its place in the order of deliveries is taken at once.
///
/// ```
/// queue:     … answer, event, [ later ], answer …  ─────────────────────► lane: what follows for these clients waits
/// line:                           └► measure, encode ─► filled ────────────┘
/// ```
/// A client of something large has a probe behind it: it asks and is told no more until it has taken that.
/// Confined to the database queue.
final class Publisher {
    private let context: EngineContext
    private let content: Content
    private let places: PlaceTrie
    private let indexes: IndexKeeper
    private let queries: QueryKeeper
    private let batch: Batch
    private let outbox: Outbox
    private let slowReaders: SlowReaders
    private let encodings: EncodingLine
    private let pacing: Pacing
    let single: WriteTeller
    /// The place of the update that is being published.
    private var update: Path?

    init(
        _ context: EngineContext, _ content: Content, _ places: PlaceTrie, _ indexes: IndexKeeper, _ queries: QueryKeeper,
        _ batch: Batch, _ outbox: Outbox, _ slowReaders: SlowReaders, _ encodings: EncodingLine, _ pacing: Pacing
    ) {
        self.context = context
        self.content = content
        self.places = places
        self.indexes = indexes
        self.queries = queries
        self.batch = batch
        self.outbox = outbox
        self.slowReaders = slowReaders
        self.encodings = encodings
        self.pacing = pacing
        single = WriteTeller(context, content, places, batch, outbox)
    }

    private var limits: EngineLimits { context.limits }
    private var changeLimits: ChangeLimits { ChangeLimits(children: limits.inlineChildren, room: limits.windowsAtOnce) }

    // MARK: Commits

    /// Tells every view that a commit touched: once each, however many writes touched it (contract §2.5 rule 7). A write
    /// that left its place as it was is not told. O(depth of the paths + views touched, and what they show)
    /// - Parameters:
    ///   - old: the tree before.
    ///   - areCompared: whether the paths are known to be those of which the content has changed.
    ///   - update: the place whose keys a client has updated; nil for a set.
    ///   - value: what the only write has stored, where that is known.
    func publish(
        _ paths: [Path], old: Node, areCompared: Bool = false, update: Path? = nil, value: @autoclosure () -> Node? = nil
    ) {
        self.update = update
        defer { self.update = nil }
        if paths.count == 1, single.tell(paths[0], old: old, value: value, isChange: areCompared) { return }
        if paths.count > limits.inlineChildren { return publish(many: areCompared ? paths : changed(paths, since: old), old: old) }
        var alone: (old: Node, new: Node)?
        let touched = touchedPlaces(paths, old: old, areCompared: areCompared, alone: &alone)
        var limits = changeLimits
        // A write at depth reads the same for every whole view above it, so its frame is shared among those too.
        var shared: SharedFrame? = paths.count == 1 ? SharedFrame() : nil
        for place in touched {
            let isWritten = place.path.depth == paths[0].depth && place.isOverwritten
            let (before, after) = alone.flatMap { isWritten ? $0 : nil } ?? (old.node(at: place.path), content.root.node(at: place.path))
            if place.touchedBy.count > RequestLoop.childrenForWork, !place.isOverwritten,
                place.touchedBy.count * place.windowCount > limits.room {
                let below = place.touchedBy.map { paths[$0] }.ascending()
                let writes = WrittenBelow(path: place.path, old: before, new: after, paths: below, range: below.indices)
                tell(writes, at: place, within: &limits)
            } else {
                var commit = PlaceChange(place, paths, old: before, new: after, root: content.root)
                tell(&commit, at: place, &shared, within: &limits)
            }
            place.touchedBy.removeAll(keepingCapacity: true)
            place.isOverwritten = false
        }
        spend(limits)
    }

    /// - Parameter shared: what the views that show all writes are told of this one; nil when there are several.
    private func tell(
        _ commit: inout PlaceChange, at place: ObservedPlace, _ shared: inout SharedFrame?, within limits: inout ChangeLimits
    ) {
        if commit.isOverwritten {
            indexes.rebuild(place, over: commit.new, from: commit.old)
        } else {
            indexes.follow(commit.children, at: place)
        }
        place.views(concernedBy: commit.isOverwritten ? nil : commit.children) { view, ordered in
            context.meter.spend(1)
            if !view.isWhole {
                context.meter.counters.windowsMoved += 1
                commit.ordered = ordered
            }
            guard let difference = view.shown.apply(commit, at: place) else { return }
            if commit.isOverwritten || !view.shown.showsWrites {
                var own: SharedFrame?
                tell(difference, commit.patches, of: commit.new, to: view, &own, within: &limits)
            } else {
                tell(difference, commit.patches, of: commit.new, to: view, &shared, within: &limits)
            }
        }
        if let queried = place.queried {
            tell(queried, commit.isOverwritten ? nil : commit.children, from: commit.old, to: commit.new, within: &limits)
        }
    }

    /// Tells the live queries of a place.
    private func tell(
        _ queried: QueriedPlace, _ children: [ChildChange]?, from old: Node, to new: Node, within limits: inout ChangeLimits
    ) {
        queries.follow(queried, children, from: old, to: new) { view, change in
            context.meter.spend(1)
            var own: SharedFrame?
            tell(.live(change), [], of: new, to: view, &own, within: &limits)
        }
    }

    private func tell(
        _ difference: Difference, _ patches: [(path: Path, value: Node)], of new: Node, to view: View, _ shared: inout SharedFrame?,
        within limits: inout ChangeLimits
    ) {
        var change = ViewChange(difference, of: view, written: patches, new: new, sequence: content.sequence, within: &limits)
        change.update = update
        slowReaders.conflate(view, patches: change.patches)
        send(change, to: view, &shared)
    }

    /// The same for many writes, ascending: what they did is looked at where it concerns a view, and much of it beside the queue.
    /// O(places touched · log writes + views of their children + up to `windowsAtOnce` children)
    private func publish(many paths: [Path], old: Node) {
        var touched: [(place: ObservedPlace, below: Range<Int>?)] = []
        places.visit(touchedBy: paths, old: old, new: content.root) { touched.append(($0, $1)) }
        var (limits, own) = (changeLimits, SharedFrame?.none)
        for (place, below) in touched {
            let (before, after) = (old.node(at: place.path), content.root.node(at: place.path))
            let writes = WrittenBelow(path: place.path, old: before, new: after, paths: paths, range: below ?? 0..<0)
            if below == nil {
                var commit = PlaceChange(isOverwritten: true, before, after)
                tell(&commit, at: place, &own, within: &limits)
            } else {
                tell(writes, at: place, within: &limits)
            }
        }
        spend(limits)
    }

    private func tell(_ writes: WrittenBelow, at place: ObservedPlace, within limits: inout ChangeLimits) {
        if let children = writes.children(atMost: limits.children) {
            indexes.follow(children, at: place)
            place.views(concernedBy: children) { view, _ in tell(writes, at: place, to: view, within: &limits) }
            if let queried = place.queried { tell(queried, children, from: writes.old, to: writes.new, within: &limits) }
        } else {
            indexes.follow(place, from: writes.old, to: writes.new)
            for view in place.views { tell(writes, at: place, to: view, within: &limits) }
            if let queried = place.queried { tell(queried, nil, from: writes.old, to: writes.new, within: &limits) }
        }
    }

    private func tell(_ writes: WrittenBelow, at place: ObservedPlace, to view: View, within limits: inout ChangeLimits) {
        let part = writes.part(view.shown.concerned(by: writes))
        if part.count == 0 { return }
        context.meter.spend(1)
        if !view.isWhole { context.meter.counters.windowsMoved += 1 }
        var own: SharedFrame?
        // A few take no longer than to have it done elsewhere.
        guard part.count <= min(limits.children, max(limits.room, RequestLoop.childrenForWork)) else {
            guard let difference = view.shown.move(along: part, at: place) else { return }
            return tell(difference, [], of: part.new, to: view, &own, within: &limits)
        }
        limits.room = max(0, limits.room - part.count)
        context.meter.counters.changesOnQueue += part.count
        var commit = PlaceChange(part)
        if let query = view.query?.window { commit.ordered = commit.children.placed(by: query.orderedBy) }
        guard let difference = view.shown.apply(commit, at: place) else { return }
        tell(difference, commit.patches, of: commit.new, to: view, &own, within: &limits)
    }

    /// The places that a commit has changed, ascending.
    private func changed(_ paths: [Path], since old: Node) -> [Path] {
        batch.retire(old)
        return paths.filter { old.node(at: $0) != content.root.node(at: $0) }.ascending()
    }

    /// Tells what a prepared write has changed.
    func publish(prepared write: PreparedWrite, old: Node, update: Path?) {
        guard places.hasAny(around: write.common) else { return }
        indexes.use(write.orders) { publish(write.changed, old: old, areCompared: true, update: update) }
    }

    /// The places that writes concern, with what concerns them.
    /// - Parameter alone: set to what the only write has changed, where that was looked at.
    private func touchedPlaces(
        _ paths: [Path], old: Node, areCompared: Bool, alone: inout (old: Node, new: Node)?
    ) -> [ObservedPlace] {
        var touched: [ObservedPlace] = []
        var room = limits.largeWritePlaces
        // Of many places what was there is not counted one by one: it is released with the tree of before.
        if !areCompared, paths.count > RequestLoop.childrenForWork {
            batch.retire(old)
            room = -1
        }
        for (index, path) in paths.enumerated() {
            // Most writes concern no observer: what they change is not compared with what was there.
            var written: (old: Node, new: Node)?
            let isObserved = places.hasAny(around: path)
            if !areCompared {
                if isObserved {
                    let (before, after) = (old.node(at: path), content.root.node(at: path))
                    if before == after { continue }
                    written = (before, after)
                }
                let hadChildren = room >= 0 && (written?.old.hasChildren ?? old.hasChildren(at: path))
                if hadChildren, !(written?.old ?? old.node(at: path)).hasNodes(within: &room) { batch.retire(old) }
            }
            guard isObserved else { continue }
            let (before, after) = written ?? (old.node(at: path), content.root.node(at: path))
            if paths.count == 1 { alone = (before, after) }
            places.visit(touchedBy: path, before: before, after: after) { place, isBelow in
                if place.touchedBy.isEmpty, !place.isOverwritten { touched.append(place) }
                if isBelow { return place.isOverwritten = true }
                place.touchedBy.append(index)
                place.writtenChild = path.depth == place.path.depth + 1 ? written : nil
            }
        }
        return touched
    }

    private func spend(_ left: ChangeLimits) {
        let collected = limits.windowsAtOnce - left.room
        if collected > 0 { context.meter.spend(collected / RequestLoop.childrenForWork) }
    }

    // MARK: Contents

    /// Tells all observers of a place's live queries in an order what these show now.
    func publish(_ path: Path, _ ordering: TreeQuery.Index, _ owed: Owed) {
        guard let place = places.existingPlace(at: path) else { return }
        let node = content.root.node(at: path)
        // Of commits that were taken back nothing was told.
        let isTakenBack = owed.sequence > content.sequence
        if !isTakenBack, let index = place.existingIndex(ordering), index.index == nil { return index.giveBack(owed) }
        let told = isTakenBack ? node : owed.content
        var (limits, own) = (changeLimits, SharedFrame?.none)
        for view in place.views(by: ordering) {
            guard let all = view.shown.all(of: node, at: place)?.since(told) else { continue }
            let change = ViewChange(all, of: view, written: [], new: node, sequence: content.sequence, within: &limits)
            slowReaders.conflate(view, patches: [])
            send(change, to: view, &own)
        }
        spend(limits)
    }

    /// Tells the observers of a live query what has changed of it, or all of it, as of a content that may have changed since.
    func publish(_ view: View, _ change: LiveChange, of content: Node, _ sequence: UInt64) {
        var (limits, own) = (changeLimits, SharedFrame?.none)
        let told = ViewChange(.live(change), of: view, written: [], new: content, sequence: sequence, within: &limits)
        slowReaders.conflate(view, patches: [])
        send(told, to: view, &own)
        spend(limits)
    }

    /// Tells one observer of a change of its own.
    func publish(_ change: ViewChange, _ style: ObserverStyle, to client: Client) {
        let shared = SharedChange(change, context.format, context.limits)
        let isFull = outbox.batchBytes > context.limits.outputBytes
        guard isFull || shared.isLarge(for: style) else { return outbox.send(shared.frame(for: style), to: client) }
        sendLater(shared.large, style, to: client, least: isFull ? 0 : context.limits.inlineBytes, suspends: style.isValue)
    }

    /// Tells a client what its observers have missed, in one message each; one that is held back again is told later. Those that have
    /// missed all of one view are told the same, which is encoded once.
    func publish(_ missed: Missed, to client: Client) {
        var limits = changeLimits
        var wholes: [ObjectIdentifier: SharedChange] = [:]
        for (observation, missed) in missed {
            if let lag = client.lag, lag.isSuspended {
                lag.mark(observation, missed, limit: context.limits.stalePlaces)
                continue
            }
            guard let place = places.existingPlace(at: observation.path), let view = place.existingView(observation.query, for: observation.style) else { continue }
            var known: SharedChange?
            if case .whole = missed { known = wholes[ObjectIdentifier(view)] }
            if known == nil {
                guard let change = present(view, place, missed, &limits) else { continue }
                known = SharedChange(change, context.format, context.limits)
                if case .whole = missed { wholes[ObjectIdentifier(view)] = known }
            }
            guard let shared = known else { continue }
            let isFull = outbox.batchBytes > context.limits.outputBytes
            if isFull || shared.isLarge(for: observation.style) {
                sendLater(shared.large, observation.style, to: client, least: isFull ? 0 : context.limits.inlineBytes)
            } else {
                outbox.send(shared.frame(for: observation.style), to: client)
            }
        }
        spend(limits)
    }

    /// Tells the observers of one style with a pace how a place, or a query of it, is now.
    func publish(_ path: Path, _ query: ChildQuery?, to style: ObserverStyle) {
        guard let place = places.existingPlace(at: path), let view = place.existingView(query, for: style), let audience = view.audiences[style] else {
            return
        }
        var limits = changeLimits
        // Without its order it is told when that is there.
        guard let change = present(view, place, .whole, &limits) else { return }
        view.lastChange = outbox.batchNumber
        let shared = SharedChange(change, context.format, context.limits)
        if shared.isLarge(for: style) {
            _ = sendLater(shared.large, view, style, audience, shared: nil, least: context.limits.inlineBytes)
        } else {
            let frame = shared.frame(for: style)
            outbox.send(frame, to: audience)
            view.countEvents(frame.count &* audience.count, context.meter)
        }
        spend(limits)
    }

    /// What several observers of a client have missed alike.
    private final class SharedChange {
        private var size: ChangeSize
        private var parts: (any ChangeParts)?
        lazy var large = LargeChange(change, format, limit: readBytes)
        private let change: ViewChange
        private let format: any WireFormat
        private let readBytes: Int

        init(_ change: ViewChange, _ format: any WireFormat, _ limits: EngineLimits) {
            (self.change, self.format, readBytes) = (change, format, limits.readBytes)
            size = ChangeSize(change, bound: limits.inlineBytes)
        }

        func isLarge(for style: ObserverStyle) -> Bool { size.isLarge(for: style) }
        func frame(for style: ObserverStyle) -> [UInt8] { format.change(change, for: style, sharing: &parts) }
    }

    /// How a view is now, as a change from something that missed parts of it. Nil while its index is built: then it is told when that
    /// is there.
    private func present(_ view: View, _ place: ObservedPlace, _ missed: Staleness, _ limits: inout ChangeLimits) -> ViewChange? {
        let node = content.root.node(at: view.path)
        guard let all = view.shown.all(of: node, at: place) else { return nil }
        guard case .at(let paths) = missed else {
            return ViewChange(all, of: view, written: [], new: node, sequence: content.sequence, within: &limits)
        }
        return ViewChange(
            paths.map { (path: $0, value: content.root.node(at: $0)) }, of: view, new: node, sequence: content.sequence)
    }

    // MARK: Sending

    /// A frame that several views are told.
    private struct SharedFrame {
        var bytes: [UInt8]?
        var later: DeferredBytes?
    }

    /// - Parameter shared: what other views are told of the same change; nil when this one's is its own.
    private func send(_ change: ViewChange, to view: View, _ shared: inout SharedFrame?) {
        view.lastChange = outbox.batchNumber
        var parts: (any ChangeParts)?
        var size = ChangeSize(change, bound: limits.inlineBytes)
        var large: LargeChange?
        for (style, audience) in view.audiences {
            if case .events(_, _, .some) = style, !pacing.mayTell(view, style) { continue }
            let isShared = shared != nil && style == .patches(tag: nil)
            // Beyond the bound of all, nothing is measured either.
            let isFull = outbox.batchBytes > limits.outputBytes
            if isFull || size.isLarge(for: style) {
                let encoding = large ?? LargeChange(change, context.format, limit: limits.readBytes)
                large = encoding
                let least = isFull ? 0 : limits.inlineBytes
                let event = sendLater(encoding, view, style, audience, shared: isShared ? shared?.later : nil, least: least)
                if isShared { shared?.later = event }
            } else if isShared {
                let frame = shared?.bytes ?? context.format.change(change, for: style, sharing: &parts)
                shared?.bytes = frame
                outbox.send(frame, to: audience)
                view.countEvents(frame.count &* audience.count, context.meter)
            } else {
                let frame = context.format.change(change, for: style, sharing: &parts)
                outbox.send(frame, to: audience)
                view.countEvents(frame.count &* audience.count, context.meter)
            }
        }
    }

    /// Tells the observers of a view in one style of a large change.
    /// - Parameters:
    ///   - shared: the same frames, if they are being made for others already.
    ///   - least: bytes that they have at least.
    /// - Returns: what they are told.
    private func sendLater(
        _ change: LargeChange, _ view: View, _ style: ObserverStyle, _ audience: Audience, shared: DeferredBytes?, least: Int
    ) -> DeferredBytes {
        let event = shared ?? DeferredBytes(least)
        let observation = view.observation(style)
        for lane in audience.lanes.indices {
            // Suspended meanwhile: by what it is told of the same commit in another style.
            let (told, missing) = observation.mayConflate
                ? audience.lanes[lane].divided { $0.lag?.isSuspended != true } : (audience.lanes[lane], [])
            for client in missing { slowReaders.miss(observation, of: client) }
            if told.isEmpty { continue }
            outbox.send(event, to: told, lane: lane)
            for client in told { slowReaders.holdWhileTaking(client, suspends: style.isValue) }
        }
        if shared == nil { encodings.add(event, isHeavy: { change.isLarger(than: $0, for: style) }) { _ in change.prepare(style) } }
        return event
    }

    /// Tells one client of a large change that it had missed.
    private func sendLater(_ change: LargeChange, _ style: ObserverStyle, to client: Client, least: Int, suspends: Bool = true) {
        let event = DeferredBytes(least)
        outbox.send(event, to: client)
        slowReaders.holdWhileTaking(client, suspends: suspends)
        encodings.add(event, isHeavy: { change.isLarger(than: $0, for: style) }) { _ in
            client.isGone.load(ordering: .relaxed) ? .done(DeferredBytes.Outcome()) : change.prepare(style)
        }
    }
}

extension ObserverStyle {
    /// Whether an observer is told values only, each of which stands for all before it.
    var isValue: Bool { if case .events(_, let kinds, _) = self { kinds.areValues } else { self == .countStream } }
    /// Whether an observer may come back to be told what it has missed.
    var isResumable: Bool { if case .events(_, let kinds, _) = self { kinds.contains(.resumable) } else { false } }
    /// Whether an observer is told what is written, at its own places.
    var hasPatches: Bool {
        switch self {
        case .patches, .stream: true
        case .events, .countStream: false
        }
    }
    var hasCounts: Bool { if case .events(_, let kinds, _) = self { kinds.contains(.count) } else { self == .countStream } }
    /// Whether an observer is told nothing of the content but how many children it has.
    var isCount: Bool { if case .events(_, let kinds, _) = self { kinds.areCounts } else { self == .countStream } }
    /// Whether an observer is told whole values, also beside other events.
    var hasValues: Bool { if case .events(_, let kinds, _) = self { kinds.contains(.value) } else { false } }
    /// Whether an observer is told of children one by one.
    var isOfChildren: Bool { if case .events(_, let kinds, _) = self { !kinds.isDisjoint(with: .children) } else { false } }
}

extension [Client] {
    fileprivate func divided(_ isFirst: (Client) -> Bool) -> (first: [Client], second: [Client]) {
        allSatisfy(isFirst) ? (self, []) : (filter(isFirst), filter { !isFirst($0) })
    }
}
