@testable import JSONTree
import Testing

/// Containers, skipping, nesting, and broken texts.
@Suite(.timeLimit(.minutes(30))) struct JSONStructureTests {
    private static let message = #"{"a" : [1, -2.5e3, "x\né😀", {"b":null, "c":[ ], "d":{ }}], "e":true,"f":false, ".priority":"p"}"#

    @Test(arguments: [
        "", " ", "{", "[", "}", "]", "[1", "[1,", "[1,]", "[,1]", "[,]", "[1 2]", "[1,,2]", "{\"a\"", "{\"a\":", "{\"a\":1", "{\"a\":1,",
        "{\"a\":1,}", "{,}",
        "{\"a\" 1}", "{a:1}", "{'a':1}", "{1:2}", "{\"a\":1 \"b\":2}", "{\"a\"::1}", "[1}", "{\"a\":1]", "[]]", "{}{}", "[] x", "1,", "//",
        "/**/1", "\u{FEFF}1",
        "[\u{B}]", "{\"a\":1,,\"b\":2}", "{\"a\":}", "{:1}", "[:]", "{\"a\":1:2}", "nul", "[nul]", "tru", "{null:1}",
    ])
    func text_notJSON_isMalformed(text: String) {
        #expect { try Parsed.write(text) } throws: { ($0 as? JSONError)?.isMalformed == true }
        #expect { try Parsed.skip(Array(text.utf8)) } throws: { ($0 as? JSONError)?.isMalformed == true }
    }

    @Test func text_cutAtEveryByte_isMalformed() throws {
        let bytes = Array(Self.message.utf8)
        #expect(try Parsed.write(bytes).node.childCount == 3)
        for end in 0..<bytes.count {
            #expect { try Parsed.write(Array(bytes[..<end])) } throws: { ($0 as? JSONError)?.isMalformed == true }
            #expect { try Parsed.skip(Array(bytes[..<end])) } throws: { ($0 as? JSONError)?.isMalformed == true }
        }
    }

    @Test func reader_overARange_endsWhereTheRangeEnds() throws {
        let bytes = Array("[12,34567]".utf8)
        try bytes.withUnsafeBytes { buffer in
            var reader = JSONReader(buffer, range: 4..<6)
            #expect(try reader.int() == 34 && reader.offset == 6)
            try reader.expectEnd()
        }
    }

    @Test func shortNames_areEqualToTheSameTextOnly() throws {
        func name(_ json: String) throws -> JSONName? {
            try Array("{\"\(json)\":1}".utf8).withUnsafeBytes { bytes in
                var reader = JSONReader(bytes)
                try reader.beginObject()
                return try reader.nextShortName()
            }
        }
        #expect(try name("") == "" && name("p") == "p" && name("\\u0070") == "p" && name("é") == "é" && name("\\u00e9") == "é")
        #expect(try name("unappcheck") == "unappcheck" && name("fifteen letters") == "fifteen letters")
        for (json, other) in [("", "p"), ("p", ""), ("P", "p"), ("pp", "p"), ("unappchecK", "unappcheck")] as [(String, JSONName)] {
            #expect(try name(json) != other)
        }
        // A zero byte does not end a name, and a long name equals no short one.
        #expect(try name("p\\u0000") != "p" && name("\\u0000") != "" && name("fifteen letters!") != "fifteen letters")
        #expect(try name("sixteen letters!") != "")
        #expect(try Array("{}".utf8).withUnsafeBytes { bytes in
            var reader = JSONReader(bytes)
            try reader.beginObject()
            return try reader.nextShortName() == nil
        })
    }

    /// Reading a text with names as strings and with short names gives the same: the names with their positions, then the error or the end.
    @Test func shortNames_areReadAsNamesAre_inTextsOfEveryForm() throws {
        func read(_ bytes: [UInt8], short: Bool) -> [String] {
            bytes.withUnsafeBytes { buffer in
                var reader = JSONReader(buffer)
                var found: [String] = []
                do throws(JSONError) {
                    try reader.beginObject()
                    while true {
                        let name: JSONName?
                        if short { name = try reader.nextShortName() } else {
                            name = try reader.nextName().map { text in
                                var text = text
                                return text.withUTF8 { JSONName($0) }
                            }
                        }
                        guard let name else { break }
                        found.append("\(name) \(reader.nameOffset)")
                        try reader.skipValue()
                    }
                    try reader.expectEnd()
                } catch { found.append("\(error)") }
                return found + ["\(reader.offset)"]
            }
        }
        let texts = [
            #"{"t":"d","d":{"r":1}}"#, #"{ "t":1,"d":2}"#, #"{"t" :1 ,"d":2}"#, #"{"t":1, "d":2}"#, #"{"\n":1,"\\":2}"#, #"{"":1,"a":2}"#,
            "{\"\u{1}\":1}", "{\"é\":1,\"ab\":2,\"a\":3}", #"{"""":1}"#, #"{"a"::1}"#, #"{"a":1,,"b":2}"#, #"{"a":1"b":2}"#, #"{"a":1,}"#,
            #"{,"a":1}"#, #"{"a":1,"b"}"#, #"{"a":1};"b":2"#, #"{"\":1,"b":2}"#, #"{"a":1,"a":2}"#,
        ]
        for text in texts {
            let bytes = Array(text.utf8)
            for end in 0...bytes.count {
                let part = Array(bytes[..<end])
                #expect(read(part, short: true) == read(part, short: false), "\(String(decoding: part, as: UTF8.self))")
            }
        }
        let invalid: [[UInt8]] = [[0x80], [0xFF], [0x22], [0x5C], [0x1F], [0x7F], [0x20]]
        for letter in invalid {
            let bytes = Array(#"{""#.utf8) + letter + Array(#"":1}"#.utf8)
            #expect(read(bytes, short: true) == read(bytes, short: false))
        }
    }

    @Test func skipping_everyMember_returnsTheRangesOfTheValues() throws {
        let bytes = Array(Self.message.utf8)
        var found: [String: String] = [:]
        try Parsed.reading(bytes) { reader throws(JSONError) in
            try reader.beginObject()
            while let name = try reader.nextName() {
                let range = try reader.skipValue()
                found[name] = String(decoding: bytes[range], as: UTF8.self)
            }
            try reader.expectEnd()
        }
        #expect(found == ["a": #"[1, -2.5e3, "x\né😀", {"b":null, "c":[ ], "d":{ }}]"#, "e": "true", "f": "false", ".priority": "\"p\""])
    }

    @Test func peeking_anyKind_readsNothing() throws {
        for (text, kind) in [
            ("{}", .object), (" []", .array), ("\"\"", .string), ("-1", .number), ("true", .bool), ("false", .bool), ("null", .null),
        ] as [(String, JSONReader.Kind)] {
            try Parsed.reading(Array(text.utf8)) { reader throws(JSONError) in
                #expect(try reader.peek() == kind)
                #expect(try reader.peek() == kind)
                try reader.skipValue()
                try reader.expectEnd()
            }
        }
    }

    @Test func wrongType_askedFor_isSaidWithItsOffset() {
        #expect(throws: JSONError.unexpectedType(offset: 1)) {
            try Parsed.reading(Array(" []".utf8)) { reader throws(JSONError) in try reader.beginObject() }
        }
        #expect(throws: JSONError.unexpectedType(offset: 0)) {
            try Parsed.reading(Array("1".utf8)) { reader throws(JSONError) in try reader.bool() }
        }
        #expect(throws: JSONError.unexpectedType(offset: 0)) {
            try Parsed.reading(Array("1".utf8)) { reader throws(JSONError) in try reader.null() }
        }
        #expect(throws: JSONError.unexpectedType(offset: 0)) { try Parsed.string(Array("{}".utf8)) }
        #expect(throws: JSONError.malformed(offset: 0)) { try Parsed.string(Array("x".utf8)) }
    }

    @Test func skipping_nesting_isRefusedFrom256Levels() throws {
        func nested(_ levels: Int) -> [UInt8] {
            Array((String(repeating: "[", count: levels) + String(repeating: "]", count: levels)).utf8)
        }
        func objects(_ levels: Int) -> [UInt8] {
            Array((String(repeating: "{\"a\":", count: levels) + "1" + String(repeating: "}", count: levels)).utf8)
        }
        #expect(try Parsed.skip(nested(256)) == 0..<512)
        #expect { try Parsed.skip(nested(257)) } throws: { ($0 as? JSONError)?.isMalformed == true }
        #expect(try Parsed.skip(objects(255)).count == 255 * 6 + 1)
        #expect { try Parsed.skip(objects(256)) } throws: { ($0 as? JSONError)?.isMalformed == true }
        #expect { try Parsed.skip([UInt8](repeating: UInt8(ascii: "["), count: 1_000_000)) } throws: {
            ($0 as? JSONError)?.isMalformed == true
        }
        #expect { try Parsed.write([UInt8](repeating: UInt8(ascii: "["), count: 1_000_000)) } throws: {
            if case JSONError.tooDeep = $0 { true } else { false }
        }
    }

    @Test func offsets_ofFaults_pointIntoTheText() {
        #expect(throws: JSONError.malformed(offset: 4)) { try Parsed.write("[1, x]") }
        #expect(throws: JSONError.malformed(offset: 3)) { try Parsed.write("[1 x]") }
        #expect { try Parsed.write(#"{"a":{"b.c":1}}"#) } throws: { if case JSONError.invalidKey("b.c", _) = $0 { true } else { false } }
    }
}
