import CZlib

/// CRC-32 (IEEE 802.3, reflected), as zlib computes it. Finds flipped bits, not intent.
package struct CRC32 {
    package private(set) var value: UInt32 = 0

    package init() {}

    package mutating func add(_ bytes: UnsafeRawBufferPointer) {
        // An empty buffer may have no address, and zlib resets the checksum for a null pointer.
        guard let base = bytes.baseAddress, !bytes.isEmpty else { return }
        value = UInt32(truncatingIfNeeded: crc32_z(uLong(value), base.assumingMemoryBound(to: Bytef.self), bytes.count))
    }

    /// Adds eight bytes, the lowest first.
    package mutating func add(_ number: UInt64) {
        withUnsafeBytes(of: number.littleEndian) { add($0) }
    }
}
