import Logging

/// What a hub says at its start and is no event of its log: warnings for who starts it, and that it is ready. With `--log-format json`
/// these are JSON as well, so that every line that a collector gets is.
struct Notices {
    private let logger: Logger?

    init(_ format: LogLines.Format) {
        // A level of its own: what is said here does not depend on --log-level.
        logger = format == .json ? Logger(label: "vigla") { LogLines(label: $0, format: .json, level: .trace) } : nil
    }

    func tell(_ text: String) { write(text, .notice) }
    func warn(_ text: String) { write(text, .warning) }
    func fault(_ text: String) { write(text, .error) }

    /// On standard output, where scripts wait for it.
    func ready(_ line: String) {
        guard logger != nil else { return StandardStream.output.line(line) }
        StandardStream.output.write(LogLines.json(level: .notice, message: line, []))
    }

    private func write(_ text: String, _ level: Logger.Level) {
        guard let logger else { return StandardStream.error.line(text) }
        for line in text.split(separator: "\n") where !line.isEmpty { logger.log(level: level, "\(line)") }
    }
}
