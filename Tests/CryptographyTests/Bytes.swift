import Foundation

/// Bytes in hexadecimal as in standards, with spaces anywhere.
func hex(_ text: String) -> [UInt8] {
    let digits = text.compactMap(\.hexDigitValue)
    return stride(from: 0, to: digits.count - 1, by: 2).map { UInt8(digits[$0] << 4 | digits[$0 + 1]) }
}

/// Base64 with either alphabet, with padding or without.
func base64(_ text: String) -> [UInt8] {
    let standard = text.replacingOccurrences(of: "-", with: "+").replacingOccurrences(of: "_", with: "/")
    let padding = String(repeating: "=", count: (4 - standard.utf8.count % 4) % 4)
    return Array(Data(base64Encoded: standard + padding) ?? Data())
}

/// A PEM document (RFC 7468).
func pem(_ label: String, _ der: [UInt8]) -> String {
    let text = Data(der).base64EncodedString(options: [.lineLength64Characters, .endLineWithLineFeed])
    return "-----BEGIN \(label)-----\n\(text)\n-----END \(label)-----\n"
}
