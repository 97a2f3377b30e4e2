import Logging

/// A hub's start messages outside its log: warnings for the operator, and the ready line. With `--log-format json`
/// they are JSON as well, so that a log collector gets only JSON lines.
struct Notices {
    private let logger: Logger?

    init(_ format: LogLines.Format) {
        // A separate logger, so that these messages do not depend on --log-level.
        logger = format == .json ? Logger(label: "vigla") { LogLines(label: $0, format: .json, level: .trace) } : nil
    }

    func inform(_ text: String) { write(text, .notice) }
    func warn(_ text: String) { write(text, .warning) }
    func fault(_ text: String) { write(text, .error) }

    /// Prints to standard output, where scripts wait for it.
    func ready(_ line: String) {
        guard logger != nil else { return StandardStream.output.line(line) }
        StandardStream.output.write(LogLines.json(level: .notice, message: line, []))
    }

    private func write(_ text: String, _ level: Logger.Level) {
        guard let logger else { return StandardStream.error.line(text) }
        for line in text.split(separator: "\n") where !line.isEmpty { logger.log(level: level, "\(line)") }
    }
}
