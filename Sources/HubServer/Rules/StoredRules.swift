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

    var bytes: [UInt8] { JSONValue.object([.init("after", .string(after)), .init("source", .string(source))]).bytes }

    /// Parses the stored form; nil for anything else.
    init?(_ bytes: [UInt8]) {
        guard let stored = try? JSONValue(bytes), let source = stored["source"]?.string, let after = stored["after"]?.string else {
            return nil
        }
        (self.source, self.after) = (source, after)
    }
}
