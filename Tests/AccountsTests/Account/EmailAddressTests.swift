import Testing

@testable import Accounts

@Suite(.timeLimit(.minutes(30))) struct EmailAddressTests {
    @Test(arguments: ["a@b", "Ana+tag@Example.ORG", "άνα@xn--hxajbheg2az3al.gr"]) func address_isTakenInLowerCase(text: String) {
        #expect(EmailAddress(text)?.text == text.lowercased())
    }

    @Test(
        arguments: ["", "@", "a@", "@b", "a", "a@b@c", "a b@c", "a@b\n", "a@b\u{7F}", "a@\u{3000}b"]
    ) func anythingElse_isNone(text: String) {
        #expect(EmailAddress(text) == nil)
    }

    /// The Kelvin sign in lower case is a k; a decomposed accent, a soft hyphen and a bidirectional mark are invisible.
    @Test(arguments: [
        "a@ban\u{212A}.org", "ban\u{212A}@x.org", "e\u{301}@x.org", "a\u{AD}@x.org", "a\u{202E}b@x.org", "a\u{200B}@x.org",
        "a@παράδειγμα.ελ", "a\u{0}@x.org",
    ])
    func textThatLooksLikeAnotherAddress_isNone(text: String) {
        #expect(EmailAddress(text) == nil)
    }

    @Test func lowerCase_isThatOfASCIILettersOnly() {
        #expect(EmailAddress("\u{C4}NA@X.org")?.text == "\u{C4}na@x.org")
    }

    @Test func address_hasAtMost255Bytes() {
        #expect(EmailAddress(String(repeating: "a", count: 253) + "@b") != nil)
        #expect(EmailAddress(String(repeating: "a", count: 254) + "@b") == nil)
    }

    @Test func continueURL_hasAtMost2048Bytes() {
        let start = "http://localhost/"
        #expect(ContinueURL(start + String(repeating: "a", count: 2048 - start.utf8.count)) != nil)
        #expect(ContinueURL(start + String(repeating: "a", count: 2049 - start.utf8.count)) == nil)
    }

    @Test func form_isReadStrictly_andLeniently() {
        #expect(FormFields(Array("a=1&b=%20+x&a=2&c".utf8))?.items.map { "\($0.name)=\($0.value)" } == ["a=1", "b=  x", "a=2", "c="])
        for bad in ["a=%", "a=%z1", "a=%FF", "a=%00"] { #expect(FormFields(Array(bad.utf8)) == nil) }
        #expect(FormFields(lenient: "a=%zz&b={\"c\":\"50%\"}&=x")["a"] == "%zz")
        #expect(FormFields(lenient: "a=%zz&b={\"c\":\"50%\"}&=x")["b"] == "{\"c\":\"50%\"}")
    }
}
