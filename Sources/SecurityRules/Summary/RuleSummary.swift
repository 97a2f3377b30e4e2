public import JSONTree

/// What the rules say about one place, in sentences for readers who do not know the language of rules.
public struct PlaceSummary: Sendable, Hashable {
    /// The place with its wildcards, such as `/posts/$post`; of a function its head, such as `isFriend(a, b)`.
    public let place: String
    public internal(set) var sentences: [RuleSentence]

    public init(place: String, sentences: [RuleSentence]) { (self.place, self.sentences) = (place, sentences) }
}

/// One sentence about a place. Names of children, places and expressions stand in backticks.
public struct RuleSentence: Sendable, Hashable {
    /// What it is about.
    public enum Kind: String, Sendable, Hashable, CaseIterable {
        /// Who may read the place, and who may count its children.
        case read
        /// Who may write it.
        case write
        /// Which values are accepted.
        case valid
        /// What the hub adds: fills in, discards, removes, copies, sends, counts, ends.
        case follows
        /// How often a user may write.
        case limits
        /// Which queries are served.
        case indexes
        /// What a function stands for.
        case function
        /// Keys without effect: only of rules that an earlier version accepted.
        case unsupported
    }

    public let kind: Kind
    public let text: String
    /// The keys of the file that it covers, by their names in `RuleSet.declarations`.
    public let keys: [String]
    /// The expressions that it quotes, as in the file but for line breaks.
    let quotes: [String]

    init(kind: Kind, text: String, keys: [String], quotes: [String]) {
        (self.kind, self.text, self.keys, self.quotes) = (kind, text, keys, quotes)
    }

    /// A sentence from elsewhere, such as a hub's answer.
    public init(kind: Kind, text: String) { self.init(kind: kind, text: text, keys: [], quotes: []) }
}

extension RuleSet {
    /// The file in sentences: for each place who may read it, who may write it, and what follows from a write. In the order of the file,
    /// the functions at the end. O(text), but access rules are repeated at the places that inherit them.
    ///
    /// Derived from the text alone. An expression without words of its own is quoted, so that no sentence says more than the rule. What the
    /// sentences say holds for clients; administrators may read and write everything.
    public var summary: [PlaceSummary] {
        let text = RulesText(self.text)
        var parser = LocatedJSONParser(text)
        guard let json = try? parser.parse() else { return [] }
        var reader = RulesFileReader()
        reader.isInForce = !unsupported.isEmpty
        let root = reader.read(json)
        let functions = SummaryFunctions(reader.functions)
        var writer = SummaryWriter(functions: functions)
        writer.add(root, at: [], above: [])
        if unsupported.isEmpty { return writer.places + functions.sentences }
        return markIgnored(writer.places, json, text) + functions.sentences + withoutEffect
    }

    /// The sentences of the place that decides about a path in the data, and of those below it; all for the root. Includes the functions.
    public func summary(at path: Path) -> [PlaceSummary] {
        let all = summary
        var nearest = nearestPlace(to: path)
        // A field is listed with the place above it.
        while !nearest.isRoot, !all.contains(where: { $0.place == "\(nearest)" }) { nearest = Path(nearest.keys.dropLast()) }
        if nearest.isRoot { return path.isRoot ? all : all.filter { $0.place == "/" || !$0.place.hasPrefix("/") } }
        return all.filter { $0.place == "\(nearest)" || $0.place.hasPrefix("\(nearest)/") || !$0.place.hasPrefix("/") }
    }

    /// Marks the sentences of keys that this version ignores, in whole or in part.
    private func markIgnored(_ places: [PlaceSummary], _ json: LocatedJSON, _ text: RulesText) -> [PlaceSummary] {
        var keys: [(name: String, offset: Int)] = []
        func collect(_ json: LocatedJSON, at place: String) {
            guard case .object(let members) = json.value else { return }
            for member in members {
                let name = member.name.value
                if name.hasPrefix(".") { keys.append(((place.isEmpty ? "/" : place) + name, member.name.quote)) } else {
                    collect(member.value, at: "\(place)/\(name)")
                }
            }
        }
        guard case .object(let members) = json.value, let rules = members.first(where: { $0.name.value == "rules" }) else { return places }
        collect(rules.value, at: "")
        // A fault stands behind the key whose value has it, and before the next one.
        let ignored = Set(unsupported.compactMap { fault in
            keys.last { text.position(at: $0.offset) <= (fault.line, fault.column) }?.name
        })
        return places.map { place in
            var place = place
            place.sentences = place.sentences.map { sentence in
                guard !ignored.isDisjoint(with: sentence.keys) else { return sentence }
                let text = sentence.text + " In whole or in part without effect: see the end."
                return RuleSentence(kind: sentence.kind, text: text, keys: sentence.keys, quotes: sentence.quotes)
            }
            return place
        }
    }

    private var withoutEffect: [PlaceSummary] {
        let sentences = unsupported.map { fault in
            RuleSentence(kind: .unsupported, text: "\(fault.line):\(fault.column): \(fault.message)", keys: [], quotes: [])
        }
        return [PlaceSummary(place: "Without effect", sentences: sentences)]
    }
}

extension Sequence<PlaceSummary> {
    /// As lines of text: each place, and its sentences indented below it.
    public var lines: [String] {
        flatMap { place in
            // A place without access is said in one line.
            let closed = place.sentences.prefix { $0.text.hasPrefix("Nobody") }.map(\.text).joined(separator: " ")
                .replacing("Nobody reads it as a whole. Nobody writes it as a whole.", with: "Nobody reads or writes it as a whole.")
                .replacing("Nobody reads it. Nobody writes it.", with: "Nobody reads or writes it.")
            let others = place.sentences.drop { $0.text.hasPrefix("Nobody") }.map(\.text)
            return [place.place] + ((closed.isEmpty ? [] : [closed]) + others).map { "  \($0)" }
        }
    }
}

extension Sequence<PlaceSummary> {
    /// `[{"place":"/posts","sentences":[{"kind":"read","text":"Read by everybody who is signed in."}]}]`, with a line feed at the end.
    public var json: [UInt8] {
        var writer = JSONWriter(reservingCapacity: 4096)
        writer.raw("[")
        for (i, place) in enumerated() {
            writer.raw(i > 0 ? ",\n{\"place\":" : "{\"place\":")
            writer.string(place.place)
            writer.raw(",\"sentences\":[")
            for (i, sentence) in place.sentences.enumerated() {
                writer.raw(i > 0 ? ",{\"kind\":" : "{\"kind\":")
                writer.string(sentence.kind.rawValue)
                writer.raw(",\"text\":")
                writer.string(sentence.text)
                writer.raw("}")
            }
            writer.raw("]}")
        }
        writer.raw("]\n")
        return writer.bytes
    }
}
