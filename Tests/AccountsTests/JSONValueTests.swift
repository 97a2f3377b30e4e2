import JSONTree
import Testing

@testable import Accounts

@Suite(.timeLimit(.minutes(30))) struct JSONValueTests {
    @Test func text_comesBackAsItWas() throws {
        let text = #"{"b":[1,null,{"c":-2.5}],"a":"é\"","t":true,"n":null}"#
        #expect(try JSONValue(Array(text.utf8)).json == text)
    }

    @Test func names_areFoundInBothSpellings() throws {
        let body = try JSONValue(Array(#"{"request_type":"A","returnSecureToken":true,"display_name":null}"#.utf8))
        #expect(body["requestType"] == "A")
        #expect(body["returnSecureToken"] == true)
        #expect(body["displayName"] == .null)
        #expect(body["photoUrl"] == nil)
    }

    @Test func integers_mayBeStrings() {
        #expect(JSONValue.string("1790000000").int == 1_790_000_000)
        #expect(JSONValue.double(3).int == 3)
        #expect(JSONValue.double(3.5).int == nil)
        #expect(JSONValue.string("x").int == nil)
    }

    @Test(arguments: ["", "{", "{} x", "[1,]", "nul", String(repeating: "[", count: 40) + String(repeating: "]", count: 40)])
    func brokenText_isRefused(_ text: String) { #expect(throws: JSONError.self) { try JSONValue(Array(text.utf8)) } }
}
