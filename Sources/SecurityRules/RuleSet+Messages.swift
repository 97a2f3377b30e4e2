public import JSONTree

/// Messages that clients receive about refused writes: the `.message` beside a rule.
extension RuleSet {
    /// Whether any rule has a message; if not, refusals need no further evaluation.
    public var hasMessages: Bool { program.hasMessages }

    /// The messages of the rules that refuse a write, each once, in the order of the file. Empty if only rules without a message refuse.
    /// Costs as much as `allowsWrite` for an allowed write.
    ///
    /// If no `.write` grants a location, these are the messages of the `.write` rules evaluated for it. Then `.validate` rules are not
    /// evaluated, as the client may not know the stored data. At most `RulesLimits.messages`.
    /// - Parameters: as for `allowsWrite`.
    public func messages(
        ofRefused locations: [Path], validating added: [Path] = [], old: Node, new: Node, auth: Node, now: Int64
    ) -> [String] {
        guard hasMessages else { return [] }
        let violated = Evaluator.run(program, old: old, new: new, auth: auth, now: now, query: nil) {
            $0.violated(locations, validating: added)
        }
        var messages: [String] = []
        // Places are numbered in the order of the file.
        for place in violated.places.sorted() {
            if let message = program.details[Int(place)].messages[violated.kind], !messages.contains(message) { messages.append(message) }
        }
        return messages
    }
}

/// The rules that a write violates.
final class Violations {
    private(set) var places: [Int32] = []
    private let limit: Int

    init(limit: Int) { self.limit = limit }

    /// Adds a place; false if the limit is reached.
    @discardableResult
    func add(_ place: Int32) -> Bool {
        if places.contains(place) { return true }
        guard places.count < limit else { return false }
        places.append(place)
        return true
    }
}
