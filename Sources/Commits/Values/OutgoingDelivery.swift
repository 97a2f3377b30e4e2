public import JSONTree

/// One attempt at a delivery: what a `DeliverySender` sends.
public enum OutgoingDelivery: Sendable {
    /// A notification to one device. `row` is the device's row as its app has stored it, `path` the row's place.
    case notification(OutgoingNotification, row: Node, path: Path)
    /// Several notifications to one mail address, as one mail.
    case digest([OutgoingNotification], row: Node, path: Path)
    /// An event to a webhook of the configuration: `{"path": "/feedback/f1", "event": "change", "before": …,
    /// "after": …, "seq": 42, "at": 1790000000000, "database": "default"}`.
    case event(id: String, webhook: String, Node)
}

/// A message to one person, as the rules have composed it.
public struct OutgoingNotification: Sendable, Equatable {
    /// The same for each attempt.
    public var id: String
    public var title: String
    public var body: String
    public var url: String?
    /// A later notification with the same tag replaces this one on the device.
    public var tag: String?
    public var isUrgent: Bool
    /// A tag of BCP 47 such as `el`.
    public var language: String?
    /// When it is useless, ms since the epoch.
    public var expiresAt: Int64?

    public init(
        id: String, title: String, body: String = "", url: String? = nil, tag: String? = nil, isUrgent: Bool = false,
        language: String? = nil, expiresAt: Int64? = nil
    ) {
        (self.id, self.title, self.body, self.url, self.tag) = (id, title, body, url, tag)
        (self.isUrgent, self.language, self.expiresAt) = (isUrgent, language, expiresAt)
    }
}

/// What became of an attempt.
public enum DeliveryResult: Sendable, Equatable {
    case delivered
    /// The device no longer exists.
    case gone
    /// A temporary fault. `afterMs` is the wait that the receiver asks for.
    case later(afterMs: Int64?, reason: String)
    /// Nothing was sent, for a reason of this hub; it does not count as an attempt.
    case notAttempted(reason: String)
    /// It will never be accepted.
    case refused(reason: String)
}

/// Sends deliveries to phones, inboxes and other programs. The engine keeps what is to be sent; a sender stores nothing.
public protocol DeliverySender: Sendable {
    /// How many more deliveries can be sent now, and how many of these may be mails. From any thread.
    var capacity: Int { get }
    var mailCapacity: Int { get }
    /// Starts an attempt. From any thread, without blocking.
    /// - Parameter completion: called exactly once, on any thread.
    func send(_ delivery: OutgoingDelivery, _ completion: @escaping @Sendable (DeliveryResult) -> Void)
}
