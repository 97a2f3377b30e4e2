import Glibc

extension UnsafeRawBufferPointer {
    /// Offset of the first `byte` in a range of offsets; compares many bytes per step.
    func position(of byte: UInt8, in range: Range<Int>) -> Int? {
        guard let base = baseAddress, !range.isEmpty else { return nil }
        guard let found = memchr(base + range.lowerBound, Int32(byte), range.count) else { return nil }
        return UnsafeRawPointer(found) - base
    }
}
