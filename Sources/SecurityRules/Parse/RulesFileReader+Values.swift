import JSONTree

extension RulesFileReader {
    /// Reads a `.default`: a string is an expression, other JSON is the value itself; `{"value": …, "always": true}` keeps it.
    mutating func defaultValue(_ member: LocatedJSON.Member, _ node: SourceNode, isWildcard: Bool, depth: Int) {
        guard depth > 0, !isWildcard else {
            return addError(member.name.quote, "A '.default' stands at a child with a name of its own.")
        }
        var (json, isKept) = (member.value, false)
        if case .object(let members) = json.value {
            let always = members.first { $0.name.value == "always" || members.count == 2 && $0.name.value != "value"
                && Spelling.nearest($0.name.value, in: ["always"]) != nil }
            if let always, let value = members.first(where: { $0.name.value == "value" }), members.count == 2,
                always.name.value == "always", case .bool(true) = always.value.value {
                (json, isKept) = (value.value, true)
            } else if let always, !isInForce, always.name.value == "always" || members.contains(where: { $0.name.value == "value" }) {
                let hint = always.name.value == "always" ? nil : "did you mean 'always'?"
                return addError(always.name.quote, "A '.default' that is kept is {\"value\": …, \"always\": true}.", hint: hint)
            }
        }
        if case .string(let text) = json.value {
            node.defaultValue = SourceDefault(value: .expression(text), isKept: isKept, offset: json.offset)
            return
        }
        guard let value = self.value(json) else { return }
        guard value.exists else { return addError(json.offset, "A '.default' is an expression, or a value other than null.") }
        guard value.fits(below: depth) else { return addError(json.offset, "Data is at most \(Path.maxDepth) levels deep.") }
        node.defaultValue = SourceDefault(value: .node(value), isKept: isKept, offset: json.offset)
    }

    /// Reads `.message`, after the rules beside it: a text for the `.validate`, or else for the `.write`; or
    /// `{".write": …, ".validate": …}`.
    mutating func messages(_ member: LocatedJSON.Member, _ node: SourceNode) {
        func text(_ json: LocatedJSON) -> LocatedString? {
            if case .string(let text) = json.value, !text.value.isEmpty, text.value.utf8.count <= RulesLimits.messageBytes { return text }
            addError(json.offset, "Expected a text of at most \(RulesLimits.messageBytes) bytes.")
            return nil
        }
        func set(_ kind: RuleKind, _ json: LocatedJSON) {
            guard let text = text(json) else { return }
            guard node.rules[kind] != nil else {
                return addError(text.quote, "A '.message' stands beside the '.validate' or '.write' that it explains.")
            }
            node.messages[kind] = text
        }
        guard case .object(let members) = member.value.value, !members.isEmpty else {
            return set(node.rules[.validate] != nil ? .validate : .write, member.value)
        }
        for member in members {
            guard let kind = RuleKind(rawValue: member.name.value), !kind.isOfReads, node.messages[kind] == nil else {
                let hint = Spelling.nearest(member.name.value, in: [".write", ".validate"]).map { "did you mean '\($0)'?" }
                addError(member.name.quote, "A '.message' is a text, or {\".write\": …, \".validate\": …}.", hint: hint)
                continue
            }
            set(kind, member.value)
        }
    }

    /// Reads `.indexOn`.
    mutating func indexes(_ json: LocatedJSON, _ node: SourceNode) {
        let message = "Invalid indexOn expression. Must be either a string or an array of strings"
        node.indexOffset = json.offset
        switch json.value {
        case .string(let name): node.indexes.append(name.value)
        case .array(let elements):
            for element in elements {
                guard case .string(let name) = element.value else {
                    addError(json.offset, message)
                    return
                }
                node.indexes.append(name.value)
            }
        default: addError(json.offset, message)
        }
    }

    /// Reads `.geoIndex`: the paths of latitude and longitude below a child, and the filters and orders.
    mutating func geoIndex(_ json: LocatedJSON) -> SourceGeoIndex? {
        let before = errors.count
        guard case .object(let members) = json.value else {
            addError(
                json.offset,
                "A '.geoIndex' names the places of a position: {\"lat\": \"position/latitude\", \"lng\": \"position/longitude\"}.")
            return nil
        }
        var places: [String: Path] = [:]
        var (filters, orders): ([LocatedString], [LocatedString]) = ([], [])
        var seen: Set<String> = []
        for member in members {
            let name = member.name.value
            guard seen.insert(name).inserted else {
                addError(member.name.quote, "Duplicate key '\(name)'.")
                continue
            }
            switch name {
            case "lat", "lng":
                guard case .string(let text) = member.value.value, let path = try? Path(parsing: text.value), !path.isRoot else {
                    addError(member.value.offset, "'\(name)' is a path below each child, such as \"position/latitude\".")
                    continue
                }
                places[name] = path
            case "filter", "order":
                guard case .array(let elements) = member.value.value else {
                    addError(member.value.offset, "'\(name)' is a list of paths below each child.")
                    continue
                }
                for element in elements {
                    guard case .string(let text) = element.value else {
                        addError(element.offset, "'\(name)' is a list of paths below each child.")
                        continue
                    }
                    if name == "filter" { filters.append(text) } else { orders.append(text) }
                }
            default:
                let hint = Spelling.nearest(name, in: ["lat", "lng", "filter", "order"]).map { "did you mean '\($0)'?" }
                addError(member.name.quote, "A '.geoIndex' has no '\(name)'.", hint: hint)
            }
        }
        for name in ["lat", "lng"] where !seen.contains(name) { addError(json.offset, "A '.geoIndex' has a '\(name)'.") }
        guard errors.count == before, let latitude = places["lat"], let longitude = places["lng"] else { return nil }
        return SourceGeoIndex(latitude: latitude, longitude: longitude, filters: filters, orders: orders, offset: json.offset)
    }

    /// Reads `.copy`: a place, `{"to": …, "each": …, "if": …}`, or a list of these.
    mutating func copies(_ json: LocatedJSON, _ node: SourceNode) {
        switch json.value {
        case .array(let elements) where !elements.isEmpty: for element in elements { copy(element, node) }
        default: copy(json, node)
        }
    }

    private mutating func copy(_ json: LocatedJSON, _ node: SourceNode) {
        let message = "A copy is a place such as \"posts-of/{author}/$post\", or {\"to\": …, \"each\": …, \"if\": …}."
        if case .string(let text) = json.value { return node.copies.append(SourceCopy(to: text)) }
        guard case .object(let members) = json.value else { return addError(json.offset, message) }
        var texts: [String: LocatedString] = [:]
        for member in members {
            guard ["to", "each", "if"].contains(member.name.value), case .string(let text) = member.value.value,
                texts.updateValue(text, forKey: member.name.value) == nil
            else { return addError(member.name.quote, message) }
        }
        guard let to = texts["to"] else { return addError(json.offset, message) }
        node.copies.append(SourceCopy(to: to, each: texts["each"], condition: texts["if"]))
    }

    /// Reads `.rate`: `{"perSecond": 20, "burst": 100}`.
    mutating func rate(_ json: LocatedJSON) -> SourceRate? {
        let before = errors.count
        guard case .object(let members) = json.value else {
            addError(json.offset, "A '.rate' is how often one user may write: {\"perSecond\": 20, \"burst\": 100}.")
            return nil
        }
        var numbers: [String: Double] = [:]
        var seen: Set<String> = []
        let (rates, bursts) = (WriteRate.perSecondRange, WriteRate.burstRange)
        for member in members {
            let name = member.name.value
            guard ["perSecond", "burst"].contains(name) else {
                let hint = Spelling.nearest(name, in: ["perSecond", "burst"]).map { "did you mean '\($0)'?" }
                addError(member.name.quote, "A '.rate' has no '\(name)'.", hint: hint)
                continue
            }
            guard seen.insert(name).inserted else {
                addError(member.name.quote, "Duplicate key '\(name)'.")
                continue
            }
            let number: Double
            switch member.value.value {
            case .number(.int(let whole)): number = Double(whole)
            case .number(.double(let value)): number = value
            default:
                addError(member.value.offset, "'\(name)' is a number.")
                continue
            }
            if name == "perSecond", !rates.contains(number) {
                addError(member.value.offset, "'perSecond' is from 0.001 to \(Int(rates.upperBound)). To refuse all writes grant none.")
            } else if name == "burst", number != number.rounded() || !bursts.contains(Int(exactly: number) ?? 0) {
                addError(member.value.offset, "'burst' is a whole number from 1 to \(bursts.upperBound): the writes that may come at once.")
            } else {
                numbers[name] = number
            }
        }
        for name in ["perSecond", "burst"] where !seen.contains(name) { addError(json.offset, "A '.rate' has a '\(name)'.") }
        guard errors.count == before, let perSecond = numbers["perSecond"], let burst = numbers["burst"] else { return nil }
        return WriteRate(perSecond: perSecond, burst: Int(burst)).map { SourceRate(rate: $0, offset: json.offset) }
    }

    /// Reads `.counts`: the names of counters, and the expression of each.
    mutating func counters(_ json: LocatedJSON, _ node: SourceNode) {
        let message = "'.counts' is an object of names and what they count: {\"votes\": \"count(votes/$e)\"}, or "
            + "{\"votes\": {\"value\": \"count(votes/$e)\", \"creates\": true}}."
        guard case .object(let members) = json.value, !members.isEmpty else { return addError(json.offset, message) }
        var seen: Set<Key> = []
        for member in members {
            let name = Key(member.name.value)
            let counter: SourceCounter
            switch member.value.value {
            case .string(let text): counter = SourceCounter(name: name, text: text)
            case .object(let parts):
                let texts = parts.compactMap { part in
                    if part.name.value == "value", case .string(let text) = part.value.value { text } else { nil }
                }
                let flags = parts.compactMap { part in
                    if part.name.value == "creates", case .bool(let flag) = part.value.value { flag } else { nil }
                }
                guard let text = texts.first, texts.count == 1, flags.count <= 1, texts.count + flags.count == parts.count else {
                    fallthrough
                }
                counter = SourceCounter(name: name, text: text, creates: flags.first ?? false)
            default:
                addError(member.value.offset, message)
                continue
            }
            guard name.isValid else {
                addError(member.name.quote, "'\(member.name.value)' cannot be a key of data.")
                continue
            }
            guard seen.insert(name).inserted else {
                addError(member.name.quote, "Duplicate key '\(member.name.value)'.")
                continue
            }
            node.counts.append(counter)
        }
    }

    /// Reads a place, or a list of places.
    mutating func places(_ json: LocatedJSON, _ name: String) -> [LocatedString] {
        let message = "A '\(name)' is a place such as \"comments/$post\", or a list of them."
        switch json.value {
        case .string(let text): return [text]
        case .array(let elements) where !elements.isEmpty:
            return elements.compactMap { element in
                if case .string(let text) = element.value { return text }
                addError(element.offset, message)
                return nil
            }
        default:
            addError(json.offset, message)
            return []
        }
    }

    /// Converts JSON to a node; nil after recording a fault.
    private mutating func value(_ json: LocatedJSON) -> Node? {
        switch json.value {
        case .null: return .null
        case .bool(let value): return .bool(value)
        case .number(let node): return node
        case .string(let text): return .string(text.value)
        case .array(let elements):
            var children: [(Key, Node)] = []
            for (i, element) in elements.enumerated() {
                guard let child = value(element) else { return nil }
                children.append((Key(index: i), child))
            }
            return .object(children)
        case .object(let members):
            var children: [(Key, Node)] = []
            for member in members {
                guard Key(member.name.value).isValid else {
                    addError(member.name.quote, "'\(member.name.value)' cannot be a key of data.")
                    return nil
                }
                guard let child = value(member.value) else { return nil }
                children.append((Key(member.name.value), child))
            }
            return .object(children)
        }
    }
}
