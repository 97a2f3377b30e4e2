internal import COpenSSL

/// A hash function of FIPS 180-4, computed by OpenSSL's libcrypto. From any thread; nothing is allocated for the hashing itself.
public enum HashFunction: Sendable, CaseIterable {
    /// Only where a protocol asks for it (RFC 6455, the contract's hash of values): two texts with the same SHA-1 can be made.
    case sha1
    case sha256
    case sha512

    /// Length of a hash in bytes.
    public var byteCount: Int {
        switch self {
        case .sha1: 20
        case .sha256: 32
        case .sha512: 64
        }
    }

    /// Hashes `bytes` into memory that has room for `byteCount` bytes.
    public func hash(_ bytes: UnsafeRawBufferPointer, into hash: UnsafeMutableRawBufferPointer) {
        precondition(hash.count >= byteCount)
        let isDone = vigla_hash(code, bytes.baseAddress, bytes.count, hash.baseAddress)
        // libcrypto has them in every configuration that TLS works with; what is hashed plays no part in it.
        if !isDone { fatalError("OpenSSL cannot compute \(self).") }
    }

    public func hash(_ bytes: UnsafeRawBufferPointer) -> [UInt8] {
        [UInt8](unsafeUninitializedCapacity: byteCount) { hash, count in
            self.hash(bytes, into: UnsafeMutableRawBufferPointer(hash))
            count = byteCount
        }
    }

    public func hash(_ bytes: some Sequence<UInt8>) -> [UInt8] {
        bytes.withContiguousStorageIfAvailable { hash(UnsafeRawBufferPointer($0)) } ?? Array(bytes).withUnsafeBytes { hash($0) }
    }

    /// HMAC with this function (RFC 2104).
    public func authenticationCode(of bytes: UnsafeRawBufferPointer, key: UnsafeRawBufferPointer) -> SecretBytes {
        SecretBytes(count: byteCount) { code in
            let isDone = vigla_hmac(self.code, key.baseAddress, key.count, bytes.baseAddress, bytes.count, code.baseAddress)
            if !isDone { fatalError("OpenSSL cannot compute HMAC with \(self).") }
        }
    }

    /// The same with a key that is kept.
    public func authenticationCode(of bytes: [UInt8], key: SecretBytes) -> SecretBytes {
        key.withUnsafeBytes { key in bytes.withUnsafeBytes { authenticationCode(of: $0, key: key) } }
    }

    /// As `primitives.h` names it.
    var code: Int32 {
        switch self {
        case .sha1: Int32(VIGLA_SHA1)
        case .sha256: Int32(VIGLA_SHA256)
        case .sha512: Int32(VIGLA_SHA512)
        }
    }
}
