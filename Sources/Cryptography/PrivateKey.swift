internal import COpenSSL

/// A key that signs or agrees on secrets. Any number of threads may use it at once. Its numbers are overwritten when the last reference is
/// released.
public struct PrivateKey: Sendable {
    private let handle: KeyHandle
    public let publicKey: PublicKey

    public var kind: KeyKind { publicKey.kind }

    /// Creates a key; RSA, of 2,048 bits, takes some tenths of a second.
    /// - Throws: `refused`, if out of memory.
    public static func make(_ kind: KeyKind) throws(CryptographyError) -> PrivateKey {
        let code = switch kind { case .rsa: VIGLA_RSA; case .p256: VIGLA_P256 }
        return try PrivateKey(KeyHandle { _ in vigla_key_make(Int32(code)) })
    }

    /// - Parameter der: PKCS #8 (RFC 5958); also PKCS #1 or SEC 1.
    /// - Throws: `malformedKey` (also if the private half does not match the public one), `unsupportedKey`, `keyOutOfBounds`.
    public init(der: SecretBytes) throws(CryptographyError) {
        try self.init(KeyHandle { fault in der.withUnsafeBytes { vigla_key_from_private_der($0.baseAddress, $0.count, &fault) } })
    }

    private init(_ handle: KeyHandle) throws(CryptographyError) {
        self.handle = handle
        publicKey = try PublicKey(handle)
    }

    /// PKCS #8, not encrypted, DER.
    public func der() throws(CryptographyError) -> SecretBytes { try handle.encoded(vigla_key_private_der) }

    /// Signs bytes. Takes about 0.6 ms with RSA of 2,048 bits.
    /// - Returns: the signature, in the form that `PublicKey.isSignature` expects.
    /// - Throws: `refused`, if out of memory.
    public func sign(_ bytes: UnsafeRawBufferPointer) throws(CryptographyError) -> [UInt8] {
        let signature = signed(bytes)
        guard !signature.isEmpty else { throw .refused }
        return signature
    }

    public func sign(_ bytes: some Sequence<UInt8>) throws(CryptographyError) -> [UInt8] {
        let signature = Array(bytes).withUnsafeBytes { signed($0) }
        guard !signature.isEmpty else { throw .refused }
        return signature
    }

    /// The secret that both owners of a pair of P-256 keys can compute (ECDH, NIST SP 800-56A §5.7.1.2): 32 bytes, to derive keys from.
    /// - Throws: `refused` unless both keys are on P-256.
    public func sharedSecret(with peer: PublicKey) throws(CryptographyError) -> SecretBytes {
        try SecretBytes(count: 32) { secret throws(CryptographyError) in
            if !vigla_key_agree(handle.key, peer.handle.key, secret.baseAddress) { throw .refused }
        }
    }

    /// The signature; empty if libcrypto refuses.
    private func signed(_ bytes: UnsafeRawBufferPointer) -> [UInt8] {
        [UInt8](unsafeUninitializedCapacity: Int(VIGLA_KEY_NUMBER_BYTES)) { out, count in
            count = vigla_key_sign(handle.key, bytes.baseAddress, bytes.count, out.baseAddress)
        }
    }
}
