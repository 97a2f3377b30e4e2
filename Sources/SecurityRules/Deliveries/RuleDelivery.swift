public import JSONTree

/// A delivery that a commit causes by a `.notify` or a `.webhook`, before it is stored.
public struct RuleDelivery: Sendable, Equatable {
    public enum Content: Sendable, Equatable {
        case notification(Notice)
        /// An event for a webhook of the configuration; `before` and `after` are the node's values.
        case event(webhook: String, before: Node, after: Node)
    }

    /// What a notification says, and to whom.
    public struct Notice: Sendable, Equatable {
        /// The place whose children are the recipient's devices.
        public var devices: Path
        /// A text, or an object of texts by language.
        public var title = Node.null
        public var body = Node.null
        public var url: String?
        public var tag: String?
        public var isUrgent = false
        /// Notifications to the same devices with the same group are combined.
        public var group: String?
        /// The path below the source that exists once the recipient has seen it.
        public var acknowledged: Path?
        /// Where notifications are counted.
        public var funnel: Path?
        /// The quiet hours: from and to in minutes after midnight, and the zone. Null without.
        public var quiet = Node.null
        /// Of a notification that follows another one (`then`): the expressions of which none may hold when it is due. Nil for a first one.
        public var unless: [String]?

        /// The texts of other notifications of the same group, and the number of those left out.
        public var combined: [Texts] = []
        public var leftOut = 0

        public struct Texts: Sendable, Equatable {
            public var title: Node
            public var body: Node

            public init(title: Node, body: Node) { (self.title, self.body) = (title, body) }
        }

        public init(devices: Path) { self.devices = devices }
    }

    /// The rule's name, such as `/notifications/$u/$n.notify`.
    public var rule: String
    /// The node that it follows from.
    public var source: Path
    public var event: NodeEvent
    /// When the commit was made; when it is attempted first, and last. Ms since the epoch.
    public var at: Int64
    public var due: Int64
    public var expires: Int64
    public var content: Content

    public init(rule: String, source: Path, event: NodeEvent, at: Int64, due: Int64, expires: Int64, content: Content) {
        (self.rule, self.source, self.event, self.at) = (rule, source, event, at)
        (self.due, self.expires, self.content) = (due, expires, content)
    }
}

extension RuleDelivery.Notice {
    /// Most notifications whose texts one of several shows.
    private static let combinedTexts = 10

    /// Adds another notification of the group.
    public mutating func combine(_ other: RuleDelivery.Notice) {
        let room = Self.combinedTexts - 1 - combined.count
        if room > 0 { combined.append(Texts(title: other.title, body: other.body)) } else { leftOut += 1 }
        if other.isUrgent { isUrgent = true }
    }

    /// The title and the body for a device's language. Of several notifications each is a line of the body.
    public func composed(language: String?) -> (title: String, body: String, language: String?) {
        let (title, found) = Self.text(title, language: language)
        let body = Self.text(body, language: language).text
        guard !combined.isEmpty else { return (title, body, found) }
        var texts = [(title: title, body: body)]
        texts += combined.map { (Self.text($0.title, language: language).text, Self.text($0.body, language: language).text) }
        let isOneTitle = texts.allSatisfy { $0.title == title }
        var lines = texts.map { isOneTitle ? $0.body : $0.body.isEmpty ? $0.title : "\($0.title): \($0.body)" }
        if leftOut > 0 { lines.append("+ \(leftOut)") }
        return (
            isOneTitle ? title : "\(title) + \(texts.count - 1 + leftOut)", lines.filter { !$0.isEmpty }.joined(separator: "\n"), found
        )
    }

    /// The text for a device's language: that of the language, of its first subtag, of `en`, or the first.
    public static func text(_ texts: Node, language: String?) -> (text: String, language: String?) {
        guard texts.hasChildren else {
            if case .string(let text) = texts.leaf { return (text.string, nil) }
            return ("", nil)
        }
        let wanted = [language, language?.split(separator: "-").first.map(String.init), "en"].compactMap { $0 }
        for name in wanted {
            if case .string(let text) = texts.child(Key(name)).leaf { return (text.string, name) }
        }
        for (key, text) in texts.children { if case .string(let text) = text.leaf { return (text.string, key.string) } }
        return ("", nil)
    }
}
