import Testing
@testable import JSONTree

@Suite(.timeLimit(.minutes(30))) struct Base64Tests {
    static let vectors = ["": "", "f": "Zg==", "fo": "Zm8=", "foo": "Zm9v", "foob": "Zm9vYg==", "fooba": "Zm9vYmE=", "foobar": "Zm9vYmFy"]

    @Test func base64_agreesWithRFC4648_10() {
        for (plain, encoded) in Self.vectors {
            #expect(Base64.encode(plain.utf8) == encoded)
            let bare = encoded.filter { $0 != "=" }
            #expect(Base64.encodeURL(plain.utf8) == bare && Base64.encode(plain.utf8, isPadded: false) == bare)
            #expect(Base64.decode(bare) == Array(plain.utf8))
        }
        #expect(Base64.encode([0xFB, 0xFF, 0xBF]) == "+/+/" && Base64.encodeURL([0xFB, 0xFF, 0xBF]) == "-_-_")
        #expect(Base64.decode("+/+/") == [0xFB, 0xFF, 0xBF] && Base64.decode("-_-_") == nil && Base64.decode("Zg==") == nil)
    }

    @Test func url_readsWhatItWrites_ofAnyLength() {
        var random = SystemRandomNumberGenerator()
        for length in 0..<200 {
            let bytes = (0..<length).map { _ in UInt8.random(in: 0...255, using: &random) }
            let text = Base64.encodeURL(bytes)
            #expect(Base64.decodeURL(text) == bytes)
            var appended = Array("x.".utf8)
            bytes.withUnsafeBytes { Base64.appendURL($0, to: &appended) }
            #expect(String(decoding: appended, as: UTF8.self) == "x." + text)
        }
    }

    /// Every text of up to three letters is decoded exactly if it is the canonical encoding of its bytes.
    @Test func url_hasOneTextForTheSameBytes_whateverIsWritten() {
        let letters = (0...255).map { UInt8($0) }.filter { $0 < 0x80 }
        func check(_ text: [UInt8]) -> Bool {
            guard let bytes = text.withUnsafeBytes(Base64.decodeURL) else { return true }
            return Array(Base64.encodeURL(bytes).utf8) == text
        }
        for a in letters {
            #expect([a].withUnsafeBytes(Base64.decodeURL) == nil)
            for b in letters { if !check([a, b]) { Issue.record("\([a, b])") } }
        }
        for a in letters where !check([65, a, 66]) || !check([65, 66, a]) || !check([a, 65, 66]) { Issue.record("\(a)") }
        for strange in ["Zg==", "Zg=", "Zh", "Zm9=", "Zm9v Zm9v", "Zm9v\nYg", "ab+/", "Zm9vYg\u{E9}", "A", "AAAAA"] {
            #expect(Base64.decodeURL(strange) == nil, "\(strange)")
        }
        #expect(Base64.decodeURL("Zg") == [102])
    }
}
