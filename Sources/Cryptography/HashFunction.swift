internal import COpenSSL

/// A hash function of FIPS 180-4, computed by OpenSSL's libcrypto. From any thread; hashing itself allocates nothing.
public enum HashFunction: Sendable, CaseIterable {
    /// Only where a protocol requires it (RFC 6455, the contract's hash of values): SHA-1 collisions can be constructed.
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

    /// Hashes `bytes` into memory of at least `byteCount` bytes.
    public func hash(_ bytes: UnsafeRawBufferPointer, into hash: UnsafeMutableRawBufferPointer) {
        precondition(hash.count >= byteCount)
        let isDone = vigla_hash(code, bytes.baseAddress, bytes.count, hash.baseAddress)
        // Cannot happen for any input: every libcrypto that supports TLS has these functions.
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

    /// HMAC with a stored key.
    public func authenticationCode(of bytes: [UInt8], key: SecretBytes) -> SecretBytes {
        key.withUnsafeBytes { key in bytes.withUnsafeBytes { authenticationCode(of: $0, key: key) } }
    }

    /// The function's constant in `primitives.h`.
    var code: Int32 {
        switch self {
        case .sha1: Int32(VIGLA_SHA1)
        case .sha256: Int32(VIGLA_SHA256)
        case .sha512: Int32(VIGLA_SHA512)
        }
    }
}
