import Cryptography
package import JSONTree

/// The key that `+` or `+name` in a place stands for. It depends only on the place of the node and on the name: a repetition has the same
/// key, and no two nodes share one. So one list holds rows of every kind of node.
package enum GeneratedKey {
    private static let alphabet = Array("-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz".utf8)
    /// The bytes of the hash that are used: 120 bits in 20 characters.
    private static let bytes = 15

    /// The key of a node for a name. SHA-256, so that no client can choose a node whose key is that of another. About a microsecond.
    package static func of(_ node: some Sequence<Key>, _ name: String) -> Key {
        // Keys have no control characters, so no two pairs of a place and a name yield one text.
        let text = node.map(\.string).joined(separator: "/") + "\n" + name
        let hash = HashFunction.sha256.hash(text.utf8)
        var (characters, bits, count): ([UInt8], UInt32, Int) = ([], 0, 0)
        for byte in hash.prefix(bytes) {
            (bits, count) = (bits << 8 | UInt32(byte), count + 8)
            while count >= 6 {
                count -= 6
                characters.append(alphabet[Int(bits >> UInt32(count) & 63)])
            }
        }
        return Key(String(decoding: characters, as: UTF8.self))
    }
}
