extension JSONReader {
    /// A string with its escapes resolved; a lone surrogate becomes U+FFFD.
    public mutating func string() throws(JSONError) -> String {
        guard try peek() == .string else { throw .unexpectedType(offset: offset) }
        return try string(try scanString())
    }

    func string(_ scanned: ScannedString) throws(JSONError) -> String {
        if !scanned.escaped { return String(decoding: UnsafeBufferPointer(rebasing: bytes[scanned.content]), as: UTF8.self) }
        return try unescape(scanned.content)
    }

    /// A string that was skipped.
    struct ScannedString {
        /// The range of its content.
        let content: Range<Int>
        let escaped: Bool
        /// Whether the content is the text itself: ASCII without escapes, so that it needs no repair.
        let isPlain: Bool
    }

    /// Skips a string.
    mutating func scanString() throws(JSONError) -> ScannedString {
        let start = offset &+ 1
        var i = start
        var escaped = false
        var high: UInt64 = 0
        let end = limit
        while i < end {
            // Eight bytes at a time, up to the first special one.
            if i &+ 8 <= end, let base = UnsafeRawPointer(bytes.baseAddress) {
                let word = UInt64(littleEndian: base.loadUnaligned(fromByteOffset: i, as: UInt64.self))
                let special = JSONText.special(word)
                if special == 0 {
                    high |= word
                    i &+= 8
                    continue
                }
                let plain = special.trailingZeroBitCount &>> 3
                high |= word & ~(.max &<< UInt64(truncatingIfNeeded: 8 &* plain))
                i &+= plain
            }
            let byte = bytes[i]
            if byte == UInt8(ascii: "\"") {
                offset = i &+ 1
                let isASCII = high & 0x8080_8080_8080_8080 == 0
                return ScannedString(content: start..<i, escaped: escaped, isPlain: isASCII && !escaped)
            }
            if byte == UInt8(ascii: "\\") {
                escaped = true
                i = try scanEscape(i)
                continue
            }
            if byte < 0x20 { throw .malformed(offset: i) }
            high |= UInt64(byte)
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

enum JSONText {
    /// Whether one of eight bytes is a quote, a backslash or a control character.
    @inline(__always)
    static func hasSpecial(_ word: UInt64) -> Bool { special(word) != 0 }

    /// The highest bit of each of eight bytes that is a quote, a backslash or a control character. Exact for the lowest such byte; above it,
    /// others may be marked as well.
    @inline(__always)
    static func special(_ word: UInt64) -> UInt64 {
        let (ones, highs): (UInt64, UInt64) = (0x0101_0101_0101_0101, 0x8080_8080_8080_8080)
        let quote = word ^ (ones &* UInt64(UInt8(ascii: "\"")))
        let slash = word ^ (ones &* UInt64(UInt8(ascii: "\\")))
        let found = ((quote &- ones) & ~quote) | ((slash &- ones) & ~slash) | ((word &- ones &* 0x20) & ~word)
        return found & highs
    }
}
