package import JSONTree
package import SecurityRules

/// A delivery as it is kept beside the tree, from the commit that causes it until it is over.
///
/// ```
/// notification of a row ─► its devices, one delivery each ─► attempts ─┬─► delivered: removed
/// event for a webhook ─────────────────────────────────────► attempts ─┴─► dead letter, until somebody retries or discards it
/// ```
package struct StoredDelivery: Sendable, Equatable {
    package var content: RuleDelivery
    /// The row of devices that it goes to. Nil for a notification whose devices are not looked up yet, and for events.
    package var device: Path?
    /// Failed attempts.
    package var attempts = 0
    /// When it is attempted next, ms since the epoch.
    package var due: Int64
    /// Why there are no more attempts, and since when; nil while there are.
    package var dead: DeadLetter?

    package struct DeadLetter: Sendable, Equatable {
        package var reason: String
        package var at: Int64

        package init(reason: String, at: Int64) { (self.reason, self.at) = (reason, at) }
    }

    package init(_ content: RuleDelivery) {
        self.content = content
        due = content.due
    }

    /// Whether the recipient's devices are to be looked up when it is due.
    package var isNotice: Bool { if case .notification = content.content { device == nil } else { false } }

    package var notice: RuleDelivery.Notice? { if case .notification(let notice) = content.content { notice } else { nil } }

    /// What it shares with others that must leave in order: the device, or the webhook and the node. Nil for a notification whose devices
    /// are not looked up yet.
    package var lane: String? {
        switch content.content {
        case .notification: device.map { $0.description }
        case .event(let webhook, _, _): "\(webhook):\(content.source)"
        }
    }

    /// The id of a delivery: it sorts by commit, and is unique in a namespace for ever.
    /// - Parameters:
    ///   - sequence: of the commit that causes it.
    ///   - index: among the deliveries of the commit.
    package static func id(_ sequence: UInt64, _ index: Int) -> Key { Key("\(padded(sequence, 11))-\(padded(UInt64(index), 3))") }

    /// The sequence number of the commit that an id names.
    package static func sequence(of id: Key) -> Int64 {
        id.string.split(separator: "-").first.flatMap { Int64($0, radix: 36) } ?? 0
    }

    /// The id of a notification's delivery to one of its devices.
    package static func id(_ notice: Key, device: Int) -> Key { Key("\(notice.string).\(padded(UInt64(device), 2))") }

    private static func padded(_ number: UInt64, _ digits: Int) -> String {
        let text = String(number, radix: 36)
        return String(repeating: "0", count: max(0, digits - text.utf8.count)) + text
    }
}

// MARK: Storage

extension StoredDelivery {
    /// The form in which the journal stores it.
    package var node: Node {
        func text(_ value: String?) -> Node { value.map { .string($0) } ?? .null }
        func path(_ value: Path?) -> Node { value.map { .string($0.relativeText) } ?? .null }
        var members: [(String, Node)] = [
            ("rule", .string(content.rule)), ("source", path(content.source)), ("event", .string(content.event.rawValue)),
            ("at", .int(content.at)), ("first", .int(content.due)), ("expires", .int(content.expires)), ("due", .int(due)),
            ("device", path(device)), ("attempts", attempts == 0 ? .null : .int(Int64(attempts))),
            ("dead", text(dead?.reason)), ("deadAt", dead.map { .int($0.at) } ?? .null),
        ]
        switch content.content {
        case .notification(let notice):
            members += [
                ("devices", path(notice.devices)), ("title", notice.title), ("body", notice.body), ("url", text(notice.url)),
                ("tag", text(notice.tag)), ("urgent", notice.isUrgent ? true : .null), ("group", text(notice.group)),
                ("acknowledged", path(notice.acknowledged)), ("funnel", path(notice.funnel)),
                ("escalation", notice.escalation.map { .int(Int64($0)) } ?? .null),
                ("leftOut", notice.leftOut == 0 ? .null : .int(Int64(notice.leftOut))),
                ("combined", .object(notice.combined.enumerated().map { (Key(index: $0), Self.node(of: $1)) })),
            ]
        case .event(let webhook, let before, let after):
            members += [("webhook", .string(webhook)), ("before", before), ("after", after)]
        }
        return .object(members.filter { $0.1.exists }.map { (Key($0.0), $0.1) })
    }

    private static func node(of texts: RuleDelivery.Notice.Texts) -> Node {
        // Never null, so that it keeps its place in the list.
        .object([("n", true), ("t", texts.title), ("b", texts.body)].filter { $0.1.exists })
    }

    /// Nil for a form that no hub has stored.
    package init?(_ node: Node) {
        func text(_ name: Key) -> String? { if case .string(let text) = node.child(name).leaf { text.string } else { nil } }
        func path(_ name: Key) -> Path? { text(name).map { Path(relative: $0) } }
        func int(_ name: Key) -> Int64? { if case .int(let number) = node.child(name).leaf { number } else { nil } }
        guard let rule = text("rule"), let source = path("source"), let event = text("event").flatMap(NodeEvent.init), let at = int("at"),
            let first = int("first"), let expires = int("expires"), let due = int("due")
        else { return nil }
        let made: RuleDelivery.Content
        if let webhook = text("webhook") {
            made = .event(webhook: webhook, before: node.child("before"), after: node.child("after"))
        } else if let devices = path("devices") {
            var notice = RuleDelivery.Notice(devices: devices)
            (notice.title, notice.body, notice.isUrgent) = (node.child("title"), node.child("body"), node.child("urgent") == true)
            (notice.url, notice.tag, notice.group) = (text("url"), text("tag"), text("group"))
            (notice.acknowledged, notice.funnel) = (path("acknowledged"), path("funnel"))
            notice.escalation = int("escalation").map { Int(clamping: $0) }
            notice.leftOut = Int(clamping: int("leftOut") ?? 0)
            notice.combined = node.child("combined").children.map { .init(title: $1.child("t"), body: $1.child("b")) }
            made = .notification(notice)
        } else {
            return nil
        }
        content = RuleDelivery(rule: rule, source: source, event: event, at: at, due: first, expires: expires, content: made)
        (device, attempts, self.due) = (path("device"), Int(clamping: int("attempts") ?? 0), due)
        dead = text("dead").map { DeadLetter(reason: $0, at: int("deadAt") ?? at) }
    }
}
