/// Validates UTF-8 that arrives in pieces (RFC 3629). Overlong forms, surrogates and values above U+10FFFF are refused at the first byte that
/// makes the text invalid. So the peer gets the error as early as RFC 6455 §8.1 allows.
///
/// State between pieces is what the *next* byte must be:
/// ```
/// ASCII ──► boundary      lead byte ──► pending = bytes missing, next byte ∈ low...high ──► … ──► boundary
/// ```
struct UTF8Validator: Sendable {
    /// The continuation bytes missing from the open scalar; 0 between scalars.
    private var pending: UInt8 = 0
    /// Bounds of the next continuation byte. Only the first one after a lead byte is narrower than 80...BF.
    private var low: UInt8 = 0x80
    private var high: UInt8 = 0xBF

    /// True between scalars: the text seen so far may end here.
    var isAtBoundary: Bool { pending == 0 }

    /// Validates the next piece; false once the text can no longer be UTF-8. O(n), eight ASCII bytes per step.
    mutating func consume(_ bytes: UnsafeRawBufferPointer) -> Bool {
        var at = 0
        let count = bytes.count
        while at < count {
            if pending == 0 {
                while at + 8 <= count {
                    let word = bytes.loadUnaligned(fromByteOffset: at, as: UInt64.self)
                    if word & 0x8080_8080_8080_8080 != 0 { break }
                    at += 8
                }
                // Skip to the first non-ASCII byte of the word that stopped the loop, or of the last few bytes.
                while at < count, bytes[at] < 0x80 { at += 1 }
                if at == count { return true }
                guard open(lead: bytes[at]) else { return false }
            } else {
                guard bytes[at] >= low, bytes[at] <= high else { return false }
                pending -= 1
                low = 0x80
                high = 0xBF
            }
            at += 1
        }
        return true
    }

    /// Unicode table 3-7: the bytes that may begin a scalar, and those that may follow.
    private mutating func open(lead: UInt8) -> Bool {
        switch lead {
        case 0xC2...0xDF: pending = 1
        case 0xE0: pending = 2; low = 0xA0
        case 0xED: pending = 2; high = 0x9F
        case 0xE1...0xEF: pending = 2
        case 0xF0: pending = 3; low = 0x90
        case 0xF4: pending = 3; high = 0x8F
        case 0xF1...0xF3: pending = 3
        default: return false
        }
        return true
    }

    /// Whether `bytes` alone are a complete UTF-8 text.
    static func isValid(_ bytes: UnsafeRawBufferPointer) -> Bool {
        var validator = UTF8Validator()
        return validator.consume(bytes) && validator.isAtBoundary
    }
}
