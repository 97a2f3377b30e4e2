internal import COpenSSL

/// The signature scheme of a key; always with SHA-256.
public enum KeyKind: Sendable, CaseIterable {
    /// RSASSA-PKCS1-v1_5 (RFC 8017 §8.2), RS256 in tokens.
    case rsa
    /// ECDSA on P-256 (FIPS 186-5), ES256 in tokens.
    case p256
}

/// The numbers of a public key, big-endian, as in a JSON Web Key (RFC 7518 §6).
public enum KeyNumbers: Sendable, Equatable {
    /// Without leading zeros.
    case rsa(modulus: [UInt8], exponent: [UInt8])
    /// 32 bytes each.
    case p256(x: [UInt8], y: [UInt8])
}

/// The public half of a key, which checks signatures. Any number of threads may use it at once.
public struct PublicKey: Sendable {
    let handle: KeyHandle
    public let kind: KeyKind
    public let numbers: KeyNumbers

    /// - Throws: `malformedKey` (also for a point not on the curve), `keyOutOfBounds`.
    public init(_ numbers: KeyNumbers) throws(CryptographyError) {
        switch numbers {
        case .rsa(let modulus, let exponent):
            try self.init(KeyHandle { vigla_key_from_rsa(modulus, modulus.count, exponent, exponent.count, &$0) })
        case .p256(let x, let y):
            guard x.count == 32, y.count == 32 else { throw .malformedKey }
            try self.init(KeyHandle { vigla_key_from_p256(x, y, &$0) })
        }
    }

    /// - Parameter point: a point of P-256 in uncompressed form (SEC 1 §2.3.3): 4, x, y; 65 bytes.
    /// - Throws: `malformedKey` (also for a point not on the curve).
    public init(point: [UInt8]) throws(CryptographyError) {
        guard point.count == 65, point[0] == 4 else { throw .malformedKey }
        try self.init(.p256(x: Array(point[1..<33]), y: Array(point[33...])))
    }

    /// The point of a P-256 key in uncompressed form; nil for RSA.
    public var point: [UInt8]? { if case .p256(let x, let y) = numbers { [4] + x + y } else { nil } }

    /// - Parameter pem: `BEGIN PUBLIC KEY` (RFC 7468 §13) or `BEGIN RSA PUBLIC KEY`.
    /// - Throws: `malformedKey`, `unsupportedKey`, `keyOutOfBounds`.
    public init(pem: String) throws(CryptographyError) {
        let text = Array(pem.utf8)
        try self.init(KeyHandle { vigla_key_from_public_pem(text, text.count, &$0) })
    }

    init(_ handle: KeyHandle) throws(CryptographyError) {
        self.handle = handle
        kind = handle.kind
        numbers = try handle.numbers()
    }

    /// SubjectPublicKeyInfo (RFC 5280 §4.1.2.7), DER.
    public func der() throws(CryptographyError) -> [UInt8] { try handle.encoded(vigla_key_public_der).copy }

    /// Whether this key's owner signed `bytes`. RSA of 2,048 bits takes about 15 µs.
    /// - Parameter signature: for RSA as long as the modulus; for P-256 r and s, 32 bytes each (RFC 7518 §3.4).
    public func isSignature(_ signature: [UInt8], of bytes: UnsafeRawBufferPointer) -> Bool {
        vigla_key_verify(handle.key, bytes.baseAddress, bytes.count, signature, signature.count)
    }

    public func isSignature(_ signature: [UInt8], of bytes: some Sequence<UInt8>) -> Bool {
        Array(bytes).withUnsafeBytes { isSignature(signature, of: $0) }
    }
}
