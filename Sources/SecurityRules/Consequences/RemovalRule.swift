import JSONTree

/// One `.removes` of a node: `{"to": "reminders/$task", "if": "newData.child('done').val() == true", "on": "change"}`.
struct RemovalRule: Sendable {
    /// When it applies.
    enum Event: String, Sendable {
        /// The node existed before the commit and not after it.
        case removal
        /// The commit created or changed the node, which exists after it.
        case change
    }

    let event: Event
    let to: [PathTemplate]
    /// The instruction of the `if`; -1 for always.
    let condition: Int32
}

/// A `.removes` before checking.
struct SourceRemoval {
    let to: [LocatedString]
    var condition: LocatedString?
    var event = RemovalRule.Event.removal
}

/// Compiles one `.removes` of a node.
struct RemovalCompiler {
    /// The depth of the node's place.
    let depth: Int
    let captures: [String: Int]
    let functions: Functions

    func compile(_ source: SourceRemoval, _ builder: inout ProgramBuilder) throws(TextFault) -> RemovalRule {
        var to: [PathTemplate] = []
        for text in source.to {
            do throws(ExpressionError) { to.append(try PathTemplate(text.value, captures: captures)) } catch {
                throw TextFault(error: error, text: text)
            }
        }
        var condition: Int32 = -1
        if let text = source.condition {
            do throws(ExpressionError) {
                let scope = Scope(kind: .write, captures: captures)
                let checked = try Checker.rule(ExpressionParser.parse(text.value), scope: scope, functions: functions)
                condition = builder.lower(checked, depth: depth)
            } catch { throw TextFault(error: error, text: text) }
        }
        return RemovalRule(event: source.event, to: to, condition: condition)
    }
}

extension RulesFileReader {
    /// Reads `.removes`: a place, `{"to": …, "if": …, "on": …}`, or a list of these.
    mutating func removals(_ json: LocatedJSON, _ node: SourceNode) {
        switch json.value {
        case .array(let elements) where !elements.isEmpty: for element in elements { removal(element, node) }
        default: removal(json, node)
        }
    }

    private mutating func removal(_ json: LocatedJSON, _ node: SourceNode) {
        let message = "A '.removes' is a place such as \"comments/$post\", {\"to\": …, \"if\": …, \"on\": \"removal\" or \"change\"}, "
            + "or a list of these."
        if case .string(let place) = json.value { return node.removes.append(SourceRemoval(to: [place])) }
        guard case .object(let members) = json.value else { return addError(json.offset, message) }
        var (to, condition, event): ([LocatedString]?, LocatedString?, RemovalRule.Event?) = (nil, nil, nil)
        for member in members {
            switch (member.name.value, member.value.value) {
            case ("to", _) where to == nil: to = places(member.value, "to")
            case ("if", .string(let text)) where condition == nil: condition = text
            case ("on", .string(let text)) where event == nil:
                event = RemovalRule.Event(rawValue: text.value)
                if event == nil { return addError(text.quote, "'on' is \"removal\" or \"change\".") }
            case ("to", _), ("if", _), ("on", _): return addError(member.value.offset, message)
            default:
                let hint = Spelling.nearest(member.name.value, in: ["to", "if", "on"]).map { "did you mean '\($0)'?" }
                return addError(member.name.quote, "A '.removes' has no '\(member.name.value)'.", hint: hint)
            }
        }
        guard let to else { return addError(json.offset, message) }
        node.removes.append(SourceRemoval(to: to, condition: condition, event: event ?? .removal))
    }
}
