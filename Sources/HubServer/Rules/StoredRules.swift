import Cryptography
import JSONTree

/// Deployed rules as they are kept, in the setting `rules` of their namespace.
///
///     {"after":"9f86d0…","source":"{\"rules\":{…}}"}
struct StoredRules: Equatable {
    static let setting = "rules"

    /// The text as it was deployed.
    var source: String
    /// Mark of the `--rules` file that they took the place of; empty when there was none.
    var after: String

    init(source: String, after: String) {
        self.source = source
        self.after = after
    }

    /// What tells one text of a rules file from another.
    static func mark(of text: String) -> String {
        HashFunction.sha256.hash(text.utf8).map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
    }

    var bytes: [UInt8] {
        var writer = JSONWriter(reservingCapacity: source.utf8.count + 128)
        writer.raw("{\"after\":")
        writer.string(after)
        writer.raw(",\"source\":")
        writer.string(source)
        writer.raw("}")
        return writer.bytes
    }

    /// - Returns: nil for bytes that no version of this has written.
    init?(_ bytes: [UInt8]) {
        var (source, after): (String?, String?)
        let isRead = bytes.withUnsafeBytes { buffer in
            do throws(JSONError) {
                var reader = JSONReader(buffer)
                try reader.beginObject()
                while let name = try reader.nextName() {
                    switch name {
                    case "after": after = try reader.string()
                    case "source": source = try reader.string()
                    default: try reader.skipValue()
                    }
                }
                try reader.expectEnd()
                return true
            } catch { return false }
        }
        guard isRead, let source, let after else { return nil }
        (self.source, self.after) = (source, after)
    }
}
