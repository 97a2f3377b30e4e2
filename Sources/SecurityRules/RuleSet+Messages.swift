public import JSONTree

/// What clients are told about refused writes: the `.message` beside a rule.
extension RuleSet {
    /// Whether any rule has a message; else a refusal need not be looked at.
    public var hasMessages: Bool { program.hasMessages }

    /// The messages of the rules that refuse a write, in the order of the file and each once; none where only rules without a
    /// message refuse. Costs what `allowsWrite` does for a write that is allowed.
    ///
    /// Where no `.write` grants a location, these are the messages of those that were asked; `.validate` rules are not asked then, as the
    /// client may not know what is stored. At most `RulesLimits.messages`.
    /// - Parameters: as for `allowsWrite`.
    public func messages(
        ofRefused locations: [Path], validating added: [Path] = [], old: Node, new: Node, auth: Node, now: Int64
    ) -> [String] {
        guard hasMessages else { return [] }
        let violated = Evaluator.run(program, old: old, new: new, auth: auth, now: now, query: nil) {
            $0.violated(locations, validating: added)
        }
        var messages: [String] = []
        // A place has a higher number than those before it in the file.
        for place in violated.places.sorted() {
            if let message = program.details[Int(place)].messages[violated.kind], !messages.contains(message) { messages.append(message) }
        }
        return messages
    }
}

/// The rules that a write violates.
final class Violations {
    /// Places of the rules, each once.
    private(set) var places: [Int32] = []
    private let limit: Int

    init(limit: Int) { self.limit = limit }

    /// Notes a place; false when no more are kept.
    @discardableResult
    func add(_ place: Int32) -> Bool {
        if places.contains(place) { return true }
        guard places.count < limit else { return false }
        places.append(place)
        return true
    }
}
