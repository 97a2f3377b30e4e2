extension JSONReader {
    /// `Node.int` or `Node.double`; a number too large for a double is malformed.
    public mutating func number() throws(JSONError) -> Node {
        guard try peek() == .number else { throw .unexpectedType(offset: offset) }
        switch shortNumber() {
        case .int(let value): return .int(value)
        case .double(let value): return .number(value)
        case nil: return try longNumber()
        }
    }

    enum ShortNumber {
        case int(Int64)
        case double(Double)
    }

    /// The next number, if it is an integer or a decimal such as `23.735901` of up to 18 digits, as most are. Otherwise nil, and nothing is
    /// read.
    ///
    /// Correctly rounded by one division: a significand of at most 2^53 divided by a power of ten that a double represents exactly.
    @inline(__always)
    mutating func shortNumber() -> ShortNumber? {
        var i = offset
        let isNegative = i < limit && bytes[i] == UInt8(ascii: "-")
        if isNegative { i &+= 1 }
        let start = i
        let whole = digits(&i, most: Self.mostDigits)
        // The full parser refuses leading zeros and missing digits.
        if i == start || (i &- start > 1 && bytes[start] == UInt8(ascii: "0")) { return nil }
        guard i < limit, Self.continues(bytes[i]) else {
            offset = i
            return .int(isNegative ? 0 &- whole : whole)
        }
        guard bytes[i] == UInt8(ascii: ".") else { return nil }
        let room = Self.mostDigits &- (i &- start)
        i &+= 1
        let point = i
        let fraction = digits(&i, most: room)
        let decimals = i &- point
        if decimals == 0 || (i < limit && Self.continues(bytes[i])) { return nil }
        let significand = whole &* Self.integerPowersOfTen[decimals] &+ fraction
        guard significand <= 1 << 53 else { return nil }
        let value = Double(significand) / Self.powersOfTen[decimals]
        offset = i
        return .double(isNegative ? -value : value)
    }

    /// The number of the digits at an offset, at most 18; moves the offset past them.
    @inline(__always)
    private func digits(_ i: inout Int, most: Int) -> Int64 {
        var value: Int64 = 0
        let stop = min(limit, i &+ most)
        while i < stop {
            let digit = bytes[i] &- UInt8(ascii: "0")
            guard digit <= 9 else { break }
            value = value &* 10 &+ Int64(digit)
            i &+= 1
        }
        return value
    }

    /// Whether a byte may follow the first digits of a number.
    @inline(__always)
    private static func continues(_ byte: UInt8) -> Bool {
        byte &- UInt8(ascii: "0") <= 9 || byte == UInt8(ascii: ".") || byte | 0x20 == UInt8(ascii: "e")
    }

    /// The most digits that always fit in 64 bits.
    private static let mostDigits = 18
    private static let powersOfTen: [Double] = [
        1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18,
    ]
    private static let integerPowersOfTen: [Int64] = [
        1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000, 1_000_000_000, 10_000_000_000, 100_000_000_000,
        1_000_000_000_000, 10_000_000_000_000, 100_000_000_000_000, 1_000_000_000_000_000, 10_000_000_000_000_000,
        100_000_000_000_000_000, 1_000_000_000_000_000_000,
    ]

    private mutating func longNumber() throws(JSONError) -> Node {
        let start = offset
        let isNegative = bytes[offset] == UInt8(ascii: "-")
        if isNegative { offset &+= 1 }
        var (value, overflow) = (Int64(0), false)
        let digitsStart = offset
        while offset < limit {
            let digit = bytes[offset] &- UInt8(ascii: "0")
            guard digit <= 9 else { break }
            let (product, o1) = value.multipliedReportingOverflow(by: 10)
            // Negatives are accumulated downwards from zero, so that the lowest integer fits.
            let (sum, o2) = isNegative ? product.subtractingReportingOverflow(Int64(digit)) : product.addingReportingOverflow(Int64(digit))
            overflow = overflow || o1 || o2
            value = sum
            offset &+= 1
        }
        let count = offset - digitsStart
        if count == 0 || (count > 1 && bytes[digitsStart] == UInt8(ascii: "0")) { throw .malformed(offset: start) }
        if !(try scanFraction(start)), !overflow { return .int(value) }
        guard let double = Double(String(decoding: bytes[start..<offset], as: UTF8.self)), double.isFinite else {
            throw .malformed(offset: start)
        }
        return .number(double)
    }

    private mutating func scanFraction(_ start: Int) throws(JSONError) -> Bool {
        var found = false
        if offset < limit, bytes[offset] == UInt8(ascii: ".") {
            offset &+= 1
            guard scanDigits() else { throw .malformed(offset: start) }
            found = true
        }
        if offset < limit, bytes[offset] | 0x20 == UInt8(ascii: "e") {
            offset &+= 1
            if offset < limit, bytes[offset] == UInt8(ascii: "+") || bytes[offset] == UInt8(ascii: "-") { offset &+= 1 }
            guard scanDigits() else { throw .malformed(offset: start) }
            found = true
        }
        return found
    }

    private mutating func scanDigits() -> Bool {
        let start = offset
        while offset < limit, bytes[offset] &- UInt8(ascii: "0") <= 9 { offset &+= 1 }
        return offset > start
    }
}
