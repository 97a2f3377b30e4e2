package import Logging
import Synchronization

/// Keeps logged events, one line each.
package final class LineLog: Sendable {
    private let lines = Mutex<[String]>([])
    private let level: Logger.Level
    private let line: @Sendable (LogEvent) -> String

    /// - Parameters:
    ///   - level: the least severe level that is kept.
    ///   - line: an event as text; by default its message and its metadata.
    package init(
        _ level: Logger.Level = .trace, line: @escaping @Sendable (LogEvent) -> String = { "\($0.message) \($0.metadata ?? [:])" }
    ) {
        self.level = level
        self.line = line
    }

    package var all: [String] { lines.withLock { $0 } }

    package var logger: Logger { Logger(label: "test") { [self] _ in Handler(log: self, logLevel: level) } }

    private struct Handler: LogHandler {
        let log: LineLog
        var logLevel: Logger.Level
        var metadata: Logger.Metadata = [:]

        subscript(metadataKey key: String) -> Logger.MetadataValue? {
            get { metadata[key] }
            set { metadata[key] = newValue }
        }

        func log(event: LogEvent) {
            let text = log.line(event)
            log.lines.withLock { $0.append(text) }
        }
    }
}

extension Logger {
    /// Drops all logged events.
    package static var silent: Logger { Logger(label: "test") { _ in SwiftLogNoOpLogHandler() } }
}
