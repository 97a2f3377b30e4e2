import Glibc
package import JSONTree

/// The positions of the parts of a compact JWS in its text (RFC 7515 §7.1).
///
///     eyJhbGciOi… . eyJpc3MiOi… . kX4r…
///     header        payload       signature
///     └──── signed content ─────┘
package struct CompactToken {
    /// The longest text parsed: an SDK's tokens have about 1 KiB, and claims at most 1,000 characters.
    package static let maxBytes = 16 << 10

    private let text: UnsafeRawBufferPointer
    private let firstDot: Int
    private let secondDot: Int

    /// - Parameter text: must stay valid and unchanged while the token is used.
    package init(_ text: UnsafeBufferPointer<UInt8>) throws(TokenFault) {
        guard text.count <= Self.maxBytes else { throw .malformed }
        self.text = UnsafeRawBufferPointer(text)
        firstDot = Self.dot(in: self.text, from: 0)
        secondDot = Self.dot(in: self.text, from: firstDot + 1)
        guard firstDot > 0, secondDot > firstDot + 1, secondDot < text.count, Self.dot(in: self.text, from: secondDot + 1) == text.count
        else { throw .malformed }
    }

    /// The index of the next dot; the end of the text if there is no further dot.
    private static func dot(in text: UnsafeRawBufferPointer, from start: Int) -> Int {
        guard start < text.count, let base = text.baseAddress else { return text.count }
        guard let found = memchr(base + start, Int32(UInt8(ascii: ".")), text.count - start) else { return text.count }
        return UnsafeRawPointer(found) - base
    }

    /// The header's text, including the dot after it.
    package var headerText: UnsafeRawBufferPointer { UnsafeRawBufferPointer(rebasing: text[...firstDot]) }

    package var isSigned: Bool { secondDot + 1 < text.count }

    package func header() throws(TokenFault) -> TokenHeader {
        guard let bytes = Base64.decodeURL(UnsafeRawBufferPointer(rebasing: text[..<firstDot])) else { throw .malformed }
        return try TokenHeader(bytes)
    }

    /// The payload; unverified.
    package func unverifiedPayload() throws(TokenFault) -> [UInt8] {
        guard let bytes = Base64.decodeURL(UnsafeRawBufferPointer(rebasing: text[(firstDot + 1)..<secondDot])) else { throw .malformed }
        return bytes
    }

    /// The payload, if the key's owner signed it.
    package func payload(by key: VerifyingKey) throws(TokenFault) -> [UInt8] {
        guard let signature = Base64.decodeURL(UnsafeRawBufferPointer(rebasing: text[(secondDot + 1)...])) else { throw .malformed }
        guard key.isSignature(signature, of: UnsafeRawBufferPointer(rebasing: text[..<secondDot])) else { throw .signature }
        return try unverifiedPayload()
    }
}

extension String {
    /// Parses the positions of a compact token's parts.
    package func readCompact<T>(_ body: (CompactToken) throws(TokenFault) -> T) throws(TokenFault) -> T {
        var text = self
        return try text.withUTF8 { bytes in
            Result { () throws(TokenFault) in try body(try CompactToken(bytes)) }
        }.get()
    }
}

/// The header of a token (RFC 7515 §4.1). It only selects a key and is not trusted: the key determines the algorithm, and a header with another
/// one is refused.
package struct TokenHeader: Equatable {
    package let algorithm: String
    package let keyID: String?

    package init(_ bytes: [UInt8]) throws(TokenFault) {
        let read: (algorithm: String?, keyID: String?)? = bytes.withUnsafeBytes { buffer in
            do throws(JSONError) {
                var reader = JSONReader(buffer)
                var (algorithm, keyID): (String?, String?)
                var names: Set<String> = []
                try reader.beginObject()
                while let name = try reader.nextName() {
                    guard names.insert(name).inserted else { return nil }
                    switch name {
                    case "alg": algorithm = try reader.string()
                    case "kid": keyID = try reader.string()
                    // Critical extensions (§4.1.11) are not supported.
                    case "crit": return nil
                    default: try reader.skipValue()
                    }
                }
                try reader.expectEnd()
                return (algorithm, keyID)
            } catch { return nil }
        }
        guard let read, let algorithm = read.algorithm else { throw .malformed }
        self.algorithm = algorithm
        keyID = read.keyID
    }

    /// Finds the key that the token names.
    package func key(in keys: some Sequence<VerifyingKey>) throws(TokenFault) -> VerifyingKey {
        guard SignatureAlgorithm(rawValue: algorithm) != nil else { throw .algorithm }
        guard let key = keys.first(where: { $0.id == keyID }) else { throw .unknownKey }
        guard key.algorithm.rawValue == algorithm else { throw .algorithm }
        return key
    }
}

extension Node {
    /// The claims of a token.
    package init(claims bytes: [UInt8]) throws(TokenFault) {
        let node: Node? = bytes.withUnsafeBytes { buffer in
            do throws(JSONError) {
                var reader = JSONReader(buffer)
                guard try reader.peek() == .object else { return nil }
                let claims = try reader.claims()
                try reader.expectEnd()
                return claims
            } catch { return nil }
        }
        guard let node else { throw .malformed }
        self = node
    }
}
