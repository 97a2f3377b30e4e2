/// Reads little-endian numbers and runs of bytes; nil behind the end.
struct ByteReader {
    private var rest: UnsafeRawBufferPointer

    init(_ bytes: UnsafeRawBufferPointer) { rest = bytes }

    var isAtEnd: Bool { rest.isEmpty }

    mutating func integer<Number: FixedWidthInteger>(_ type: Number.Type = Number.self) -> Number? {
        guard let bytes = bytes(MemoryLayout<Number>.size) else { return nil }
        return Number(littleEndian: bytes.loadUnaligned(as: Number.self))
    }

    mutating func bytes(_ count: Int) -> UnsafeRawBufferPointer? {
        guard count >= 0, count <= rest.count else { return nil }
        defer { rest = UnsafeRawBufferPointer(rebasing: rest.dropFirst(count)) }
        return UnsafeRawBufferPointer(rebasing: rest.prefix(count))
    }

    /// All that is left.
    mutating func remainder() -> UnsafeRawBufferPointer {
        defer { rest = UnsafeRawBufferPointer(start: nil, count: 0) }
        return rest
    }
}

extension [UInt8] {
    mutating func append(littleEndian number: some FixedWidthInteger) {
        Swift.withUnsafeBytes(of: number.littleEndian) { append(contentsOf: $0) }
    }
}
