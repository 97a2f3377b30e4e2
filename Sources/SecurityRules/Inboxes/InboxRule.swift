import JSONTree

/// One `.inbox` of a node: `{"to": "notifications/$u/$k", "each": "subscriptions/$u", "any": ["newData.child('tags')"], …}`.
struct InboxRule: Sendable {
    /// An expression that yields keys.
    enum Names: Sendable {
        /// A value: it is the key.
        case value(Int32)
        /// A snapshot: the keys of its children.
        case keys(Int32)
    }

    /// The wildcard of `each` is numbered after those of the node's place: at the depth that follows its own.
    let to: PathTemplate
    /// The places of the sets: one for each key that the wildcard ranges over.
    let each: PathTemplate
    /// The keys of which a set must have one; nil accepts any set.
    let members: [Names]?
    /// The excluded keys of the wildcard.
    let not: [Names]
    /// The instruction of the `if`, which selects recipients; -1 for all.
    let condition: Int32
    /// The instruction of `changes`: after which changes rows are written as for a new node; -1 for none.
    let changes: Int32
    /// The value of each row.
    let value: ValueTemplate
    /// The depth of the node's place.
    let nodeDepth: Int
    /// Its index among the inboxes of the place.
    let number: Int
    /// The index in `Program.indexed`, for finding the members of sets; nil without `any`.
    var indexed: Int?

    /// The position of the wildcard in `each`.
    var wildcard: Int { each.segments.firstIndex { if case .every = $0 { true } else { false } } ?? 0 }
}

/// An inbox before checking.
struct SourceInbox {
    let to: LocatedString
    let each: LocatedString
    let members: [LocatedString]?
    let not: [LocatedString]
    let condition: LocatedString?
    let changes: LocatedString?
    let value: LocatedJSON
}

extension RulesFileReader {
    /// Reads `.inbox`: one object, or a list of them.
    mutating func inboxes(_ json: LocatedJSON, _ node: SourceNode) {
        switch json.value {
        case .array(let elements) where !elements.isEmpty: for element in elements { inbox(element, node) }
        default: inbox(json, node)
        }
    }

    private mutating func inbox(_ json: LocatedJSON, _ node: SourceNode) {
        let message = "An '.inbox' is {\"to\": \"inbox/$u/$k\", \"each\": \"followers/$u\", \"value\": …}, with \"any\", \"not\", "
            + "\"if\" and \"changes\" as needed."
        guard case .object(let members) = json.value else { return addError(json.offset, message) }
        var texts: [String: LocatedString] = [:]
        var lists: [String: [LocatedString]] = [:]
        var value: LocatedJSON?
        for member in members {
            let name = member.name.value
            guard texts[name] == nil, lists[name] == nil, name != "value" || value == nil else {
                return addError(member.name.quote, "Duplicate key '\(name)'.")
            }
            switch (name, member.value.value) {
            case ("to", .string(let text)), ("each", .string(let text)), ("if", .string(let text)), ("changes", .string(let text)):
                texts[name] = text
            case ("any", .string(let text)), ("not", .string(let text)): lists[name] = [text]
            case ("any", .array(let elements)) where !elements.isEmpty, ("not", .array(let elements)) where !elements.isEmpty:
                var list: [LocatedString] = []
                for element in elements {
                    guard case .string(let text) = element.value else {
                        return addError(element.offset, "'\(name)' is an expression, or a list of them: what they yield are keys.")
                    }
                    list.append(text)
                }
                lists[name] = list
            case ("value", _): value = member.value
            case ("to", _), ("each", _), ("any", _), ("not", _), ("if", _), ("changes", _): return addError(member.value.offset, message)
            default:
                let hint = Spelling.nearest(name, in: ["to", "each", "any", "not", "if", "changes", "value"])
                    .map { "did you mean '\($0)'?" }
                return addError(member.name.quote, "An '.inbox' has no '\(name)'.", hint: hint)
            }
        }
        guard let to = texts["to"], let each = texts["each"], let value else { return addError(json.offset, message) }
        node.inboxes.append(
            SourceInbox(
                to: to, each: each, members: lists["any"], not: lists["not"] ?? [], condition: texts["if"], changes: texts["changes"],
                value: value))
    }
}
