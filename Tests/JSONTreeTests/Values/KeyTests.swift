@testable import JSONTree
import Testing
import TestSupport

/// Key order (contract §3.2) and the rules for stored keys (contract §4.1).
@Suite(.timeLimit(.minutes(30))) struct KeyTests {
    /// Contract §3.2 literally, over Foundation-free strings.
    static func naiveOrder(_ a: String, _ b: String) -> Int {
        func integer(_ text: String) -> Int? {
            let digits = text.hasPrefix("-") ? text.dropFirst() : text[...]
            guard text.utf8.count <= 11, !digits.isEmpty, digits.utf8.allSatisfy({ (48...57).contains($0) }) else { return nil }
            guard let value = Int(text), value >= -2_147_483_648, value <= 2_147_483_647 else { return nil }
            return value
        }
        switch (integer(a), integer(b)) {
        case (let m?, let n?) where m != n: return m < n ? -1 : 1
        case (_?, _?) where a.utf8.count != b.utf8.count: return a.utf8.count < b.utf8.count ? -1 : 1
        case (_?, nil): return -1
        case (nil, _?): return 1
        default:
            let (x, y) = (Array(a.utf16), Array(b.utf16))
            return x == y ? 0 : (x.lexicographicallyPrecedes(y) ? -1 : 1)
        }
    }

    @Test func keyOrder_everyPairOfInterestingKeys_isTheNaiveOrder() {
        for a in interestingKeys {
            for b in interestingKeys {
                #expect(Key.order(Key(a), Key(b)).signum() == Self.naiveOrder(a, b), "\(a) | \(b)")
                #expect((Key(a) < Key(b)) == (Self.naiveOrder(a, b) < 0), "\(a) | \(b)")
                #expect((Key(a) == Key(b)) == (Self.naiveOrder(a, b) == 0), "\(a) | \(b)")
            }
        }
    }

    @Test func keyOrder_randomText_isTheNaiveOrder() {
        var random = SeededRandom(1)
        let alphabet = Array("0019-aZ~é\u{D7FF}\u{E000}\u{FFFF}\u{10000}😀".unicodeScalars)
        func text() -> String {
            var text = ""
            for _ in 0...random.below(24) { text.unicodeScalars.append(random.pick(alphabet)) }
            return text
        }
        for _ in 0..<20_000 {
            let (a, shared) = (text(), text())
            let b = random.chance(40) ? a + text() : text()
            // After a common prefix, as in push ids.
            let order = Key.order(Key(shared + a), Key(shared + b)).signum()
            #expect(order == Self.naiveOrder(shared + a, shared + b), "\(shared) | \(a) | \(b)")
            #expect((Key(shared + a) == Key(shared + b)) == (a.utf8.elementsEqual(b.utf8)))
            #expect(Key.order(Key(a), Key(b)).signum() == Self.naiveOrder(a, b), "\(a) | \(b)")
        }
    }

    /// Only the part after the common prefix of neighbours is compared.
    @Test(arguments: Array(1...60) as [UInt64]) func child_amongKeysThatBeginAlike_isFound(round: UInt64) {
        var random = SeededRandom(round)
        let letters = ["a", "b", "é", "ê", "\u{D7FF}", "\u{E000}", "\u{F000}", "\u{FFFD}", "\u{10000}", "\u{1F600}", "0", "-"]
        let beginning = random.pick(["", "1", "-", "-Nx8sKq2Ld0aB", "k7Fh2Lq9ZxT4bNnP0sVd", "aé", "\u{10000}\u{E000}"])
        let most = random.pick([3, 8, 14])
        func next() -> Key { Key(beginning + (0..<1 + random.below(most)).map { _ in random.pick(letters) }.joined()) }
        var values: [Key: Node] = [:]
        for i in 0..<random.pick([12, 60, 400]) { values[next()] = .int(Int64(i)) }
        var node = Node.null
        for (key, value) in values { node.set(value, at: Path([key])) }
        #expect(node.children.map(\.key) == values.keys.sorted())
        for (key, value) in values { #expect(node.child(key) == value && node.exists(at: Path([key]))) }
        for _ in 0..<200 {
            let key = next()
            #expect(node.child(key) == values[key] ?? .null && node.exists(at: Path([key])) == (values[key] != nil), "\(key)")
        }
    }

    @Test func keyOrder_contractExample_isAscending() {
        let keys = ["-5", "0", "1", "01", "2", "10", "2147483647", "-", "-K…", "2147483648", "a"].map { Key($0) }
        for i in keys.indices.dropLast() { #expect(keys[i] < keys[i + 1]) }
        #expect(Set(keys).sorted() == keys)
    }

    @Test func keyOrder_astralAgainstPrivateUse_followsCodeUnits() {
        #expect(Key("\u{10000}") < Key("\u{E000}"))
        #expect(Key("\u{10FFFF}") < Key("\u{FFFF}"))
        #expect(Key("\u{D7FF}") < Key("\u{10000}"))
    }

    @Test func keyEquality_canonicallyEquivalentText_isDifferent() {
        #expect(Key("é") != Key("e\u{301}"))
        #expect(Set([Key("é"), Key("e\u{301}")]).count == 2)
    }

    @Test(arguments: [
        ("0", 0), ("-0", 0), ("2147483647", 2_147_483_647), ("-2147483648", -2_147_483_648), ("00000000001", 1),
    ] as [(String, Int32)])
    func keyInteger_thirtyTwoBits_isRead(text: String, value: Int32) { #expect(Key(text).integer == value) }

    @Test(arguments: ["", "-", "2147483648", "-2147483649", "99999999999", "000000000001", "1a", "+1", " 1", "١", "--1", "1-"])
    func keyInteger_anythingElse_isText(text: String) { #expect(Key(text).integer == nil) }

    @Test func keyValidity_length_isOneTo768Bytes() {
        #expect(!Key("").isValid)
        #expect(Key("a").isValid)
        #expect(Key(String(repeating: "a", count: 768)).isValid)
        #expect(!Key(String(repeating: "a", count: 769)).isValid)
        #expect(Key(String(repeating: "é", count: 384)).isValid)
        #expect(!Key(String(repeating: "é", count: 384) + "a").isValid)
    }

    @Test func keyValidity_everyByte_isForbiddenOrNotAsTheContractSays() {
        for byte in UInt8(0)..<128 {
            let forbidden = byte < 0x20 || byte == 0x7F || ".$#[]/".utf8.contains(byte)
            let key = Key("a" + String(Unicode.Scalar(byte)) + "b")
            #expect(key.isValid == !forbidden, "byte \(byte)")
        }
        for text in ["😀", "é", " ", "%", "\"", "\\", "\u{80}", "MIN_NAME"] { #expect(Key(text).isValid) }
        #expect(!Key("[MIN_NAME]").isValid)
    }
}
