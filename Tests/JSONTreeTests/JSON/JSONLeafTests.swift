import JSONTree
import Testing
import TestSupport

/// Numbers, strings and literals (RFC 8259, contract §4.1).
@Suite(.timeLimit(.minutes(30))) struct JSONLeafTests {
    @Test(arguments: [
        ("0", .int(0)), ("-0", .int(0)), ("-0.0", .int(0)), ("1", .int(1)), ("-1", .int(-1)), ("1.0", .int(1)), ("1e2", .int(100)),
        ("1E+2", .int(100)),
        ("100e-2", .int(1)), ("10", .int(10)), ("9223372036854775807", .int(.max)), ("-9223372036854775808", .int(.min)),
        ("9223372036854775808", .double(0x1p63)), ("-9223372036854775809", .double(-0x1p63)), ("18446744073709551616", .double(0x1p64)),
        ("9007199254740991", .int(9_007_199_254_740_991)), ("9007199254740993", .int(9_007_199_254_740_993)),
        ("9007199254740992.0", .int(9_007_199_254_740_992)), ("1e17", .double(1e17)), ("0.1", .double(0.1)),
        ("23.735901", .double(23.735901)), ("-999999999.0000001", .double(-999999999.0000001)),
        ("0.9007199254740993", .double(0.9007199254740993)), ("2.0000000000", .int(2)), ("-1.5e-3", .double(-0.0015)),
        ("1.7976931348623157e308", .double(.greatestFiniteMagnitude)), ("-1.7976931348623157E308", .double(-.greatestFiniteMagnitude)),
        ("5e-324", .double(.leastNonzeroMagnitude)), ("1e-400", .int(0)), ("0e999", .int(0)), (" \n\t\r7 ", .int(7)),
        ("0.3333333333333333333333333333333333333333333333", .double(1.0 / 3)),
    ] as [(String, Node)])
    func number_valid_isRead(text: String, expected: Node) throws {
        #expect(try Parsed.number(text) == expected)
        #expect(try Parsed.write(text).node == expected)
    }

    @Test(arguments: [
        "-", "+1", "01", "-01", "00", "1.", ".5", "-.5", "1.e5", "1e", "1e+", "1e-", "1.5e", "0x10", "1_0", "1e1.5", "--1", "1 2", "1e400",
        "-1e400",
        "Infinity", "NaN", "-Infinity", "1a", "١",
    ])
    func number_invalid_isMalformed(text: String) {
        #expect { try Parsed.number(text) } throws: { ($0 as? JSONError)?.isMalformed == true }
        #expect { try Parsed.write(text) } throws: { ($0 as? JSONError)?.isMalformed == true }
        #expect { try Parsed.skip(Array(text.utf8)) } throws: { ($0 as? JSONError)?.isMalformed == true }
    }

    @Test func number_shortDecimals_areCorrectlyRounded() throws {
        var random = SeededRandom(31)
        for _ in 0..<5000 {
            let whole = random.below([10, 1000, 1_000_000_000, 10_000_000_000].randomElement(using: &random) ?? 1)
            let decimals = (0...random.below(13)).map { _ in String(random.below(10)) }.joined()
            let text = (random.chance(50) ? "-" : "") + "\(whole).\(decimals)"
            let expected = try #require(Double(text))
            #expect(try Parsed.number(text) == .number(expected), "\(text)")
        }
    }

    @Test func int_integralOnly_isRead() throws {
        func int(_ text: String) throws -> Int64 { try Parsed.reading(Array(text.utf8)) { reader throws(JSONError) in try reader.int() } }
        #expect(try int("7.0") == 7 && int("-9223372036854775808") == .min)
        #expect(throws: JSONError.unexpectedType(offset: 0)) { try int("7.5") }
        #expect(throws: JSONError.unexpectedType(offset: 0)) { try int("\"7\"") }
        #expect(throws: JSONError.unexpectedType(offset: 0)) { try int("9223372036854775808") }
    }

    @Test(arguments: [
        (#""""#, ""), (#""a""#, "a"), (#""\"\\\/\b\f\n\r\t""#, "\"\\/\u{8}\u{C}\n\r\t"), (#""\u0041\u00e9\u00E9""#, "Aéé"),
        (#""\u0000""#, "\0"),
        (#""\ud83d\ude00""#, "😀"), (#""\uD83D\uDE00x""#, "😀x"), (#""\ud800""#, "\u{FFFD}"), (#""\udc00""#, "\u{FFFD}"),
        (#""\ud800x""#, "\u{FFFD}x"),
        (#""\ud800\u0041""#, "\u{FFFD}A"), (#""\ud800\ud83d\ude00""#, "\u{FFFD}😀"), (#""\udc00\ud800""#, "\u{FFFD}\u{FFFD}"),
        (#""\ud83d\n""#, "\u{FFFD}\n"),
        (#""\ud83d\\""#, "\u{FFFD}\\"), (#""é😀\u007f""#, "é😀\u{7F}"), (#""\uffff""#, "\u{FFFF}"), (#""\udbff\udfff""#, "\u{10FFFF}"),
        ("\"\u{7F}\"", "\u{7F}"),
    ])
    func string_valid_isUnescaped(text: String, expected: String) throws {
        #expect(Array(try Parsed.string(Array(text.utf8)).utf8) == Array(expected.utf8))
    }

    @Test(arguments: [
        "\"", "\"a", "\"\\", "\"\\\"", #""\x""#, #""\u""#, #""\u1""#, #""\u123""#, #""\u123g""#, #""\U0041""#, #""\u00"#, "\"\n\"",
        "\"\u{0}\"", "\"\u{1F}\"",
        "\"a\tb\"", "'a'", "a", #""a"b"#, #""a""b""#, #""\ud800\u12""#,
    ])
    func string_invalid_isMalformed(text: String) {
        #expect { try Parsed.string(Array(text.utf8)) } throws: { ($0 as? JSONError)?.isMalformed == true }
        #expect { try Parsed.skip(Array(text.utf8)) } throws: { ($0 as? JSONError)?.isMalformed == true }
    }

    @Test(arguments: [
        [0xFF], [0xC3], [0xC0, 0xAF], [0xED, 0xA0, 0x80], [0xF5, 0x80, 0x80, 0x80], [0x80], [0xE2, 0x82], [0xF0, 0x9F, 0x98],
    ] as [[UInt8]])
    func string_brokenUTF8_isRepaired(bytes: [UInt8]) throws {
        for tail in [[], Array("\\n".utf8)] as [[UInt8]] {
            let text = try Parsed.string([0x22, 0x61] + bytes + tail + [0x22])
            #expect(text.unicodeScalars.contains("\u{FFFD}") && text.hasPrefix("a"))
        }
    }

    @Test(arguments: ["true", "false", "null"])
    func literal_cutOrLonger_isMalformed(text: String) throws {
        #expect(try Parsed.write(text).node == (text == "null" ? .null : .bool(text == "true")))
        for wrong in [String(text.dropLast()), text + "x", text.uppercased(), text + text, String(text.prefix(1))] {
            #expect { try Parsed.write(wrong) } throws: { ($0 as? JSONError)?.isMalformed == true }
        }
    }

    @Test func writer_texts_areEscapedAndReadBack() throws {
        var random = SeededRandom(8)
        var writer = JSONWriter()
        writer.string("\u{0}\u{1F}\"\\/\n\r\t\u{8}é😀\u{7F}")
        #expect(String(decoding: writer.bytes, as: UTF8.self) == #""\u0000\u001f\"\\/\n\r\t\u0008é😀"# + "\u{7F}\"")
        for _ in 0..<500 {
            var text = ""
            for _ in 0..<random.below(40) { text.unicodeScalars.append(Unicode.Scalar(UInt32(random.below(0x180))) ?? "x") }
            var writer = JSONWriter()
            writer.string(text)
            #expect(Array(try Parsed.string(writer.bytes).utf8) == Array(text.utf8))
        }
    }

    @Test func writer_numbers_areReadBackExactly() throws {
        var random = SeededRandom(9)
        for value in [0, 9, 10, -1, -9, -10, .max, .min] as [Int64] { #expect(Node.int(value).json == String(value)) }
        for _ in 0..<2000 {
            let bits = random.next()
            let int = Node.int(Int64(bitPattern: bits) >> Int64(random.below(64)))
            #expect(try Parsed.number(int.json) == int)
            let double = Double(bitPattern: bits)
            if double.isFinite { #expect(try Parsed.number(Node.number(double).json) == .number(double)) }
        }
    }
}
