/// What was read of a connection and is not used yet; nothing more is read until it is. Each byte is copied once.
struct UnreadBytes {
    private var bytes: [UInt8] = []
    /// Bytes at the front that were used.
    private var used = 0

    var isEmpty: Bool { bytes.isEmpty }
    /// Memory that it takes.
    var count: Int { bytes.count }

    mutating func append(_ more: Slice<UnsafeMutableRawBufferPointer>) {
        bytes.append(contentsOf: UnsafeRawBufferPointer(UnsafeMutableRawBufferPointer(rebasing: more)))
    }

    /// Hands out all of it and keeps nothing.
    mutating func take() -> UnreadBytes {
        defer { self = UnreadBytes() }
        return self
    }

    /// Uses some of it.
    /// - Parameter body: gets all that is left, may change what it uses, and says how many bytes that is.
    mutating func use(_ body: (UnsafeMutableRawBufferPointer) -> Int) {
        let from = used
        used += bytes.withUnsafeMutableBytes { body(UnsafeMutableRawBufferPointer(rebasing: $0[from...])) }
        if used >= bytes.count { self = UnreadBytes() }
    }
}
