extension SummaryWriter {
    /// "Watches `events` within `radius` metres of its position: a child that is there when it or the watch changes adds …"
    func watch(_ watch: SourceWatch, _ pattern: [String]) -> RuleSentence {
        let words = words(.watch, pattern)
        var text = "Watches \(Phrase.joined(watch.on.map { "`\($0.value)`" }, "and")) "
        switch watch.area {
        case .within(let place): text += "inside the region stored at `\(place.value)`"
        case .circle(let at, _, _, let radius):
            text += "within \(words.value(radius.value)) metres of \(at.map { "the position in `\($0.value)`" } ?? "its own position")"
        }
        text += ": a child that is there when it or the watch changes adds \(row(watch.value, words)) at "
            + Self.place(watch.to.value)
        if let condition = watch.condition { text += ", if \(words.phrase(condition.value).clause())" }
        if let cooldown = watch.cooldown {
            text += ", for each at most once in \(words.value(cooldown.value)) seconds"
        } else {
            text += ", once for each"
        }
        if let until = watch.until {
            let time = time(until.value, words)
            text += ", until \(time.hasPrefix("at ") ? String(time.dropFirst(3)) : time)"
        }
        return sentence(.follows, text + "." + note([words]), [Self.key(".watch", pattern)], [words])
    }
}
