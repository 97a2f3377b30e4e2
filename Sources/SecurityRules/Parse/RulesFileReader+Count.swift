import JSONTree

extension RulesFileReader {
    /// Reads `.count`: an expression, or `{"if": …, "radius": …, "snap": …, "least": …, "perMinute": …}`. Without `if` the read rules decide.
    mutating func count(_ json: LocatedJSON, _ node: SourceNode) {
        guard case .object(let members) = json.value else { return node.rules[.count] = rule(json) }
        var terms = CountTerms(offset: json.offset)
        var seen: Set<String> = []
        let known = ["if", "radius", "snap", "least", "perMinute"]
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
            case "least": terms.least = whole(value, name, from: 2, to: RulesLimits.leastCount)
            case "perMinute": terms.perMinute = whole(value, name, from: 1, to: RulesLimits.countsPerMinute)
            default:
                let hint = Spelling.nearest(name, in: known).map { "did you mean '\($0)'?" }
                addError(
                    member.name.quote, "A '.count' has no '\(name)'.",
                    hint: hint ?? "it has 'if', 'radius', 'snap', 'least' and 'perMinute'")
            }
        }
        if members.isEmpty {
            addError(
                json.offset,
                "A '.count' is an expression, or {\"if\": …, \"radius\": …, \"snap\": …, \"least\": …, \"perMinute\": …}."
            )
        }
        node.countTerms = terms
    }

    private mutating func whole(_ json: LocatedJSON, _ name: String, from least: Int, to most: Int) -> Int? {
        guard case .number(.int(let count)) = json.value, count >= Int64(least), count <= Int64(most) else {
            addError(json.offset, "'\(name)' is a whole number from \(least) to \(most).")
            return nil
        }
        return Int(count)
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
