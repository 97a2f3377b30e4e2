package import JSONTree
package import SecurityRules

/// A delivery as it is kept beside the tree, from the commit that causes it until it is over.
///
/// ```
/// notification of a row ─► its devices, one delivery each ─► attempts ─┬─► delivered: removed
/// event for a webhook ─────────────────────────────────────► attempts ─┴─► dead letter, until an administrator retries or discards it
/// ```
/// It has two entries in `PendingDeliveries`: the content under its id, which never changes, and the state under `stateID`, once an attempt has
/// failed. So a failed attempt stores some bytes, however large the content is.
package struct StoredDelivery: Sendable, Equatable {
    package var content: RuleDelivery
    /// The row of devices that it goes to. Nil for a notification whose devices are not looked up yet, and for events.
    package var device: Path?
    package var state: State

    package struct State: Sendable, Equatable {
        /// When it is attempted next, and last. Ms since the epoch.
        package var due: Int64
        package var expires: Int64
        /// Failed attempts.
        package var attempts = 0
        /// Why there are no more attempts, and since when; nil while there are.
        package var dead: DeadLetter?

        package init(due: Int64, expires: Int64, attempts: Int = 0, dead: DeadLetter? = nil) {
            (self.due, self.expires, self.attempts, self.dead) = (due, expires, attempts, dead)
        }
    }

    package struct DeadLetter: Sendable, Equatable {
        package var reason: String
        package var at: Int64

        package init(reason: String, at: Int64) { (self.reason, self.at) = (reason, at) }
    }

    package init(_ content: RuleDelivery) {
        self.content = content
        state = State(due: content.due, expires: content.expires)
    }

    package var notice: RuleDelivery.Notice? { if case .notification(let notice) = content.content { notice } else { nil } }

    /// Whether the recipient's devices are to be looked up when it is due.
    package var isNotice: Bool { notice != nil && device == nil }

    /// What it shares with others that leave in order: the device, or the webhook and the node. Nil for a notification whose devices are not
    /// looked up yet.
    package var route: String? {
        switch content.content {
        case .notification: device.map { $0.description }
        case .event(let webhook, _, _): "\(webhook):\(content.source)"
        }
    }

    // MARK: Ids

    /// The id of a delivery. It sorts by commit, and contains its time, so that no other commit has it: not after a restore, nor in another
    /// database.
    /// - Parameters:
    ///   - sequence: of the commit that causes it.
    ///   - index: among the deliveries of the commit.
    package static func id(_ sequence: UInt64, _ index: Int, at ms: Int64) -> Key {
        Key("\(padded(sequence, 11))-\(padded(UInt64(index), 3))\(padded(UInt64(max(0, ms)), 9))")
    }

    /// The id of a notification's delivery to one of its devices. Ids are keys of data, so not every character is possible.
    package static func id(_ notice: Key, device: Int) -> Key { Key("\(notice.string):\(padded(UInt64(device), 2))") }
    /// The id of the notification that a delivery to a device belongs to.
    package static func noticeID(of id: Key) -> String { String(id.string.prefix { $0 != ":" }) }

    /// The key of a delivery's state. It follows the delivery.
    package static func stateID(_ id: Key) -> Key { Key("\(id.string)~") }
    package static func isState(_ id: Key) -> Bool { id.string.hasSuffix("~") }

    /// The sequence number of the commit that an id names.
    package static func sequence(of id: Key) -> Int64 { id.string.split(separator: "-").first.flatMap { Int64($0, radix: 36) } ?? 0 }

    private static func padded(_ number: UInt64, _ digits: Int) -> String {
        let text = String(number, radix: 36)
        return String(repeating: "0", count: max(0, digits - text.utf8.count)) + text
    }
}

// MARK: Storage

extension StoredDelivery {
    /// The form in which the journal stores the content.
    package var contentNode: Node {
        func text(_ value: String?) -> Node { value.map { .string($0) } ?? .null }
        func path(_ value: Path?) -> Node { value.map { .string($0.relativeText) } ?? .null }
        var members: [(String, Node)] = [
            ("rule", .string(content.rule)), ("source", path(content.source)), ("event", .string(content.event.rawValue)),
            ("at", .int(content.at)), ("due", .int(content.due)), ("expires", .int(content.expires)), ("device", path(device)),
        ]
        switch content.content {
        case .notification(let notice):
            members += [
                ("devices", path(notice.devices)), ("title", notice.title), ("body", notice.body), ("url", text(notice.url)),
                ("tag", text(notice.tag)), ("urgent", notice.isUrgent ? true : .null), ("group", text(notice.group)),
                ("acknowledged", path(notice.acknowledged)), ("funnel", path(notice.funnel)), ("quiet", notice.quiet),
                ("unless", notice.unless.map { list([.bool(true)] + $0.map { .string($0) }) } ?? .null),
                ("leftOut", notice.leftOut == 0 ? .null : .int(Int64(notice.leftOut))),
                // Never null, so that each keeps its place in the list.
                ("combined", list(notice.combined.map { .object([("n", true), ("t", $0.title), ("b", $0.body)].filter { $0.1.exists }) })),
            ]
        case .event(let webhook, let before, let after):
            members += [("webhook", .string(webhook)), ("before", before), ("after", after)]
        }
        return .object(members.filter { $0.1.exists }.map { (Key($0.0), $0.1) })
    }

    private func list(_ nodes: [Node]) -> Node { .object(nodes.enumerated().map { (Key(index: $0), $1) }) }

    /// The form in which the journal stores the state.
    package var stateNode: Node {
        let members: [(Key, Node)] = [
            ("attempts", .int(Int64(state.attempts))), ("dead", state.dead.map { .string($0.reason) } ?? .null),
            ("deadAt", state.dead.map { .int($0.at) } ?? .null), ("due", .int(state.due)), ("expires", .int(state.expires)),
        ]
        return .object(members.filter { $0.1.exists })
    }

    /// - Parameter state: null for one that was never attempted.
    /// - Returns: nil for a form that no hub has stored.
    package init?(_ node: Node, state: Node) {
        func text(_ name: Key) -> String? { node.child(name).text }
        func path(_ name: Key) -> Path? { text(name).map { Path(relative: $0) } }
        guard let rule = text("rule"), let source = path("source"), let event = text("event").flatMap(NodeEvent.init),
            let at = node.child("at").int, let due = node.child("due").int, let expires = node.child("expires").int
        else { return nil }
        let made: RuleDelivery.Content
        if let webhook = text("webhook") {
            made = .event(webhook: webhook, before: node.child("before"), after: node.child("after"))
        } else if let devices = path("devices") {
            var notice = RuleDelivery.Notice(devices: devices)
            (notice.title, notice.body, notice.isUrgent) = (node.child("title"), node.child("body"), node.child("urgent") == true)
            (notice.url, notice.tag, notice.group) = (text("url"), text("tag"), text("group"))
            (notice.acknowledged, notice.funnel, notice.quiet) = (path("acknowledged"), path("funnel"), node.child("quiet"))
            let unless = node.child("unless")
            notice.unless = unless.exists ? unless.children.compactMap { $1.text } : nil
            notice.leftOut = Int(clamping: node.child("leftOut").int ?? 0)
            notice.combined = node.child("combined").children.map { .init(title: $1.child("t"), body: $1.child("b")) }
            made = .notification(notice)
        } else {
            return nil
        }
        content = RuleDelivery(rule: rule, source: source, event: event, at: at, due: due, expires: expires, content: made)
        device = path("device")
        self.state = State(
            due: state.child("due").int ?? due, expires: state.child("expires").int ?? expires,
            attempts: Int(clamping: state.child("attempts").int ?? 0),
            dead: state.child("dead").text.map { DeadLetter(reason: $0, at: state.child("deadAt").int ?? at) })
    }
}

extension Node {
    fileprivate var text: String? { if case .string(let text) = leaf { text.string } else { nil } }
    fileprivate var int: Int64? { if case .int(let number) = leaf { number } else { nil } }

    /// Bytes that its texts and keys take, and some for each of several members.
    package var deliveryBytes: Int {
        var left = Int.max / 2
        _ = isWithin(&left)
        return Int.max / 2 - left + 400
    }
}
