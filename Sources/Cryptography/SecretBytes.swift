internal import COpenSSL

/// Bytes of a key or of a password's hash: in one place of their own, and overwritten with zeros when nothing refers to them.
///
/// An array does neither: it is copied as it grows, and its memory is given back as it is.
public final class SecretBytes: @unchecked Sendable {
    // Unchecked: the memory is written by the initializer and by `deinit` alone.
    private let memory: UnsafeMutableRawBufferPointer

    /// - Parameter fill: gets `count` zeros to write over.
    public init<Fault: Error>(count: Int, _ fill: (UnsafeMutableRawBufferPointer) throws(Fault) -> Void) throws(Fault) {
        memory = .allocate(byteCount: count, alignment: 16)
        memory.initializeMemory(as: UInt8.self, repeating: 0)
        try fill(memory)
    }

    /// A copy. What was copied stays as it is.
    public convenience init(_ bytes: UnsafeRawBufferPointer) {
        self.init(count: bytes.count) { $0.copyMemory(from: bytes) }
    }

    /// A copy. What was copied stays as it is.
    public convenience init(_ bytes: [UInt8]) {
        self.init(count: bytes.count) { $0.copyBytes(from: bytes) }
    }

    deinit {
        erase()
        memory.deallocate()
    }

    /// What `deinit` does first.
    func erase() { vigla_cleanse(memory.baseAddress, memory.count) }

    public var count: Int { memory.count }

    /// The bytes must not be used after `body`.
    public func withUnsafeBytes<Value, Fault: Error>(_ body: (UnsafeRawBufferPointer) throws(Fault) -> Value) throws(Fault) -> Value {
        defer { withExtendedLifetime(self) {} }
        return try body(UnsafeRawBufferPointer(memory))
    }

    /// A copy that is no secret, or no longer one: nothing will overwrite it.
    public var copy: [UInt8] { withUnsafeBytes { Array($0) } }

    /// Whether these are the same bytes, in a time that depends on their number only.
    public func isSame(as other: [UInt8]) -> Bool { withUnsafeBytes { bytes in other.withUnsafeBytes { isSameSecret(bytes, $0) } } }
}

/// Whether two byte strings are equal, in a time that depends on their lengths only.
public func isSameSecret(_ a: UnsafeRawBufferPointer, _ b: UnsafeRawBufferPointer) -> Bool {
    guard a.count == b.count else { return false }
    guard let first = a.baseAddress, let second = b.baseAddress else { return true }
    return vigla_is_same(first, second, a.count)
}

public func isSameSecret(_ a: [UInt8], _ b: [UInt8]) -> Bool { a.withUnsafeBytes { a in b.withUnsafeBytes { isSameSecret(a, $0) } } }
