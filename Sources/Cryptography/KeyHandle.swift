internal import COpenSSL

/// Owns a key of libcrypto.
final class KeyHandle: @unchecked Sendable {
    // Unchecked: the key is immutable, and `keys.c` hands out the contexts of its operations with atomics.
    let key: OpaquePointer

    /// - Parameter make: returns the key, or nil with a fault of `primitives.h`.
    init(_ make: (_ fault: inout Int32) -> OpaquePointer?) throws(CryptographyError) {
        var fault: Int32 = 0
        guard let key = make(&fault) else { throw fault == 0 ? .refused : CryptographyError(fault: fault) }
        self.key = key
    }

    deinit { vigla_key_free(key) }

    var kind: KeyKind { vigla_key_kind(key) == Int32(VIGLA_RSA) ? .rsa : .p256 }

    func numbers() throws(CryptographyError) -> KeyNumbers {
        let most = Int(VIGLA_KEY_NUMBER_BYTES)
        var (a, b) = ([UInt8](repeating: 0, count: most), [UInt8](repeating: 0, count: most))
        var (aCount, bCount) = (0, 0)
        guard vigla_key_numbers(key, &a, &aCount, &b, &bCount) else { throw .refused }
        (a, b) = (Array(a.prefix(aCount)), Array(b.prefix(bCount)))
        return kind == .rsa ? .rsa(modulus: a, exponent: b) : .p256(x: a, y: b)
    }

    /// The key, encoded by a function of `primitives.h`.
    func encoded(
        _ encode: (OpaquePointer?, UnsafeMutablePointer<Int>?) -> UnsafeMutablePointer<UInt8>?
    ) throws(CryptographyError) -> SecretBytes {
        var count = 0
        guard let der = encode(key, &count) else { throw .refused }
        defer { vigla_key_free_der(der, count) }
        return SecretBytes(UnsafeRawBufferPointer(start: der, count: count))
    }
}
