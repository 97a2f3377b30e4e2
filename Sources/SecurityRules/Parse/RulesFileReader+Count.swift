import JSONTree

extension RulesFileReader {
    /// Reads `.count`: an expression, or `{"if": …, "radius": …, "snap": …, "perMinute": …}`. Without `if` the read rules are asked.
    mutating func count(_ json: LocatedJSON, _ node: SourceNode) {
        guard case .object(let members) = json.value else { return node.rules[.count] = rule(json) }
        var terms = CountTerms(offset: json.offset)
        var seen: Set<String> = []
        let known = ["if", "radius", "snap", "perMinute"]
        for member in members {
            let (name, value) = (member.name.value, member.value)
            guard seen.insert(name).inserted else {
                addError(member.name.quote, "Duplicate key '\(name)'.")
                continue
            }
            switch name {
            case "if": node.rules[.count] = rule(value)
            case "radius": terms.radius = metres(value, name)
            case "snap": terms.snap = metres(value, name)
            case "perMinute":
                guard case .number(.int(let count)) = value.value, count >= 1, count <= RulesLimits.countsPerMinute else {
                    addError(value.offset, "'perMinute' is a whole number from 1 to \(RulesLimits.countsPerMinute).")
                    continue
                }
                terms.perMinute = Int(count)
            default:
                let hint = Spelling.nearest(name, in: known).map { "did you mean '\($0)'?" }
                addError(member.name.quote, "A '.count' has no '\(name)'.", hint: hint ?? "it has 'if', 'radius', 'snap' and 'perMinute'")
            }
        }
        if members.isEmpty {
            addError(json.offset, "A '.count' is an expression, or {\"if\": …, \"radius\": …, \"snap\": …, \"perMinute\": …}.")
        }
        node.countTerms = terms
    }

    private mutating func metres(_ json: LocatedJSON, _ name: String) -> Double? {
        let metres: Double? =
            switch json.value {
            case .number(.int(let number)): Double(number)
            case .number(.double(let number)): number
            default: nil
            }
        guard let metres, metres >= 1, metres <= RulesLimits.countMetres else {
            addError(json.offset, "'\(name)' is a number of metres from 1 to \(Int(RulesLimits.countMetres)).")
            return nil
        }
        return metres
    }
}
