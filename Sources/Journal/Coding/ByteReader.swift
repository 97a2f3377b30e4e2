/// Reads little-endian numbers and runs of bytes; nil past the end.
package struct ByteReader {
    private var rest: UnsafeRawBufferPointer

    package init(_ bytes: UnsafeRawBufferPointer) { rest = bytes }

    package var isAtEnd: Bool { rest.isEmpty }

    package mutating func integer<Number: FixedWidthInteger>(_ type: Number.Type = Number.self) -> Number? {
        guard let bytes = bytes(MemoryLayout<Number>.size) else { return nil }
        return Number(littleEndian: bytes.loadUnaligned(as: Number.self))
    }

    package mutating func bytes(_ count: Int) -> UnsafeRawBufferPointer? {
        guard count >= 0, count <= rest.count else { return nil }
        defer { rest = UnsafeRawBufferPointer(rebasing: rest.dropFirst(count)) }
        return UnsafeRawBufferPointer(rebasing: rest.prefix(count))
    }

    /// All remaining bytes.
    package mutating func remainder() -> UnsafeRawBufferPointer {
        defer { rest = UnsafeRawBufferPointer(start: nil, count: 0) }
        return rest
    }

    /// Bytes preceded by their count, as `append(counted:)` writes them.
    package mutating func counted() -> UnsafeRawBufferPointer? {
        guard let count = integer(UInt32.self) else { return nil }
        return bytes(Int(count))
    }

    /// A text preceded by its number of bytes.
    package mutating func text() -> String? { counted().flatMap { String(validating: $0, as: UTF8.self) } }

    /// An optional value, as `append(optional:)` writes it.
    package mutating func optional<Value>(_ read: (inout ByteReader) -> Value?) -> Value?? {
        switch integer(UInt8.self) {
        case 0: .some(nil)
        case 1: read(&self).map { .some($0) }
        default: nil
        }
    }
}

extension [UInt8] {
    package mutating func append(littleEndian number: some FixedWidthInteger) {
        Swift.withUnsafeBytes(of: number.littleEndian) { append(contentsOf: $0) }
    }

    package mutating func append(counted bytes: some Collection<UInt8>) {
        append(littleEndian: UInt32(bytes.count))
        append(contentsOf: bytes)
    }

    package mutating func append(optional bytes: (some Collection<UInt8>)?) {
        append(bytes == nil ? 0 : 1)
        if let bytes { append(counted: bytes) }
    }
}
