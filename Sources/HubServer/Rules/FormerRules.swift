import JSONTree
import SecurityRules

/// Rules that were in force before, each text once, the most recently replaced first: the setting `formerRules` of their namespace.
///
///     {"former":[{"until":1790000000000,"source":"{\"rules\":{…}}"}]}
struct FormerRules: Sendable, Equatable {
    struct Entry: Sendable, Equatable {
        /// When other rules replaced them; ms since the epoch.
        let until: Int64
        /// The text as it was written.
        let source: String
    }

    static let setting = "formerRules"
    /// Limit of all texts together in bytes; the most recently replaced one is kept whatever its length.
    static let allBytes = 2 * RuleSet.maxBytes

    private(set) var entries: [Entry] = []

    init() {}

    /// Adds the text that was replaced.
    /// - Parameter most: number of texts kept; the oldest are dropped first.
    mutating func add(_ replaced: String, until: Int64, inForce: String, most: Int) {
        guard replaced != inForce else { return }
        // The text now in force stays in the list until another deploy: if this deploy fails, it is still a former one.
        entries.removeAll { $0.source == replaced }
        entries.insert(Entry(until: until, source: replaced), at: 0)
        var (kept, bytes) = (0, 0)
        for entry in entries {
            bytes += entry.source.utf8.count
            guard kept < most, kept == 0 || bytes <= Self.allBytes else { break }
            kept += 1
        }
        entries.removeSubrange(kept...)
    }

    /// The stored form, also used in the response to administrators.
    /// - Parameter inForce: a text to leave out, because it is in force.
    func bytes(without inForce: String? = nil) -> [UInt8] {
        let texts = entries.filter { $0.source != inForce }.map { ["until": .int($0.until), "source": .string($0.source)] as JSONValue }
        return JSONValue.object([.init("former", .array(texts))]).line
    }

    /// Parses the stored form; nil for anything else.
    init?(_ bytes: [UInt8]) {
        guard let texts = (try? JSONValue(bytes))?["former"]?.elements else { return nil }
        for text in texts {
            guard let until = text["until"]?.int, let source = text["source"]?.string else { return nil }
            entries.append(Entry(until: until, source: source))
        }
    }
}
