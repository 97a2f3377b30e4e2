extension JSONReader {
    /// Parses a path in a string such as `"a/b"`; `""` is the root. Creates the keys without an intermediate string.
    public mutating func path() throws(JSONError) -> Path {
        let start = offset
        guard try peek() == .string else { throw .unexpectedType(offset: offset) }
        let scanned = try scanString()
        do throws(PathError) {
            var path = Path()
            guard !scanned.escaped else {
                offset = start
                var text = (try? string()) ?? ""
                let keys = text.withUTF8 { bytes in try? Path.segments(bytes) }
                guard let keys else { throw .tooDeep }
                path.keys = keys
                return path
            }
            path.keys = try Path.segments(UnsafeBufferPointer(rebasing: bytes[scanned.content]))
            return path
        } catch { throw .malformed(offset: start) }
    }
}
