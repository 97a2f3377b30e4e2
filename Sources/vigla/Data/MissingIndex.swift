import JSONTree

/// Advice when the rules file lacks the index of a query: the line, its place, and how to add it.
enum MissingIndex {
    /// - Parameters:
    ///   - refusal: the hub's message; the result is nil if it is about something else.
    ///   - order: the path of `--order-by` or `orderBy`.
    static func advice(_ refusal: String, _ path: Path, order: String?) -> String? {
        let member: (line: String, what: String, note: String)
        if refusal.hasPrefix("Index not defined") {
            let order = order.map { ["value", "$value"].contains($0) ? ".value" : $0 } ?? "…"
            member = ("\".indexOn\": \(Node.string(order).json)", "Such an order", "")
        } else if refusal.hasPrefix("No points defined") {
            member = (
                "\".geoIndex\": { \"lat\": \"lat\", \"lng\": \"lng\" }", "--near",
                "\n\"lat\" and \"lng\" name the places of the degrees below each child: for {\"position\":{\"latitude\":37.9,…}} write "
                    + "\"position/latitude\"."
            )
        } else {
            return nil
        }
        var members = member.line
        for key in path.keys.reversed() { members = "\(Node.string(key.string).json): { \(members) }" }
        return """
            \(member.what) needs a line in the rules file, also with --dev:
              { "rules": { \(members) } }\(member.note)
            Add it to the hub's file of --rules and send the hub SIGHUP, or: vigla rules get URL > rules.json, add it there, and
            vigla rules deploy URL rules.json. (A wildcard such as "$room" may stand for a key.)
            """
    }
}
