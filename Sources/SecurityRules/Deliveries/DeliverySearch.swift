public import JSONTree

/// Finds the deliveries that a commit causes, by what differs between the trees before and after all its writes. So a node that several
/// writes or consequences changed causes each delivery once.
struct DeliverySearch {
    private let program: Program
    private let (old, new): (Node, Node)
    private let now: Int64
    private let limits: ConsequenceLimits
    private(set) var found: [RuleDelivery] = []
    /// Those of removals that exceed a limit.
    private(set) var leftOut = 0
    private(set) var keysScanned = 0
    private(set) var evaluated = 0
    /// The text work that expressions may still do.
    private(set) var textWork: Int
    private var seen: Set<Path> = []
    /// The keys from the root to the current place.
    private var keys: ContiguousArray<Key> = []

    init(_ program: Program, old: Node, new: Node, now: Int64, _ limits: ConsequenceLimits, textWork: Int) {
        (self.program, self.old, self.new, self.now, self.limits, self.textWork) = (program, old, new, now, limits, textWork)
    }

    /// Searches above, at and below a written place.
    mutating func search(_ location: Path) throws(ConsequenceFault) {
        keys = []
        var place: Int32 = 0
        var (was, isNow) = (old, new)
        for (level, key) in location.keys.enumerated() {
            guard program.tables.places[Int(place)].delivers else { return }
            if level > 0 { try add(place, was, isNow) }
            keys.append(key)
            place = child(of: place, key)
            if place < 0 { return }
            (was, isNow) = (was.child(key), isNow.child(key))
        }
        try search(place, was, isNow)
    }

    private mutating func search(_ place: Int32, _ was: Node, _ isNow: Node) throws(ConsequenceFault) {
        let rules = program.tables.places[Int(place)]
        guard rules.delivers, !was.isIdentical(to: isNow) else { return }
        if !keys.isEmpty { try add(place, was, isNow) }
        guard was.hasChildren || isNow.hasChildren else { return }
        for i in Int(rules.firstLiteral)..<Int(rules.firstLiteral + rules.literalCount) {
            let literal = program.tables.literals[i]
            let key = program.tables.keys[Int(literal.key)]
            try descend(key, literal.place, was.child(key), isNow.child(key))
        }
        guard rules.wildcard >= 0, program.tables.places[Int(rules.wildcard)].delivers else { return }
        keysScanned += was.childCount + isNow.childCount
        // A removal is never refused: its further deliveries are left out.
        if keysScanned > limits.keys {
            if isNow.isNull {
                leftOut += was.childCount
                return
            }
            throw fault(.tooManyKeys(limits.keys), place, "notify")
        }
        for (key, node) in was.children where child(of: place, key) == rules.wildcard {
            try descend(key, rules.wildcard, node, isNow.child(key))
        }
        for (key, node) in isNow.children where was.child(key).isNull && child(of: place, key) == rules.wildcard {
            try descend(key, rules.wildcard, .null, node)
        }
    }

    private mutating func descend(_ key: Key, _ place: Int32, _ was: Node, _ isNow: Node) throws(ConsequenceFault) {
        keys.append(key)
        defer { keys.removeLast() }
        try search(place, was, isNow)
    }

    private func child(of place: Int32, _ key: Key) -> Int32 { withUnsafePointer(to: key) { program.tables.child(of: place, TextCursor($0)) } }

    // MARK: One node

    private mutating func add(_ place: Int32, _ was: Node, _ isNow: Node) throws(ConsequenceFault) {
        let rules = program.details[Int(place)]
        guard !(rules.notifications.isEmpty && rules.webhooks.isEmpty), was.exists || isNow.exists, !was.isIdentical(to: isNow),
            was != isNow, seen.insert(Path(keys)).inserted
        else { return }
        let event: NodeEvent = was.isNull ? .creation : isNow.isNull ? .removal : .change
        var (holds, due) = (true, now)
        for rule in rules.notifications where rule.event == event {
            if rule.unless == nil { (holds, due) = (try rule.condition < 0 ? true : self.holds(rule.condition, place), now) }
            guard holds else { continue }
            // A `then` follows the notification before it, whether that one has a recipient or not.
            due += rule.waitMs
            guard let notice = try notice(rule, place, event == .removal ? was : isNow) else { continue }
            due = notice.allowed(from: due)
            try append(.notification(notice), place, ".notify", event, due: due, lasts: rule.lastsMs)
        }
        for rule in rules.webhooks where rule.events.contains(event) {
            if rule.condition >= 0, try !self.holds(rule.condition, place) { continue }
            try append(
                .event(webhook: rule.name, before: Self.sent(was), after: Self.sent(isNow)), place, ".webhook", event, due: now,
                lasts: Self.webhookLastsMs)
        }
    }

    /// How long the delivery of an event is attempted: three days.
    private static let webhookLastsMs: Int64 = 3 * 86_400_000

    /// A larger value is left out of an event: its receiver can read the place.
    private static func sent(_ value: Node) -> Node {
        var left = RulesLimits.eventBytes
        return value.isWithin(&left) ? value : ["omitted": true]
    }

    private mutating func append(
        _ content: RuleDelivery.Content, _ place: Int32, _ key: String, _ event: NodeEvent, due: Int64, lasts: Int64
    ) throws(ConsequenceFault) {
        if found.count >= limits.deliveries {
            if event == .removal {
                leftOut += 1
                return
            }
            throw fault(.tooManyDeliveries(limits.deliveries), place, String(key.dropFirst()))
        }
        found.append(
            RuleDelivery(
                rule: "\(program.details[Int(place)].pattern)\(key)", source: Path(keys), event: event, at: now, due: due,
                expires: due + lasts, content: content))
    }

    /// Nil if a place in it is named by a value that is missing.
    private mutating func notice(_ rule: NotifyRule, _ place: Int32, _ node: Node) throws(ConsequenceFault) -> RuleDelivery.Notice? {
        guard let devices = try path(rule.devices, node, place) else { return nil }
        var notice = RuleDelivery.Notice(devices: devices)
        notice.funnel = try rule.funnel.flatMap { template throws(ConsequenceFault) in try path(template, node, place) }
        notice.acknowledged = rule.acknowledged
        notice.unless = rule.unless?.map(\.text)
        notice.title = try texts(rule.title, atMost: RulesLimits.titleBytes, place)
        notice.body = try texts(rule.body, atMost: RulesLimits.bodyBytes, place)
        notice.url = try text(rule.url, atMost: RulesLimits.addressBytes, place)
        notice.tag = try text(rule.tag, atMost: RulesLimits.tagBytes, place)
        notice.group = try text(rule.group, atMost: RulesLimits.tagBytes, place)
        if rule.urgent >= 0 { notice.isUrgent = try holds(rule.urgent, place) }
        if let quiet = rule.quiet, !notice.isUrgent {
            let (from, to) = (try value(quiet.from, place), try value(quiet.to, place))
            let zone = quiet.zone < 0 ? Node.null : try value(quiet.zone, place)
            if let hours = QuietHours(from: from, to: to, zone: zone) {
                notice.quiet = ["from": .int(hours.from), "to": .int(hours.to), "zone": .string(hours.zone.name)]
            }
        }
        return notice
    }

    private func path(_ template: PathTemplate, _ node: Node, _ place: Int32) throws(ConsequenceFault) -> Path? {
        var path = ContiguousArray<Key>()
        for segment in template.segments {
            switch segment {
            case .key(let key): path.append(key)
            case .capture(let depth): path.append(keys[depth - 1])
            case .value(let field):
                let value = node.node(at: field)
                let key: Key
                switch value.leaf {
                case .string(let text): key = Key(text.string)
                case .int(let number): key = Key(String(number))
                default: return nil
                }
                guard key.isValid else { return nil }
                path.append(key)
            case .every, .generated: return nil
            }
        }
        return Path(path)
    }

    // MARK: Expressions

    private mutating func texts(_ texts: NotifyRule.Texts, atMost bytes: Int, _ place: Int32) throws(ConsequenceFault) -> Node {
        var found: [(Key, Node)] = []
        for (language, instruction) in texts {
            let text = try text(instruction, atMost: bytes, place).map { Node.string($0) } ?? .null
            if language.isEmpty { return text }
            if text.exists { found.append((Key(language), text)) }
        }
        return .object(found)
    }

    /// A value as text, cut at a length in bytes; nil for none.
    private mutating func text(_ instruction: Int32, atMost bytes: Int, _ place: Int32) throws(ConsequenceFault) -> String? {
        guard instruction >= 0 else { return nil }
        let text: String
        switch try value(instruction, place).leaf {
        case .string(let value): text = value.string
        case .null: return nil
        case let value: text = value.json
        }
        if text.isEmpty { return nil }
        guard text.utf8.count > bytes else { return text }
        var end = text.utf8.index(text.startIndex, offsetBy: bytes)
        while String.Index(end, within: text) == nil { end = text.utf8.index(before: end) }
        return String(text[..<end])
    }

    private mutating func value(_ instruction: Int32, _ place: Int32) throws(ConsequenceFault) -> Node {
        try evaluate(place) { evaluator throws(Fault) in try evaluator.node(.expression(instruction)) } ?? .null
    }

    private mutating func holds(_ condition: Int32, _ place: Int32) throws(ConsequenceFault) -> Bool {
        try evaluate(place) { evaluator throws(Fault) in try evaluator.boolean(condition) } ?? false
    }

    /// Evaluates an expression at the node; nil if it fails.
    private mutating func evaluate<R>(
        _ place: Int32, _ body: (inout Evaluator) throws(Fault) -> R
    ) throws(ConsequenceFault) -> R? {
        evaluated += 1
        var (left, isTooMuch) = (textWork, false)
        let found: R? = Evaluator.run(program, old: old, new: new, auth: RuleSet.hubAuth, now: now, query: nil) { evaluator in
            evaluator.textWork = left
            defer { left = evaluator.textWork }
            return keys.withUnsafeBufferPointer { keys in
                evaluator.descend(keys)
                do throws(Fault) { return try body(&evaluator) } catch {
                    isTooMuch = error.reason == .tooMuchWork
                    return nil
                }
            }
        }
        textWork = left
        if isTooMuch { throw fault(.tooMuchWork, place, "notify") }
        return found
    }

    private func fault(_ reason: ConsequenceFault.Reason, _ place: Int32, _ key: String) -> ConsequenceFault {
        ConsequenceFault(reason: reason, rule: "\(program.details[Int(place)].pattern).\(key)", path: Path(keys))
    }
}

extension RuleSet {
    /// Whether any place has a `.notify` or a `.webhook`.
    public var hasDeliveries: Bool { program.tables.places[0].delivers }

    /// Whether nothing has answered a notification that follows another one (`then`): none of its `unless` holds. If the rules no longer have
    /// these conditions, it counts as unanswered, because somebody may be in danger.
    /// - Parameters:
    ///   - unless: the texts of the conditions.
    ///   - tree: the current tree.
    public func isUnanswered(_ delivery: RuleDelivery, unless: [String], in tree: Node, now: Int64) -> Bool {
        let place = program.details.first { $0.pattern.depth == delivery.source.depth && "\($0.pattern).notify" == delivery.rule }
        guard let answers = place?.notifications.lazy.compactMap(\.unless).first(where: { $0.map(\.text) == unless }) else { return true }
        return Evaluator.run(program, old: tree, new: tree, auth: Self.hubAuth, now: now, query: nil) { evaluator in
            evaluator.textWork = min(evaluator.textWork, RulesLimits.rowTextWork)
            return delivery.source.keys.withUnsafeBufferPointer { keys in
                evaluator.descend(keys)
                return answers.allSatisfy { answer in
                    do throws(Fault) { return try !evaluator.boolean(answer.instruction) } catch { return true }
                }
            }
        }
    }
}
