import ArgumentParser
import Glibc
import JSONTree
import ViglaClient
import WireProtocols

/// `vigla watch URL`
struct Watch: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Print the value of a place and then every change, one JSON object a line.",
        discussion: """
            {"seq":8,"event":"value","value":{"name":"Ana"}}
            {"seq":9,"event":"added","key":"ana","value":{"name":"Ana"},"prev":null}

            With a query it follows only the children that the query selects:

              vigla watch http://127.0.0.1:9000/players --events added,moved,removed --order-by score --last 3
              vigla watch http://127.0.0.1:9000/reports --events added,changed,removed --near 37.975,23.735,1000 --where 'status == open'

            After a lost connection it reconnects and continues with the missed changes. If the hub no longer has them, as
            after a restart, it prints {"seq":9,"event":"reset"} and starts again.
            """)

    @OptionGroup var target: Target
    @OptionGroup(title: "Query") var query: QueryOptions
    @Option(help: ArgumentHelp(
        "Events, with commas: value (the whole place); added, changed, moved, removed (its children); count (how many); ready "
            + "(the first events are complete).", valueName: "list"))
    var events = "value"
    @Option(parsing: .unconditional, help: ArgumentHelp("Stop after so many events.", valueName: "number")) var count: Int?

    /// - Throws: `ValidationError`, which names the unknown event.
    private func wanted() throws -> ObserveEvents {
        var wanted: ObserveEvents = []
        for name in events.split(separator: ",", omittingEmptySubsequences: false).map(\.trimmingSpaces) {
            guard let event = ObserveEvents.names.first(where: { $0.name == name })?.event else {
                let known = ObserveEvents.names.map(\.name)
                let meant = Suggestion.nearest(to: name, of: known).map { " Did you mean '\($0)'?" } ?? ""
                throw ValidationError(
                    "--events: there is no event '\(UserText.plain(name))'.\(meant) There are \(known.joined(separator: ", ")), with "
                        + "commas between them.")
            }
            wanted.insert(event)
        }
        return wanted
    }

    func validate() throws {
        _ = try wanted()
        try target.refusePriority()
        if query.shallow { throw ValidationError("--shallow is for 'vigla get'; --events count prints the number of children.") }
        if let count, count < 1 { throw ValidationError("--count takes 1 or more, not \(count).") }
    }

    func run() throws {
        let wanted = try wanted()
        target.refuseParameters()
        let url = target.url
        let options = query
        for hint in options.hints { StandardStream.error.line("vigla: \(hint)") }
        let query = options.selection
        let left = EventCountdown(count)
        HubCall.run(target, reconnects: true) { client in
            _ = client.observe(url.path, wanted, query: query) { observation in
                switch observation {
                case .event(let event, let seq):
                    StandardStream.output.write([UInt8(ascii: "{")] + ObservePush(event, seq: seq).rest + [UInt8(ascii: "\n")])
                    if left.countDown() { HubCall.disconnect(client) }
                case .reset(let seq): StandardStream.output.line("{\"seq\":\(seq),\"event\":\"reset\"}")
                case .ended(.closed): break
                case .ended(let error): HubCall.stop(error, target, options)
                }
            }
        }
    }

    private final class EventCountdown: @unchecked Sendable {
        // because it is used on the client's loop only.
        private var count: Int?
        init(_ count: Int?) { self.count = count }

        /// Returns whether that was the last one.
        func countDown() -> Bool {
            count = count.map { $0 - 1 }
            return count == 0
        }
    }
}

extension Substring {
    fileprivate var trimmingSpaces: String { String(drop { $0 == " " }.reversed().drop { $0 == " " }.reversed()) }
}
