public import JSONTree

extension RuleDelivery {
    /// Its form in cases (`"sends"`) and explanations: what is sent to whom, without times, ids and counters.
    ///
    ///     {"devices": "/devices/ana", "title": "Lunch", "body": "at one", "url": "/n/1", "urgent": true, "wait": 5000}
    ///     {"webhook": "website", "path": "/feedback/f1", "after": {…}}
    ///
    /// `wait` is in ms from the commit.
    public var summary: Node {
        var members: [(String, Node)] = []
        switch content {
        case .notification(let notice):
            members = [
                ("devices", .string(notice.devices.description)), ("title", notice.title), ("body", notice.body),
                ("url", notice.url.map { .string($0) } ?? .null), ("tag", notice.tag.map { .string($0) } ?? .null),
                ("urgent", notice.isUrgent ? true : .null), ("combine", notice.group.map { .string($0) } ?? .null),
                ("wait", .int(due - at)), ("escalation", notice.unless == nil ? .null : true),
            ]
        case .event(let webhook, let before, let after):
            members = [("webhook", .string(webhook)), ("path", .string(source.description)), ("before", before), ("after", after)]
        }
        return .object(members.filter { $0.1.exists }.map { (Key($0.0), $0.1) })
    }

    /// Whether it has all members of an expected delivery, with its values.
    func matches(_ expected: Node) -> Bool {
        let summary = summary
        return expected.hasChildren && expected.children.allSatisfy { key, value in summary.child(key) == value }
    }
}

extension [RuleDelivery] {
    /// How it differs from the expected deliveries, in any order; nil if each matches one of these.
    func mismatch(_ expected: [Node]) -> String? {
        var left = self
        for delivery in expected {
            guard let i = left.firstIndex(where: { $0.matches(delivery) }) else {
                let sent = isEmpty ? "nothing was" : "there was \(map(\.summary.json).joined(separator: ", "))"
                return "expected \(delivery.json) to be sent, \(sent)"
            }
            left.remove(at: i)
        }
        return left.first.map { "\($0.summary.json) is sent by \($0.rule), and was not expected" }
    }
}
