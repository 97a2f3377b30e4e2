import Glibc

/// Collects one CR LF line at a time from reads that may split it anywhere.
struct HTTPLineReader: Sendable {
    /// The part of the current line from earlier reads, without its CR LF.
    private var partial: [UInt8] = []

    /// True if no byte of the next line has arrived.
    var isEmpty: Bool { partial.isEmpty }

    /// Advances `at` past the next line and returns the result of `body` for it, without CR LF. Nil if the line is incomplete; then all bytes are
    /// consumed. `limit` bounds the line without CR LF; exceeding it throws `tooLong` before more is buffered.
    mutating func next<Result>(
        _ bytes: UnsafeRawBufferPointer, _ at: inout Int, limit: Int, tooLong: HTTPFailure,
        _ body: (UnsafeRawBufferPointer) throws(HTTPFailure) -> Result
    ) throws(HTTPFailure) -> Result? {
        let start = at
        // Two bytes beyond the limit may be the CR and LF that end a line of exactly `limit` bytes.
        let stop = min(bytes.count, start + max(0, limit + 2 - partial.count))
        at = bytes.position(of: UInt8(ascii: "\n"), in: start..<stop) ?? stop
        let piece = UnsafeRawBufferPointer(rebasing: bytes[start..<at])
        guard at < stop else {
            if partial.count + piece.count >= limit + 2 { throw tooLong }
            partial.append(contentsOf: piece)
            return nil
        }
        at += 1
        if partial.isEmpty { return try body(Self.withoutCarriageReturn(piece)) }
        partial.append(contentsOf: piece)
        let line = partial
        partial = []
        return try line.withUnsafeBufferPointer { line throws(HTTPFailure) in
            try body(Self.withoutCarriageReturn(UnsafeRawBufferPointer(line)))
        }
    }

    /// Strips the CR that must precede the LF; no other CR may be in a line.
    private static func withoutCarriageReturn(
        _ line: UnsafeRawBufferPointer
    ) throws(HTTPFailure) -> UnsafeRawBufferPointer {
        guard line.last == UInt8(ascii: "\r") else { throw .bareLineFeed }
        let content = UnsafeRawBufferPointer(rebasing: line[..<(line.count - 1)])
        if content.position(of: UInt8(ascii: "\r"), in: 0..<content.count) != nil { throw .bareCarriageReturn }
        return content
    }
}

extension UnsafeRawBufferPointer {
    /// Offset of the first `byte` in a range of offsets. `memchr` compares many bytes per step.
    func position(of byte: UInt8, in range: Range<Int>) -> Int? {
        guard let base = baseAddress, !range.isEmpty else { return nil }
        guard let found = memchr(base + range.lowerBound, Int32(byte), range.count) else { return nil }
        return UnsafeRawPointer(found) - base
    }
}
