/// Bytes that were read from a connection and not consumed yet; reading stops until they are. Each byte is copied once.
struct UnreadBytes {
    private var bytes: [UInt8] = []
    /// Number of bytes at the front that were consumed.
    private var consumed = 0

    var isEmpty: Bool { bytes.isEmpty }
    /// Memory in use, in bytes, consumed ones included.
    var count: Int { bytes.count }

    mutating func append(_ more: Slice<UnsafeMutableRawBufferPointer>) {
        bytes.append(contentsOf: UnsafeRawBufferPointer(UnsafeMutableRawBufferPointer(rebasing: more)))
    }

    /// Moves the content out and leaves this empty, so that consuming it does not copy.
    mutating func detach() -> UnreadBytes {
        defer { self = UnreadBytes() }
        return self
    }

    /// Consumes bytes from the front.
    /// - Parameter body: gets all bytes left, may change those it consumes, and returns their number.
    mutating func consume(_ body: (UnsafeMutableRawBufferPointer) -> Int) {
        let from = consumed
        consumed += bytes.withUnsafeMutableBytes { body(UnsafeMutableRawBufferPointer(rebasing: $0[from...])) }
        if consumed >= bytes.count { self = UnreadBytes() }
    }
}
