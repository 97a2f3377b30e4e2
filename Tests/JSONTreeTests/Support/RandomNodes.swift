import JSONTree
import TestSupport

/// Texts of every kind that JSON and the orders treat differently.
let interestingTexts = [
    "", "a", "b", "ab", "A", "-", "~", " ", "%", "\"", "\\", "é", "e\u{301}", "\u{7F}", "\u{D7FF}", "\u{E000}", "\u{FFFD}", "\u{FFFF}",
    "\u{10000}", "😀", "😀a", "\u{10FFFF}", "\u{FFFF}\u{10000}", "a\u{FFFF}", "a\u{10000}", "exactly-15-byte", "exactly-16-bytes",
    "-Nx0123456789abcdefg", "a text that is too long to be stored inline",
]

let interestingKeys = [
    "0", "00", "-0", "1", "01", "001", "-1", "-01", "2", "9", "10", "-5", "-10", "99", "2147483647", "2147483648", "-2147483648",
    "-2147483649",
    "02147483647", "00000000001", "000000000001", "-0000000001", "-00000000001", "99999999999", "9999999999", "4294967297",
    "18446744073709551617",
    "-", "--1", "+1", "1a", "a1", "1 ", " 1", "-K", "-Kaaaaaaaaaaaaaaaaaa", "١", "1e3",
] + interestingTexts.filter { !$0.isEmpty }

extension SeededRandom {
    mutating func leaf() -> Node {
        switch below(8) {
        case 0: .bool(true)
        case 1: .bool(false)
        case 2: .int(Int64(below(2000) - 1000))
        case 3: .int(Int64(bitPattern: next()))
        case 4: .number(Double(below(4000) - 2000) / 8)
        case 5: finiteDouble()
        default: .string(pick(interestingTexts) + (chance(50) ? String(below(50)) : ""))
        }
    }

    private mutating func finiteDouble() -> Node {
        let value = Double(bitPattern: next())
        return value.isFinite ? .number(value) : .number(.greatestFiniteMagnitude)
    }

    mutating func priority() -> Node {
        while true {
            let node = leaf()
            if case .bool = node { continue }
            return node
        }
    }

    /// A key that may be stored.
    mutating func storedKey() -> Key {
        while true {
            let key = Key(pick(interestingKeys))
            if key.isValid { return key }
        }
    }

    mutating func node(depth: Int = 4) -> Node {
        var node: Node
        if depth == 0 || chance(35) {
            node = leaf()
        } else {
            let width = chance(5) ? 60 : 1 + below(6)
            node = .object((0..<width).map { _ in (chance(60) ? storedKey() : Key("k\(below(500))"), self.node(depth: depth - 1)) })
        }
        if chance(15) { node = node.with(priority: priority()) }
        return node
    }
}
