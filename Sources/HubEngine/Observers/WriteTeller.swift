import JSONTree

/// Tells the observers of a commit of one small write, around which nothing is observed but whole places whose observers are told the
/// writes themselves (`.patches`, as the stock SDKs are), none of them suspended. The write alone is the message, one for all of them:
/// what a commit makes of a place, and of what each view shows of it, is not worked out. `Publisher` tells of all other commits.
///
///     root ── rooms ── r1 ── text      a write at rooms/r1/text, with observers of rooms and of r1:
///               └───────┴────────────► { "p": "rooms/r1/text", "d": … }
/// Confined to the database queue.
final class WriteTeller {
    private let context: EngineContext
    private let content: Content
    private let places: PlaceTrie
    private let batch: Batch
    private let outbox: Outbox
    /// Scratch: the views of the write that is told.
    private var views: [View] = []

    init(_ context: EngineContext, _ content: Content, _ places: PlaceTrie, _ batch: Batch, _ outbox: Outbox) {
        self.context = context
        self.content = content
        self.places = places
        self.batch = batch
        self.outbox = outbox
    }

    /// Tells of a write that is in `content`, unless it left its place as it was. O(depth + its value up to `inlineBytes`)
    /// - Parameters:
    ///   - old: the tree before.
    ///   - value: what was written, as it is stored, asked for where there is an observer; nil to look it up.
    ///   - isChange: whether the content of the place is known to differ.
    /// - Returns: false when nothing was done: more is to be told than the write, the write is large, or the batch has much to say already.
    ///   The views of one write may go beyond that by the same frame each.
    func tell(_ path: Path, old: Node, value: () -> Node?, isChange: Bool) -> Bool {
        defer { views.removeAll(keepingCapacity: true) }
        guard places.collectPlainViews(around: path, into: &views) else { return false }
        if views.isEmpty {
            if !isChange, old.hasChildren(at: path) { retire(old, replacing: old.node(at: path)) }
            return true
        }
        let limits = context.limits
        let new = value() ?? content.root.node(at: path)
        var room = limits.inlineBytes - 8 * path.depth
        guard room >= 0, new.isWithin(&room), outbox.batchBytes <= limits.outputBytes else { return false }
        if !isChange {
            let before = old.node(at: path)
            if before == new { return true }
            retire(old, replacing: before)
        }
        let frame = context.format.written(new, at: path)
        context.meter.spend(views.count)
        for view in views {
            view.lastChange = outbox.batchNumber
            // Of one style.
            for audience in view.audiences.values {
                outbox.send(frame, to: audience)
                view.countEvents(frame.count &* audience.count, context.meter)
            }
        }
        return true
    }

    /// A tree of which much is gone is released off the queue.
    private func retire(_ tree: Node, replacing node: Node) {
        var room = context.limits.largeWritePlaces
        if node.hasChildren, !node.hasNodes(within: &room) { batch.retire(tree) }
    }
}
