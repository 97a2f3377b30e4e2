internal import COpenSSL

/// Random numbers from libcrypto's cryptographic generator, which has one state per thread.
public struct SecureRandom: RandomNumberGenerator, Sendable {
    public init() {}

    public mutating func next() -> UInt64 {
        var number: UInt64 = 0
        withUnsafeMutableBytes(of: &number) { Self.fill($0) }
        return number
    }

    public static func bytes(_ count: Int) -> [UInt8] {
        [UInt8](unsafeUninitializedCapacity: count) { bytes, written in
            fill(UnsafeMutableRawBufferPointer(rebasing: UnsafeMutableRawBufferPointer(bytes)[..<count]))
            written = count
        }
    }

    /// Random letters and digits, uniformly distributed, 5.95 bits each: safe in URLs, paths and scripts.
    public static func text(_ length: Int) -> String {
        String(unsafeUninitializedCapacity: length) { text in
            withUnsafeTemporaryAllocation(byteCount: 64, alignment: 16) { bytes in
                var count = 0
                while count < length {
                    fill(bytes)
                    // Rejects bytes from 248 on, the largest multiple of 62: otherwise some letters would be more likely.
                    for byte in bytes where byte < 248 && count < length {
                        text[count] = letters[Int(byte % 62)]
                        count += 1
                    }
                }
                vigla_cleanse(bytes.baseAddress, bytes.count)
                return count
            }
        }
    }

    private static let letters = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789".utf8)

    public static func fill(_ bytes: UnsafeMutableRawBufferPointer) {
        // Like Swift's own generator: crashing is better than continuing with predictable bytes.
        if !vigla_random(bytes.baseAddress, bytes.count) { fatalError("Neither OpenSSL nor the kernel has random bytes.") }
    }
}
