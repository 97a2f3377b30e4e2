import Glibc
import JSONTree
import Logging
import Scheduling

/// The log on standard error: one line per event, each written by one system call.
///
///     2026-11-20T18:24:16.123Z notice unknown namespace namespace=x peer=127.0.0.1:5000
///     {"time":"2026-11-20T18:24:16.123Z","level":"notice","message":"unknown namespace","namespace":"x","peer":"127.0.0.1:5000"}
struct LogLines: LogHandler {
    enum Format: String, CaseIterable { case text, json }

    let label: String
    let format: Format
    var logLevel: Logger.Level
    var metadata: Logger.Metadata = [:]
    var metadataProvider: Logger.MetadataProvider?

    init(label: String, format: Format, level: Logger.Level) {
        self.label = label
        self.format = format
        logLevel = level
    }

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    func log(event: LogEvent) {
        var all = metadata
        if let provided = metadataProvider?.get() { all.merge(provided) { $1 } }
        if let own = event.metadata { all.merge(own) { $1 } }
        var fields = all.map { (key: $0.key, value: "\($0.value)") }.sorted { $0.key < $1.key }
        if let error = event.error { fields.append((key: "error", value: "\(error)")) }
        let line = format == .json ? Self.json(level: event.level, message: "\(event.message)", fields) : Self.text(event, fields)
        StandardStream.error.write(line)
    }

    private static func text(_ event: LogEvent, _ fields: [(key: String, value: String)]) -> [UInt8] {
        var line = "\(timestamp()) \(event.level.rawValue) \(event.message)"
        for field in fields {
            // A value with a space or a line end is quoted, so that one event stays one line.
            let isPlain = field.value.utf8.allSatisfy { $0 > 0x20 && $0 != UInt8(ascii: "\"") }
            line += " \(field.key)=" + (isPlain && !field.value.isEmpty ? field.value : Node.string(field.value).json)
        }
        return Array((line + "\n").utf8)
    }

    /// One line with its line end.
    static func json(level: Logger.Level, message: String, _ fields: [(key: String, value: String)]) -> [UInt8] {
        var writer = JSONWriter()
        writer.raw("{\"time\":\"")
        writer.raw(timestamp().utf8)
        writer.raw("\",\"level\":\"")
        writer.raw(level.rawValue.utf8)
        writer.raw("\",\"message\":")
        writer.string(message)
        for field in fields {
            writer.raw(",")
            writer.string(field.key)
            writer.raw(":")
            writer.string(field.value)
        }
        writer.raw("}\n")
        return writer.bytes
    }

    /// RFC 3339 in UTC with milliseconds.
    private static func timestamp() -> String {
        let now = SystemTime.wallMs
        var (seconds, parts) = (time_t(now / 1000), tm())
        gmtime_r(&seconds, &parts)
        func pad(_ value: some BinaryInteger, _ width: Int) -> String {
            let digits = String(value)
            return String(repeating: "0", count: max(0, width - digits.count)) + digits
        }
        let date = "\(parts.tm_year + 1900)-\(pad(parts.tm_mon + 1, 2))-\(pad(parts.tm_mday, 2))"
        return "\(date)T\(pad(parts.tm_hour, 2)):\(pad(parts.tm_min, 2)):\(pad(parts.tm_sec, 2)).\(pad(now % 1000, 3))Z"
    }
}
