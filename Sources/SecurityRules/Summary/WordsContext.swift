/// Where an expression stands, and so what its names mean to a reader.
struct WordsContext {
    enum Role {
        case read, write, validate
        /// An `if` of `.removes`, or `changes` of an `.inbox`.
        case change
        /// Of the node that is created: `.copy`, `.inbox` and the values of rows.
        case created
        /// An expression of a `.watch`; `each` is then what it finds.
        case watch
        /// A condition or value of a counter.
        case counter
        case expiry, drop, filling
        case function
    }

    let role: Role
    /// The place that the sentence is about, as the segments of its pattern.
    let entry: [String]
    /// The place of the rule: that of the sentence, one above it whose access it inherits, or a field below it that is listed with it.
    let place: [String]
    var parameters: [String] = []

    var isInherited: Bool { place.count < entry.count }
}

/// A place that an expression reads, with its segments from the root.
struct PlaceReference {
    enum Tree: Equatable {
        case old, new
        /// `data.exists() ? data : newData`
        case either
        case each
        case parameter(String)
    }

    enum Part: Equatable {
        case key(String)
        /// A wildcard, with the `$`.
        case wildcard(String)
        /// A computed key, in words.
        case value(String)

        var text: String {
            switch self {
            case .key(let text), .wildcard(let text): text
            case .value(let words): "{\(words.replacing("`", with: ""))}"
            }
        }
    }

    let tree: Tree
    var parts: [Part]
    /// Whether its path can be impossible, which makes the rule fail.
    var mayFail = false

    var path: String { parts.map(\.text).joined(separator: "/") }
}

extension WordsContext {
    static func parts(_ pattern: [String]) -> [PlaceReference.Part] { pattern.map { $0.hasPrefix("$") ? .wildcard($0) : .key($0) } }

    /// Whether a reference is the node of the rule, which the sentence is about.
    func isSelf(_ reference: PlaceReference) -> Bool {
        switch reference.tree {
        case .each, .parameter: reference.parts.isEmpty
        default: role != .function && !isInherited && reference.parts == Self.parts(place)
        }
    }

    /// The path of a reference below the place of the sentence; nil for places elsewhere, and for the place itself.
    func inner(_ reference: PlaceReference) -> String? {
        let base: [PlaceReference.Part]
        switch reference.tree {
        case .each, .parameter: base = []
        default:
            if isInherited || role == .function { return nil }
            base = Self.parts(entry)
        }
        guard reference.parts.count > base.count, reference.parts.starts(with: base), !isSelf(reference) else { return nil }
        return "`" + reference.parts.dropFirst(base.count).map(\.text).joined(separator: "/") + "`"
    }

    /// A reference as the subject or object of a sentence: "the stored `author`", "/users/$uid/name".
    func name(_ reference: PlaceReference) -> String {
        if isSelf(reference) { return selfName(reference.tree) }
        if let inner = inner(reference) {
            switch reference.tree {
            case .each:
                return role == .created ? "\(inner) of the entry" : role == .watch ? "\(inner) of what it finds" : inner
            case .parameter(let name): return "\(inner) of `\(name)`"
            case .either: return "\(inner) (as stored, of a new one as written)"
            case .old, .new: return adjective(reference.tree) + inner
            }
        }
        let path = "/" + reference.path
        switch reference.tree {
        case .new where role == .write || role == .validate || role == .drop || role == .filling: return "the new \(path)"
        case .old where role == .change: return "the former \(path)"
        case .either: return "\(path) (as stored, of a new one as written)"
        default: return path
        }
    }

    private func adjective(_ tree: PlaceReference.Tree) -> String {
        switch (role, tree) {
        case (.write, .old), (.validate, .old), (.drop, .old), (.filling, .old), (.created, .old): "the stored "
        case (.write, .new): "the new "
        case (.drop, .new): "the sent "
        case (.change, .old): "the former "
        default: ""
        }
    }

    /// The node of the rule itself.
    func selfName(_ tree: PlaceReference.Tree) -> String {
        switch tree {
        case .each: return role == .counter ? "the value" : role == .watch ? "what it finds" : "the entry"
        case .parameter(let name): return "`\(name)`"
        case .either: return "it (as stored, of a new one as written)"
        case .old, .new: break
        }
        switch (role, tree) {
        case (.write, .old), (.drop, .old), (.filling, .old), (.created, .old): return "what is stored there"
        case (.write, .new): return "what is written"
        case (.validate, .old): return "what was stored there"
        case (.change, .old): return "what was stored there"
        case (.drop, .new): return "what is sent"
        default: return "it"
        }
    }
}
