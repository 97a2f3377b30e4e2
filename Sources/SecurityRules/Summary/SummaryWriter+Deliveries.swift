import JSONTree

/// What leaves the hub because of a node.
extension SummaryWriter {
    /// "When it is created, the devices at `devices/$u` are notified: "text of `title`"."
    func notification(_ notification: SourceNotify, _ pattern: [String]) -> RuleSentence {
        let words = words(notification.event == .creation ? .created : .change, pattern)
        var text = when(notification.event, notification.condition, words) + ", " + notice(notification, words)
        var next = notification
        while let then = next.then.first {
            let answers = [next.unless.map { words.phrase($0.value).clause() }, next.acknowledged.map { "there is `\($0.relativeText)`" }]
            text += " Unless \(Phrase.joined(answers.compactMap { $0 }, "or")) within \(RuleWords.duration(Int(next.afterMs))), \(notice(then, words))"
            next = then
        }
        return sentence(.follows, text + note([words]), [Self.key(".notify", pattern)], [words])
    }

    private func notice(_ notice: SourceNotify, _ words: RuleWords) -> String {
        let title = notice.title.first { $0.language == "en" } ?? notice.title.first
        return "the devices at `\(notice.devices.value)` are notified" + (title.map { " of \(words.value($0.text.value))" } ?? "") + "."
    }

    /// "When it is created, changed or removed, the webhook `website` is called."
    func webhook(_ webhook: SourceWebhook, _ pattern: [String]) -> RuleSentence {
        let words = words(.change, pattern)
        let verbs = NodeEvent.allCases.filter { webhook.events.contains($0) }.map { Self.verb($0) }
        let condition = webhook.condition.map { ", if \(words.phrase($0.value).clause())" } ?? ""
        let text = "When it is \(Phrase.joined(verbs, "or"))\(condition), the webhook `\(webhook.name.value)` is called."
        return sentence(.follows, text + note([words]), [Self.key(".webhook", pattern)], [words])
    }

    private func when(_ event: NodeEvent, _ condition: LocatedString?, _ words: RuleWords) -> String {
        "When it is \(Self.verb(event))" + (condition.map { ", if \(words.phrase($0.value).clause())" } ?? "")
    }

    private static func verb(_ event: NodeEvent) -> String {
        switch event {
        case .creation: "created"
        case .change: "changed"
        case .removal: "removed"
        }
    }
}
