/// One `.expire` of a node, before checking.
struct SourceExpiry {
    let at: LocatedString
    var condition: LocatedString?
    var patch: [LocatedJSON.Member]?
    var log: LocatedString?
    var value: LocatedJSON?
}

extension RulesFileReader {
    /// Reads `.expire`: the time of removal, `{"at": …, "if": …, "patch": …, "log": …, "value": …}`, or a list of these.
    mutating func expiries(_ json: LocatedJSON, _ node: SourceNode) {
        switch json.value {
        case .array(let elements) where !elements.isEmpty: for element in elements { expiry(element, node) }
        default: expiry(json, node)
        }
    }

    private mutating func expiry(_ json: LocatedJSON, _ node: SourceNode) {
        let message = "An '.expire' is a time in ms such as \"data.child('until').val()\", or {\"at\": …, \"if\": …, \"patch\": …, "
            + "\"log\": …, \"value\": …}."
        if case .string(let text) = json.value { return node.expiries.append(SourceExpiry(at: text)) }
        guard case .object(let members) = json.value else { return addError(json.offset, message) }
        var texts: [String: LocatedString] = [:]
        var patch: [LocatedJSON.Member]?
        var value: LocatedJSON?
        for member in members {
            switch (member.name.value, member.value.value) {
            case ("at", .string(let text)), ("if", .string(let text)), ("log", .string(let text)):
                guard texts.updateValue(text, forKey: member.name.value) == nil else { return addError(member.name.quote, message) }
            case ("patch", .object(let members)) where patch == nil && !members.isEmpty: patch = members
            case ("value", _) where value == nil: value = member.value
            default: return addError(member.name.quote, message)
            }
        }
        guard let at = texts["at"] else { return addError(json.offset, message) }
        guard (texts["log"] == nil) == (value == nil) else {
            return addError(json.offset, "A 'log' has a 'value', and that belongs to it.")
        }
        node.expiries.append(SourceExpiry(at: at, condition: texts["if"], patch: patch, log: texts["log"], value: value))
    }
}
