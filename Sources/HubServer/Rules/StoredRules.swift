import Cryptography
import JSONTree

/// Deployed rules in storage: the setting `rules` of their namespace.
///
///     {"after":"9f86d0…","source":"{\"rules\":{…}}"}
struct StoredRules: Equatable {
    static let setting = "rules"

    /// The text as it was deployed.
    var source: String
    /// Hash of the `--rules` file that they replaced; empty when no file was given.
    var after: String

    init(source: String, after: String) {
        self.source = source
        self.after = after
    }

    /// SHA-256 of a rules file's text, in hex.
    static func hash(of text: String) -> String {
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

    /// Parses the stored form; nil for anything else.
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
