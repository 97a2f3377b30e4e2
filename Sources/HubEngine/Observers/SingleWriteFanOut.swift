import JSONTree

/// The fast path for a commit of one small write. It applies if all affected observers are unsuspended ones of whole places that receive the writes
/// themselves (`.patches`, as stock SDKs do). All of them are sent one message made of the write, and no view's change is computed. `Publisher`
/// handles all other commits.
///
///     root ── rooms ── r1 ── text      a write at rooms/r1/text, with observers of rooms and of r1:
///               └───────┴────────────► { "p": "rooms/r1/text", "d": … }
/// Confined to the database queue.
final class SingleWriteFanOut {
    private let context: EngineContext
    private let format: any WireFormat
    private let content: Content
    private let places: PlaceTrie
    private let batch: Batch
    private let outbox: Outbox
    /// Scratch: the views affected by the current write.
    private var views: [View] = []

    init(_ context: EngineContext, _ format: any WireFormat, _ content: Content, _ places: PlaceTrie, _ batch: Batch, _ outbox: Outbox) {
        self.context = context
        self.format = format
        self.content = content
        self.places = places
        self.batch = batch
        self.outbox = outbox
    }

    /// Notifies observers of a write already in `content`, unless it changed nothing. O(depth + its value up to `inlineBytes`)
    /// - Parameters:
    ///   - old: the tree before the write.
    ///   - value: the written value as stored, evaluated only if there are observers; nil to look it up.
    ///   - isChange: true if the value is known to differ.
    /// - Returns: false, with nothing done, if observers need more than the write, if the write is large, or if the batch's output limit is reached.
    ///   The views of one write may exceed that limit by one frame each.
    func notify(_ path: Path, old: Node, value: () -> Node?, isChange: Bool) -> Bool {
        defer { forget() }
        guard collect(around: path) else { return false }
        if views.isEmpty {
            if !isChange, old.hasChildren(at: path) { retire(old, replacing: old.node(at: path)) }
            return true
        }
        let new = value() ?? content.root.node(at: path)
        guard canSend(new, at: path) else { return false }
        if !isChange {
            let before = old.node(at: path)
            if before == new { return true }
            retire(old, replacing: before)
        }
        notify(new, at: path)
        return true
    }

    // MARK: Before a write is applied

    /// Collects the affected views until `forget`. O(depth)
    /// - Returns: true if observers need only the write itself.
    func collect(around path: Path) -> Bool { places.collectPlainViews(around: path, into: &views) }

    /// True if `collect` found observers.
    var hasObservers: Bool { !views.isEmpty }

    func forget() { views.removeAll(keepingCapacity: true) }

    /// True if a value is small enough to be sent from the queue, and the batch's output limit leaves room.
    func canSend(_ value: Node, at path: Path) -> Bool {
        let limits = context.limits
        var room = limits.inlineBytes - 8 * path.depth
        return room >= 0 && value.isWithin(&room) && outbox.batchBytes <= limits.outputBytes
    }

    /// Sends the write to the collected views.
    func notify(_ value: Node, at path: Path) {
        let frame = format.written(value, at: path)
        context.meter.spend(views.count)
        for view in views {
            view.lastChange = outbox.batchNumber
            // Plain views have one style.
            for audience in view.audiences.values {
                outbox.send(frame, to: audience)
                view.countEvents(frame.count &* audience.count, in: context.meter.eventBytes)
            }
        }
    }

    /// Retires the old tree if a large subtree was replaced, so that it is released off the queue.
    private func retire(_ tree: Node, replacing node: Node) {
        var room = context.limits.largeWritePlaces
        if node.hasChildren, !node.hasNodes(within: &room) { batch.retire(tree) }
    }
}
