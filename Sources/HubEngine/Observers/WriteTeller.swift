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
    /// Scratch: the views of the write that is looked at.
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
        defer { forget() }
        guard collect(around: path) else { return false }
        if views.isEmpty {
            if !isChange, old.hasChildren(at: path) { retire(old, replacing: old.node(at: path)) }
            return true
        }
        let new = value() ?? content.root.node(at: path)
        guard mayTell(new, at: path) else { return false }
        if !isChange {
            let before = old.node(at: path)
            if before == new { return true }
            retire(old, replacing: before)
        }
        tell(new, at: path)
        return true
    }

    // MARK: Before a write is made

    /// Finds the observers of a write, until they are forgotten. O(depth)
    /// - Returns: whether there is no more to do than to tell them of the write.
    func collect(around path: Path) -> Bool { places.collectPlainViews(around: path, into: &views) }

    /// Whether the write that was looked at has observers.
    var hasObservers: Bool { !views.isEmpty }

    func forget() { views.removeAll(keepingCapacity: true) }

    /// Whether a value is little enough to be told on the queue, and the batch has room for it.
    func mayTell(_ value: Node, at path: Path) -> Bool {
        let limits = context.limits
        var room = limits.inlineBytes - 8 * path.depth
        return room >= 0 && value.isWithin(&room) && outbox.batchBytes <= limits.outputBytes
    }

    /// Tells the observers that were found of the write.
    func tell(_ value: Node, at path: Path) {
        let frame = context.format.written(value, at: path)
        context.meter.spend(views.count)
        for view in views {
            view.lastChange = outbox.batchNumber
            // Of one style.
            for audience in view.audiences.values {
                outbox.send(frame, to: audience)
                view.countEvents(frame.count &* audience.count, context.meter)
            }
        }
    }

    /// A tree of which much is gone is released off the queue.
    private func retire(_ tree: Node, replacing node: Node) {
        var room = context.limits.largeWritePlaces
        if node.hasChildren, !node.hasNodes(within: &room) { batch.retire(tree) }
    }
}
