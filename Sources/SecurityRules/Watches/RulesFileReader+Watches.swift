import JSONTree

/// A `.watch` before checking.
struct SourceWatch {
    enum Area {
        case circle(at: LocatedString?, latitude: LocatedString, longitude: LocatedString, radius: LocatedString)
        case within(LocatedString)
    }

    let area: Area
    let on: [LocatedString]
    let condition: LocatedString?
    let to: LocatedString
    let value: LocatedJSON
    let cooldown: LocatedString?
    let until: LocatedString?

    /// All its expressions.
    var expressions: [LocatedString] {
        var all = [condition, cooldown, until].compactMap { $0 } + value.texts
        if case .circle(_, _, _, let radius) = area { all.append(radius) }
        return all
    }
}

extension RulesFileReader {
    private static let watchForm = "A '.watch' is {\"circle\": {\"lat\": …, \"lng\": …, \"radius\": …}, \"on\": \"events\", "
        + "\"to\": \"near/$u/{item}\", \"value\": …}, or has \"within\": \"zones/$z\" for the circle, with \"if\", \"cooldown\" and "
        + "\"until\" as needed."
    private static let circleForm = "A circle is {\"lat\": \"latitude\", \"lng\": \"longitude\", \"radius\": …}, also with "
        + "\"at\": \"live/$u\", the place of its centre."

    /// Reads `.watch`: one object, or a list of them.
    mutating func watches(_ json: LocatedJSON, _ node: SourceNode) {
        switch json.value {
        case .array(let elements) where !elements.isEmpty:
            guard elements.count <= RulesLimits.watchesOfPlace else {
                return addError(
                    elements[RulesLimits.watchesOfPlace].offset, "A place has at most \(RulesLimits.watchesOfPlace) watches.")
            }
            for element in elements { watch(element, node) }
        default: watch(json, node)
        }
    }

    private mutating func watch(_ json: LocatedJSON, _ node: SourceNode) {
        guard case .object(let members) = json.value else { return addError(json.offset, Self.watchForm) }
        var texts: [String: LocatedString] = [:]
        var (area, on, value): (SourceWatch.Area?, [LocatedString]?, LocatedJSON?)
        var seen: Set<String> = []
        for member in members {
            let name = member.name.value
            guard seen.insert(name).inserted else { return addError(member.name.quote, "Duplicate key '\(name)'.") }
            switch name {
            case "to", "if":
                guard case .string(let text) = member.value.value else { return addError(member.value.offset, Self.watchForm) }
                texts[name] = text
            case "cooldown", "until":
                guard let text = amount(member.value) else {
                    let unit = name == "cooldown" ? "seconds" : "ms since 1970"
                    return addError(member.value.offset, "'\(name)' is a number of \(unit), or an expression.")
                }
                texts[name] = text
            case "on":
                let known = errors.count
                on = places(member.value, "on")
                if errors.count > known { return }
            case "circle", "within":
                guard area == nil else { return addError(member.name.quote, "A '.watch' has a 'circle' or a 'within'.") }
                guard let found = self.area(name, member.value) else { return }
                area = found
            case "value": value = member.value
            default:
                let known = ["circle", "within", "on", "if", "to", "value", "cooldown", "until"]
                let hint = Spelling.nearest(name, in: known).map { "did you mean '\($0)'?" }
                return addError(member.name.quote, "A '.watch' has no '\(name)'.", hint: hint)
            }
        }
        guard let area, let on, let to = texts["to"], let value else { return addError(json.offset, Self.watchForm) }
        guard on.count <= RulesLimits.placesOfWatch else {
            return addError(on[RulesLimits.placesOfWatch].quote, "'on' names at most \(RulesLimits.placesOfWatch) places.")
        }
        node.watches.append(
            SourceWatch(
                area: area, on: on, condition: texts["if"], to: to, value: value, cooldown: texts["cooldown"], until: texts["until"]))
    }

    private mutating func area(_ name: String, _ json: LocatedJSON) -> SourceWatch.Area? {
        if name == "within" {
            if case .string(let text) = json.value { return .within(text) }
            addError(json.offset, "'within' is the place of a stored box or polygon, such as \"zones/$z/ring\".")
            return nil
        }
        guard case .object(let members) = json.value else {
            addError(json.offset, Self.circleForm)
            return nil
        }
        var texts: [String: LocatedString] = [:]
        for member in members {
            let name = member.name.value
            guard ["at", "lat", "lng", "radius"].contains(name) else {
                let hint = Spelling.nearest(name, in: ["at", "lat", "lng", "radius"]).map { "did you mean '\($0)'?" }
                addError(member.name.quote, "A circle has no '\(name)'.", hint: hint)
                return nil
            }
            var text: LocatedString?
            if name == "radius" { text = amount(member.value) } else if case .string(let found) = member.value.value { text = found }
            guard let text else {
                addError(member.value.offset, Self.circleForm)
                return nil
            }
            guard texts.updateValue(text, forKey: name) == nil else {
                addError(member.name.quote, "Duplicate key '\(name)'.")
                return nil
            }
        }
        guard let latitude = texts["lat"], let longitude = texts["lng"], let radius = texts["radius"] else {
            addError(json.offset, Self.circleForm)
            return nil
        }
        for text in [latitude, longitude] {
            guard let path = try? Path(parsing: text.value), !path.isRoot else {
                addError(text.quote, "'\(text.value)' is no path to a number, such as \"position/latitude\".")
                return nil
            }
        }
        return .circle(at: texts["at"], latitude: latitude, longitude: longitude, radius: radius)
    }

    /// An expression, or a number that stands for one.
    private func amount(_ json: LocatedJSON) -> LocatedString? {
        switch json.value {
        case .string(let text): text
        case .number(let number): LocatedString(value: number.json, quote: json.offset)
        default: nil
        }
    }
}
