import JSONTree

/// A `.notify` before checking.
struct SourceNotify {
    var event = NodeEvent.creation
    var devices: LocatedString
    var condition: LocatedString?
    var title: [(language: String, text: LocatedString)] = []
    var body: [(language: String, text: LocatedString)] = []
    var url: LocatedString?
    var tag: LocatedString?
    var urgent: SourceRule?
    var combine: LocatedString?
    var quiet: (from: LocatedString, to: LocatedString, zone: LocatedString?)?
    var acknowledged: Path?
    var funnel: LocatedString?
    var waitMs: Int64 = 5_000
    var lastsMs: Int64 = 86_400_000
    var unless: LocatedString?
    var afterMs: Int64 = 0
    /// The next notification if nobody reacts to this one; at most one.
    var then: [SourceNotify] = []

    /// All its expressions.
    var texts: [LocatedString] {
        let own = [condition, url, tag, combine, quiet?.from, quiet?.to, quiet?.zone, unless].compactMap { $0 }
        let urgent: [LocatedString] = if case .expression(let text) = urgent?.text { [text] } else { [] }
        return own + urgent + title.map(\.text) + body.map(\.text) + then.flatMap(\.texts)
    }
}

/// A `.webhook` before checking.
struct SourceWebhook {
    let name: LocatedString
    var events = Set(NodeEvent.allCases)
    var condition: LocatedString?
}

extension RulesFileReader {
    private static let notifyMembers = [
        "devices", "on", "if", "title", "body", "url", "tag", "urgent", "combine", "quiet", "acknowledged", "funnel", "wait", "expires",
        "unless", "after", "then",
    ]
    private static let notifyForm =
        "A '.notify' is {\"devices\": \"devices/$u\", \"title\": \"newData.child('title').val()\"}, with more as needed, or a list of these."

    /// Reads `.notify`: one object, or a list of them.
    mutating func notifications(_ json: LocatedJSON, _ node: SourceNode) {
        switch json.value {
        case .array(let elements) where !elements.isEmpty:
            for element in elements { if let read = notification(element, instead: nil, depth: 0) { node.notifications.append(read) } }
        default: if let read = notification(json, instead: nil, depth: 0) { node.notifications.append(read) }
        }
    }

    /// - Parameter instead: what precedes it, from which a `then` takes what it does not say.
    private mutating func notification(_ json: LocatedJSON, instead former: SourceNotify?, depth: Int) -> SourceNotify? {
        let before = errors.count
        guard case .object(let members) = json.value else {
            addError(json.offset, Self.notifyForm)
            return nil
        }
        var found = former ?? SourceNotify(devices: LocatedString(value: "", quote: json.offset))
        (found.unless, found.afterMs, found.then) = (nil, 0, [])
        var seen: Set<String> = []
        for member in members {
            let name = member.name.value
            guard seen.insert(name).inserted else {
                addError(member.name.quote, "Duplicate key '\(name)'.")
                continue
            }
            if former != nil, ["on", "if", "wait"].contains(name) {
                addError(member.name.quote, "A 'then' has no '\(name)': it follows 'after' seconds after the notification before it.")
            } else if name == "then" {
                guard depth < 3 else {
                    addError(member.name.quote, "At most 3 notifications follow each other by 'then'.")
                    continue
                }
            } else if let text = Self.text(member.value) {
                read(text, of: member, &found)
            } else {
                read(member, &found)
            }
        }
        if former == nil {
            for name in ["devices", "title"] where !seen.contains(name) { addError(json.offset, "A '.notify' has '\(name)'.") }
        }
        if let then = members.first(where: { $0.name.value == "then" }), depth < 3 {
            if !seen.contains("after") { addError(then.name.quote, "A 'then' needs 'after': the seconds until it follows.") }
            if !seen.contains("unless"), found.acknowledged == nil {
                addError(then.name.quote, "A 'then' needs 'unless', or 'acknowledged': what shows that someone has reacted.")
            }
            if let next = notification(then.value, instead: found, depth: depth + 1) { found.then = [next] }
        } else {
            for member in members where ["after", "unless"].contains(member.name.value) {
                addError(member.name.quote, "'\(member.name.value)' belongs to a 'then', the notification that follows.")
            }
        }
        return errors.count == before ? found : nil
    }

    private static func text(_ json: LocatedJSON) -> LocatedString? { if case .string(let text) = json.value { text } else { nil } }

    private mutating func read(_ text: LocatedString, of member: LocatedJSON.Member, _ found: inout SourceNotify) {
        switch member.name.value {
        case "devices": found.devices = text
        case "if": found.condition = text
        case "title": found.title = [("", text)]
        case "body": found.body = [("", text)]
        case "url": found.url = text
        case "tag": found.tag = text
        case "urgent": found.urgent = rule(member.value)
        case "combine": found.combine = text
        case "funnel": found.funnel = text
        case "unless": found.unless = text
        case "on":
            guard let event = NodeEvent(rawValue: text.value) else {
                return addError(text.quote, "'on' is \"creation\", \"change\" or \"removal\".")
            }
            found.event = event
        case "acknowledged":
            guard let path = try? Path(parsing: text.value), !path.isRoot else {
                return addError(text.quote, "'acknowledged' is a path below the node, such as \"read_at\".")
            }
            found.acknowledged = path
        default: read(member, &found)
        }
    }

    private mutating func read(_ member: LocatedJSON.Member, _ found: inout SourceNotify) {
        let (name, json) = (member.name.value, member.value)
        switch name {
        case "title": found.title = texts(json, name)
        case "body": found.body = texts(json, name)
        case "urgent": found.urgent = rule(json)
        case "quiet": found.quiet = quiet(json)
        case "wait": seconds(json, name, 0...86_400).map { found.waitMs = $0 }
        case "expires": seconds(json, name, 60...2_592_000).map { found.lastsMs = $0 }
        case "after": seconds(json, name, 1...2_592_000).map { found.afterMs = $0 }
        case _ where Self.notifyMembers.contains(name): addError(json.offset, "'\(name)' is a text.")
        default:
            let hint = Spelling.nearest(name, in: Self.notifyMembers).map { "did you mean '\($0)'?" }
            addError(member.name.quote, "A '.notify' has no '\(name)'.", hint: hint)
        }
    }

    /// A number of seconds in ms.
    private mutating func seconds(_ json: LocatedJSON, _ name: String, _ range: ClosedRange<Int64>) -> Int64? {
        guard case .number(.int(let number)) = json.value, range.contains(number) else {
            addError(json.offset, "'\(name)' is a whole number of seconds from \(range.lowerBound) to \(range.upperBound).")
            return nil
        }
        return number * 1000
    }

    /// One expression for each language.
    private mutating func texts(_ json: LocatedJSON, _ name: String) -> [(language: String, text: LocatedString)] {
        guard case .object(let members) = json.value, !members.isEmpty, members.count <= RulesLimits.languages else {
            addError(
                json.offset,
                "'\(name)' is an expression, or one for each of at most \(RulesLimits.languages) languages: {\"en\": …, \"el\": …}.")
            return []
        }
        var texts: [(language: String, text: LocatedString)] = []
        for member in members {
            guard case .string(let text) = member.value.value, Key(member.name.value).isValid, !member.name.value.isEmpty,
                !texts.contains(where: { $0.language == member.name.value })
            else {
                addError(member.name.quote, "'\(name)' has an expression for each language, such as \"en\" or \"el\".")
                return []
            }
            texts.append((member.name.value, text))
        }
        return texts
    }

    private mutating func quiet(_ json: LocatedJSON) -> (from: LocatedString, to: LocatedString, zone: LocatedString?)? {
        var found: [String: LocatedString] = [:]
        if case .object(let members) = json.value {
            for member in members {
                guard ["from", "to", "zone"].contains(member.name.value), case .string(let text) = member.value.value else { continue }
                found[member.name.value] = text
            }
            if let from = found["from"], let to = found["to"], members.count == found.count { return (from, to, found["zone"]) }
        }
        addError(json.offset, "'quiet' is {\"from\": …, \"to\": …, \"zone\": …}: expressions of times such as '22:30' and of a time zone.")
        return nil
    }

    /// Reads `.webhook`: the name of one, `{"name": …, "on": …, "if": …}`, or a list of these.
    mutating func webhooks(_ json: LocatedJSON, _ node: SourceNode) {
        switch json.value {
        case .array(let elements) where !elements.isEmpty: for element in elements { webhook(element, node) }
        default: webhook(json, node)
        }
    }

    private mutating func webhook(_ json: LocatedJSON, _ node: SourceNode) {
        let message = "A '.webhook' is the name of one in the hub's configuration, such as \"website\", or "
            + "{\"name\": …, \"on\": [\"creation\"], \"if\": …}, or a list of these."
        if case .string(let name) = json.value, !name.value.isEmpty { return node.webhooks.append(SourceWebhook(name: name)) }
        guard case .object(let members) = json.value else { return addError(json.offset, message) }
        var (name, condition, events): (LocatedString?, LocatedString?, Set<NodeEvent>?) = (nil, nil, nil)
        for member in members {
            switch (member.name.value, member.value.value) {
            case ("name", .string(let text)) where name == nil && !text.value.isEmpty: name = text
            case ("if", .string(let text)) where condition == nil: condition = text
            case ("on", _) where events == nil:
                let names: [String?] = switch member.value.value {
                case .string(let text): [text.value]
                case .array(let elements): elements.map { Self.text($0)?.value }
                default: []
                }
                let found = names.compactMap { $0.flatMap(NodeEvent.init) }
                guard !names.isEmpty, found.count == names.count else {
                    return addError(member.value.offset, "'on' is \"creation\", \"change\" or \"removal\", or a list of them.")
                }
                events = Set(found)
            default:
                let hint = Spelling.nearest(member.name.value, in: ["name", "if", "on"]).map { "did you mean '\($0)'?" }
                return addError(member.name.quote, message, hint: hint)
            }
        }
        guard let name else { return addError(json.offset, message) }
        node.webhooks.append(SourceWebhook(name: name, events: events ?? Set(NodeEvent.allCases), condition: condition))
    }
}
