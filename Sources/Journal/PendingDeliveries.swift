public import JSONTree

/// The deliveries that commits have caused and that are not over: notifications, mails, calls of webhooks. A delivery is stored with the
/// commit that causes it, so that neither exists without the other. A dead letter, which no further attempt can help, stays until it is
/// dropped.
///
/// ```
/// set, in the causing commit ─► set again after a failed attempt, as a dead letter, or for the devices found ─► removed
/// ```
/// A value type whose copies share storage, so that keeping the last durable one for a rollback costs nothing.
public struct PendingDeliveries: Sendable {
    private var items = ChildMap()

    public init() {}

    public var isEmpty: Bool { items.isEmpty }
    public var count: Int { items.count }

    /// A delivery, as its creator described it; nil if there is none. O(log n)
    public subscript(id: Key) -> Node? { items[id] }

    /// Adds or replaces a delivery; null removes it. O(log n)
    /// - Parameter id: unique among all deliveries of the namespace, ever.
    public mutating func apply(_ id: Key, _ item: Node) { items.set(id, item) }

    /// The deliveries from an id on, ascending. Lazily: O(log n), and O(1) for each.
    public func ascending(from id: Key?) -> some Sequence<(key: Key, node: Node)> { items.ascending(from: id) }

    /// Calls `body` with each delivery, in the order of their ids.
    public func forEach(_ body: (Key, Node) -> Void) { for (id, item) in items { body(id, item) } }
}
