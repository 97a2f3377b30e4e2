internal import COpenSSL

/// Bytes of a key or of a password's hash. They stay at one address, and are overwritten with zeros when the last reference is released.
///
/// An array guarantees neither: it is copied as it grows, and its memory is freed without being overwritten.
public final class SecretBytes: @unchecked Sendable {
    // Unchecked: only the initializer and `deinit` write to the memory.
    private let memory: UnsafeMutableRawBufferPointer

    /// - Parameter fill: receives `count` zeros to overwrite.
    public init<Fault: Error>(count: Int, _ fill: (UnsafeMutableRawBufferPointer) throws(Fault) -> Void) throws(Fault) {
        memory = .allocate(byteCount: count, alignment: 16)
        memory.initializeMemory(as: UInt8.self, repeating: 0)
        try fill(memory)
    }

    /// Copies bytes. The original is not overwritten.
    public convenience init(_ bytes: UnsafeRawBufferPointer) {
        self.init(count: bytes.count) { $0.copyMemory(from: bytes) }
    }

    /// Copies bytes. The original is not overwritten.
    public convenience init(_ bytes: [UInt8]) {
        self.init(count: bytes.count) { $0.copyBytes(from: bytes) }
    }

    deinit {
        erase()
        memory.deallocate()
    }

    /// Overwrites the bytes; `deinit` calls it first.
    func erase() { vigla_cleanse(memory.baseAddress, memory.count) }

    public var count: Int { memory.count }

    /// The bytes must not be used after `body` returns.
    public func withUnsafeBytes<Value, Fault: Error>(_ body: (UnsafeRawBufferPointer) throws(Fault) -> Value) throws(Fault) -> Value {
        defer { withExtendedLifetime(self) {} }
        return try body(UnsafeRawBufferPointer(memory))
    }

    /// A copy for data that is not or no longer secret: nothing will overwrite it.
    public var copy: [UInt8] { withUnsafeBytes { Array($0) } }

    /// Whether the bytes are equal, in a time that depends only on their number.
    public func isSame(as other: [UInt8]) -> Bool { withUnsafeBytes { bytes in other.withUnsafeBytes { isSameSecret(bytes, $0) } } }
}

/// Whether two byte strings are equal, in a time that depends only on their lengths.
public func isSameSecret(_ a: UnsafeRawBufferPointer, _ b: UnsafeRawBufferPointer) -> Bool {
    guard a.count == b.count else { return false }
    guard let first = a.baseAddress, let second = b.baseAddress else { return true }
    return vigla_is_same(first, second, a.count)
}

public func isSameSecret(_ a: [UInt8], _ b: [UInt8]) -> Bool { a.withUnsafeBytes { a in b.withUnsafeBytes { isSameSecret(a, $0) } } }
