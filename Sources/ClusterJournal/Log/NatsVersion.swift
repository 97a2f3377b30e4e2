import JSONTree

/// The version that a NATS server announces, such as `2.14.6` or `2.15.0-RC.1`.
struct NatsVersion: Comparable, CustomStringConvertible {
    /// Older servers delete a snapshot of a log that they cannot load, continue with a part of the log, and ignore `sync_interval: always`
    /// while they compact.
    static let oldest = NatsVersion("2.14.6")!

    let description: String
    private let numbers: [Int]

    /// Nil unless `text` begins with three numbers.
    init?(_ text: String) {
        numbers = text.split(whereSeparator: { !$0.isASCII || !$0.isNumber }).prefix(3).compactMap { Int($0) }
        guard numbers.count == 3, text.first?.isNumber == true else { return nil }
        description = text
    }

    static func < (a: NatsVersion, b: NatsVersion) -> Bool { a.numbers.lexicographicallyPrecedes(b.numbers) }
    static func == (a: NatsVersion, b: NatsVersion) -> Bool { a.numbers == b.numbers }

    /// Why a hub refuses a log, from the answer to `$JS.API.STREAM.INFO`: since NATS 2.11 the server that leads the log announces its version in the
    /// log's metadata. Nil if it is new enough, or the answer is an error.
    static func refusal(of answer: [UInt8], oldest: NatsVersion) -> String? {
        guard let answer = try? JSONValue(answer), let config = answer["config"] else { return nil }
        let announced = config["metadata"]?["_nats.ver"]?.string
        if let announced, let version = NatsVersion(announced), version >= oldest { return nil }
        let server = answer["cluster"]?["leader"]?.string.map { "NATS server \($0)" } ?? "the NATS server"
        return "\(server) is \(announced.map { "version \($0)" } ?? "older than 2.11"); a hub needs \(oldest) or later: "
            + "older ones may lose a part of the log"
    }
}
