import JSONTree

/// What happened to a node in a commit, as far as its deliveries depend on it.
public enum NodeEvent: String, Sendable, Hashable, CaseIterable {
    case creation, change, removal
}

/// One `.notify` of a node, or one `then` of it: `{"devices": "devices/$u", "title": "newData.child('title').val()", …}`.
struct NotifyRule: Sendable {
    /// A text, or one for each language. The plain text has the language "".
    typealias Texts = [(language: String, value: Int32)]

    /// Quiet hours, by expressions that yield minutes after midnight or texts such as `22:30`.
    struct Quiet: Sendable {
        let from: Int32
        let to: Int32
        /// The instruction of the time zone's name; -1 for UTC.
        let zone: Int32
    }

    let event: NodeEvent
    /// The place whose children are the recipient's devices.
    let devices: PathTemplate
    /// The instruction of the `if`; -1 for always.
    let condition: Int32
    let title: Texts
    let body: Texts
    /// Instructions; -1 for none.
    let url: Int32
    let tag: Int32
    let urgent: Int32
    /// Yields the name of the group whose notifications are combined.
    let group: Int32
    let quiet: Quiet?
    /// The path below the node that exists once the recipient has seen it.
    let acknowledged: Path?
    /// The place of the counters of notifications.
    let funnel: PathTemplate?
    /// From the commit to the first attempt; of a `then`, from the first attempt of the notification before it.
    let waitMs: Int64
    /// From the first attempt to the last.
    let lastsMs: Int64
    /// Of a `then`: the conditions asked at the time of the first attempt, of which one that holds ends the notification. Nil for others.
    let unless: [Answer]?

    struct Answer: Sendable {
        let instruction: Int32
        let text: String
    }
}

/// One `.webhook` of a node: `"website"`, or `{"name": "website", "on": ["creation"], "if": …}`.
struct WebhookRule: Sendable {
    /// The webhook's name in the configuration.
    let name: String
    let events: Set<NodeEvent>
    /// The instruction of the `if`; -1 for always.
    let condition: Int32
}

/// Compiles the `.notify` and `.webhook` of a node.
struct DeliveryCompiler {
    /// The depth of the node's place.
    let depth: Int
    let captures: [String: Int]
    let functions: Functions

    /// The rules of a `.notify` and of its `then`s.
    func compile(_ source: SourceNotify, _ builder: inout ProgramBuilder) throws(TextFault) -> [NotifyRule] {
        let condition = try rule(source.condition, &builder)
        var (rules, stage, wait): ([NotifyRule], SourceNotify?, Int64) = ([], source, source.waitMs)
        var unless: [NotifyRule.Answer] = []
        while let current = stage {
            let quiet: NotifyRule.Quiet? = if let (from, to, zone) = current.quiet {
                NotifyRule.Quiet(from: try value(from, &builder), to: try value(to, &builder), zone: try value(zone, &builder))
            } else { nil }
            rules.append(
                NotifyRule(
                    event: source.event, devices: try place(current.devices), condition: condition, title: try texts(current.title, &builder),
                    body: try texts(current.body, &builder), url: try value(current.url, &builder), tag: try value(current.tag, &builder),
                    urgent: try urgent(current.urgent, &builder), group: try value(current.combine, &builder), quiet: quiet,
                    acknowledged: current.acknowledged, funnel: try current.funnel.map { text throws(TextFault) in try place(text) },
                    waitMs: wait, lastsMs: current.lastsMs, unless: rules.isEmpty ? nil : unless))
            if let text = current.unless { unless.append(.init(instruction: try rule(text, isLate: true, &builder), text: text.value)) }
            wait = current.afterMs
            stage = current.then.first
        }
        return rules
    }

    func compile(_ source: SourceWebhook, _ builder: inout ProgramBuilder) throws(TextFault) -> WebhookRule {
        WebhookRule(name: source.name.value, events: source.events, condition: try rule(source.condition, &builder))
    }

    private func place(_ text: LocatedString) throws(TextFault) -> PathTemplate {
        do throws(ExpressionError) {
            let template = try PathTemplate(text.value, captures: captures).refusingGeneratedKeys()
            for case .every(let name) in template.segments {
                let wildcards = captures.keys.sorted().joined(separator: ", ")
                let hint = wildcards.isEmpty ? "" : " (\(wildcards))"
                throw ExpressionError(
                    offset: 0, message: "This is one place: '\(name ?? "*")' is no wildcard of the node's place\(hint).")
            }
            return template
        } catch { throw TextFault(error: error, text: text) }
    }

    private func rule(_ text: LocatedString?, isLate: Bool = false, _ builder: inout ProgramBuilder) throws(TextFault) -> Int32 {
        guard let text else { return -1 }
        var scope = Scope(kind: .write, captures: captures)
        scope.isRowFilter = isLate
        do throws(ExpressionError) {
            let expression = try ExpressionParser.parse(text.value)
            return builder.lower(try Checker.rule(expression, scope: scope, functions: functions), depth: depth)
        } catch { throw TextFault(error: error, text: text) }
    }

    private func urgent(_ rule: SourceRule?, _ builder: inout ProgramBuilder) throws(TextFault) -> Int32 {
        switch rule?.text {
        case nil, .constant(false): -1
        case .constant(true): builder.lower(Term(kind: .constant(.bool(true)), span: .none), depth: depth)
        case .expression(let text): try self.rule(text, &builder)
        }
    }

    private func value(_ text: LocatedString?, _ builder: inout ProgramBuilder) throws(TextFault) -> Int32 {
        guard let text else { return -1 }
        do throws(ExpressionError) {
            let scope = Scope(kind: .write, captures: captures)
            let checked = try Checker.value(try ExpressionParser.parse(text.value), scope: scope, functions: functions)
            return builder.lower(checked, depth: depth)
        } catch { throw TextFault(error: error, text: text) }
    }

    private func texts(
        _ texts: [(language: String, text: LocatedString)], _ builder: inout ProgramBuilder
    ) throws(TextFault) -> NotifyRule.Texts {
        var made: NotifyRule.Texts = []
        for (language, text) in texts { made.append((language, try value(text, &builder))) }
        return made
    }
}
