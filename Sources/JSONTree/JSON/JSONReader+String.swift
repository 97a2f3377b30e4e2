extension JSONReader {
    /// A string with its escapes resolved; a lone surrogate becomes U+FFFD.
    public mutating func string() throws(JSONError) -> String {
        guard try peek() == .string else { throw .unexpectedType(offset: offset) }
        let (content, escaped) = try scanString()
        if !escaped { return String(decoding: UnsafeBufferPointer(rebasing: bytes[content]), as: UTF8.self) }
        return try unescape(content)
    }

    /// Skips a string; returns the range of its content and whether it has escapes.
    mutating func scanString() throws(JSONError) -> (content: Range<Int>, escaped: Bool) {
        let start = offset &+ 1
        var i = start
        var escaped = false
        let end = limit
        while i < end {
            let byte = bytes[i]
            if byte == UInt8(ascii: "\"") {
                offset = i &+ 1
                return (start..<i, escaped)
            }
            if byte == UInt8(ascii: "\\") {
                escaped = true
                i = try scanEscape(i)
                continue
            }
            if byte < 0x20 { throw .malformed(offset: i) }
            i &+= 1
        }
        throw .malformed(offset: end)
    }

    private func scanEscape(_ i: Int) throws(JSONError) -> Int {
        guard i &+ 1 < limit else { throw .malformed(offset: i) }
        switch bytes[i &+ 1] {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"), UInt8(ascii: "b"), UInt8(ascii: "f"), UInt8(ascii: "n"),
            UInt8(ascii: "r"), UInt8(ascii: "t"):
            return i &+ 2
        case UInt8(ascii: "u"):
            guard hexUnit(i &+ 2) != nil else { throw .malformed(offset: i) }
            return i &+ 6
        default: throw .malformed(offset: i)
        }
    }

    private func hexUnit(_ i: Int) -> UInt16? {
        guard i &+ 4 <= limit else { return nil }
        var value: UInt16 = 0
        for k in i..<i + 4 {
            let byte = bytes[k]
            switch byte {
            case UInt8(ascii: "0")...UInt8(ascii: "9"): value = value << 4 | UInt16(byte - UInt8(ascii: "0"))
            case UInt8(ascii: "a")...UInt8(ascii: "f"): value = value << 4 | UInt16(byte - UInt8(ascii: "a") + 10)
            case UInt8(ascii: "A")...UInt8(ascii: "F"): value = value << 4 | UInt16(byte - UInt8(ascii: "A") + 10)
            default: return nil
            }
        }
        return value
    }

    /// Resolves the escapes of a scanned string.
    private func unescape(_ content: Range<Int>) throws(JSONError) -> String {
        var out = [UInt8]()
        out.reserveCapacity(content.count)
        var i = content.lowerBound
        while i < content.upperBound {
            let byte = bytes[i]
            guard byte == UInt8(ascii: "\\") else {
                out.append(byte)
                i &+= 1
                continue
            }
            let escape = bytes[i &+ 1]
            i &+= 2
            switch escape {
            case UInt8(ascii: "b"): out.append(0x08)
            case UInt8(ascii: "f"): out.append(0x0C)
            case UInt8(ascii: "n"): out.append(0x0A)
            case UInt8(ascii: "r"): out.append(0x0D)
            case UInt8(ascii: "t"): out.append(0x09)
            case UInt8(ascii: "u"):
                guard let unit = hexUnit(i) else { throw .malformed(offset: i) }
                i &+= 4
                var scalar = Unicode.Scalar(UInt32(unit)) ?? "\u{FFFD}"
                if unit & 0xFC00 == 0xD800, i &+ 1 < content.upperBound, bytes[i] == UInt8(ascii: "\\"), bytes[i &+ 1] == UInt8(ascii: "u"),
                    let low = hexUnit(i &+ 2), low & 0xFC00 == 0xDC00
                {
                    scalar = Unicode.Scalar(0x10000 + (UInt32(unit & 0x3FF) << 10 | UInt32(low & 0x3FF))) ?? "\u{FFFD}"
                    i &+= 6
                }
                out.append(contentsOf: UTF8.encode(scalar) ?? UTF8.encodedReplacementCharacter)
            default: out.append(escape)
            }
        }
        return String(decoding: out, as: UTF8.self)
    }
}
