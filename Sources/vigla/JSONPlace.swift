import JSONTree

extension JSONError {
    /// The place of an offset in a text, for people: `2:6 (byte 14)`, line and column from 1. O(offset)
    func place(in text: UnsafeRawBufferPointer) -> String {
        let before = text.prefix(offset)
        let line = before.count { $0 == 0x0A } + 1
        let column = offset - (before.lastIndex(of: 0x0A).map { $0 + 1 } ?? 0) + 1
        return "\(line):\(column) (byte \(offset + 1))"
    }
}
