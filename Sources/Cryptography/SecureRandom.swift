internal import COpenSSL

/// Random numbers that cannot be guessed, of libcrypto's generator, which each thread has for itself.
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

    public static func fill(_ bytes: UnsafeMutableRawBufferPointer) {
        // As with Swift's own generator: to go on with bytes that can be guessed would be worse than to end.
        if !vigla_random(bytes.baseAddress, bytes.count) { fatalError("Neither OpenSSL nor the kernel has random bytes.") }
    }
}
