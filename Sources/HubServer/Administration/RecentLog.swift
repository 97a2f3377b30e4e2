import JSONTree
public import Logging
import Synchronization

/// The last lines of the log, for administrators (`GET /.inspect/log.json`). It is a second log handler, next to the one that prints them.
///
/// It keeps lines of level `info` and above, at most `most` of them and `lineBytes` of each, whatever the log's level. It withholds two
/// things that only readers of the log itself may see: values that rules compared (`--log-refusals`), and mails that a development hub
/// prints, whose links sign their reader in.
public final class RecentLog: Sendable {
    /// Fields whose values are not kept.
    private static let withheldFields: Set<String> = ["rules", "link"]
    /// The start of messages that are not kept.
    private static let withheldMessage = "mail to "
    /// Bytes of a line, its fields included.
    public static let lineBytes = 1_000

    private struct Line {
        let number: Int
        /// ms since the epoch.
        let at: Int64
        let level: Logger.Level
        let text: String
    }

    private struct State {
        var number = 0
        /// A ring; `next` is its oldest line once it is full.
        var lines: [Line] = []
        var next = 0
    }

    private let most: Int
    private let now: @Sendable () -> Int64
    private let state = Mutex(State())

    /// - Parameters:
    ///   - most: number of lines kept; the oldest are dropped first. 0 keeps none.
    ///   - now: ms since the epoch.
    public init(most: Int = 200, now: @escaping @Sendable () -> Int64) {
        self.most = most
        self.now = now
    }

    /// A handler that records lines here.
    /// - Parameter level: the level of the log; `info` when that is lower.
    public func handler(_ level: Logger.Level) -> any LogHandler { Handler(log: self, logLevel: max(level, .info)) }

    private struct Handler: LogHandler {
        let log: RecentLog
        var logLevel: Logger.Level
        var metadata: Logger.Metadata = [:]

        subscript(metadataKey key: String) -> Logger.MetadataValue? {
            get { metadata[key] }
            set { metadata[key] = newValue }
        }

        func log(event: LogEvent) {
            log.keep(event.level, "\(event.message)", metadata.merging(event.metadata ?? [:]) { $1 })
        }
    }

    private func keep(_ level: Logger.Level, _ message: String, _ metadata: Logger.Metadata) {
        guard most > 0, !message.hasPrefix(Self.withheldMessage) else { return }
        var text = message
        for (name, value) in metadata.sorted(by: { $0.key < $1.key }) where !Self.withheldFields.contains(name) {
            text += " \(name)=\(value)"
            if text.utf8.count > Self.lineBytes { break }
        }
        if text.utf8.count > Self.lineBytes { text = String(decoding: text.utf8.prefix(Self.lineBytes), as: UTF8.self) + "…" }
        let at = now()
        state.withLock { state in
            state.number += 1
            let line = Line(number: state.number, at: at, level: level, text: text)
            if state.lines.count < most { return state.lines.append(line) }
            state.lines[state.next] = line
            state.next = (state.next + 1) % most
        }
    }

    /// `{"latest":17,"lines":[{"number":16,"at":1790000000000,"level":"notice","text":"rules deployed namespace=default"},…]}`: the lines
    /// with higher numbers than `after`, oldest first.
    func json(after: Int) -> [UInt8] {
        let (latest, lines) = state.withLock { state in
            (state.number, Array(state.lines[state.next...] + state.lines[..<state.next]))
        }
        let texts = lines.filter { $0.number > after }.map { line -> JSONValue in
            ["number": .int(Int64(line.number)), "at": .int(line.at), "level": .string(line.level.rawValue), "text": .string(line.text)]
        }
        let answer: JSONValue = ["latest": .int(Int64(latest)), "lines": .array(texts)]
        return answer.line
    }
}
