import Foundation

/// Base64 as stored hashes have it: the standard alphabet without padding.
enum Base64 {
    static func encode(_ bytes: [UInt8]) -> String { String(Data(bytes).base64EncodedString().prefix { $0 != "=" }) }

    /// Nil: anything but that alphabet, or a length that no bytes have.
    static func decode(_ text: some StringProtocol) -> [UInt8]? {
        guard !text.utf8.contains(UInt8(ascii: "=")), text.utf8.count % 4 != 1 else { return nil }
        return Data(base64Encoded: text + String(repeating: "=", count: (4 - text.utf8.count % 4) % 4)).map { Array($0) }
    }
}
