import JSONTree
import Testing
@testable import WireProtocols

@Suite(.timeLimit(.minutes(30))) struct RealtimeQueryTests {
    static func query(_ json: String) -> TreeQuery? {
        guard case .listen(_, let query, _, _) = RealtimeMessage.request("q", "{\"p\":\"/\",\"q\":\(json)}")?.action else { return nil }
        return query
    }

    static func refusal(_ json: String) -> String? {
        guard case .invalid("q", let refusal) = RealtimeMessage.request("q", "{\"p\":\"/\",\"q\":\(json)}")?.action else { return nil }
        return refusal.text
    }

    @Test func query_isWrittenBackAsItWasSent() {
        for json in [
            "{}", "{\"sp\":null,\"sin\":true}",
            "{\"sp\":false,\"sn\":\"[MIN_NAME]\",\"sin\":false,\"ep\":\"x\",\"en\":\"[MAX_KEY]\",\"ein\":true}",
            "{\"sp\":1.5,\"ep\":9007199254740993,\"l\":10,\"vf\":\"l\",\"i\":\"ratings/pos\"}", "{\"l\":1,\"vf\":\"r\",\"i\":\".value\"}",
            "{\"sp\":\"a\",\"i\":\".key\"}", "{\"i\":\".priority\"}",
        ] {
            #expect(Self.query(json)?.json == json)
        }
    }

    @Test func absence_isNotNull() {
        #expect(Self.query("{\"sp\":null}")?.start == TreeQuery.Bound(value: .null))
        #expect(Self.query("{\"sn\":\"a\",\"sin\":true}")?.start == nil)
        #expect(Self.query("{\"sp\":null}")?.isDefault == false)
    }

    @Test func defaults_followTheContract() {
        #expect(Self.query("{}")?.orderedBy == .priority)
        #expect(Self.query("{}")?.isDefault == true)
        #expect(Self.query("{\"i\":\"a/b\"}")?.isDefault == true)
        #expect(Self.query("{\"i\":\"/a/b\"}")?.orderedBy == .child("a/b"))
        #expect(Self.query("{\"l\":1}")?.keeps == .last)
        #expect(Self.query("{\"l\":1,\"sp\":1}")?.keeps == .first)
        #expect(Self.query("{\"l\":1,\"ep\":1}")?.keeps == .last)
        #expect(Self.query("{\"l\":1,\"sp\":1,\"vf\":\"r\"}")?.keeps == .last)
        #expect(Self.query("{\"sp\":1}")?.start?.isInclusive == true)
        #expect(Self.query("{\"sp\":1,\"sin\":false}")?.start?.isInclusive == false)
    }

    @Test func sameQueries_areEqualAndHashAlike_inAnyMemberOrder() {
        let one = Self.query("{\"sp\":1,\"sn\":\"k\",\"l\":2,\"i\":\"a\"}")
        let other = Self.query("{\"i\":\"a\",\"l\":2,\"x\":5,\"sn\":\"k\",\"sp\":1.0}")
        #expect(one != nil && one == other && one.hashValue == other.hashValue)
        for json in [
            "{\"sp\":2,\"sn\":\"k\",\"l\":2,\"i\":\"a\"}", "{\"sp\":1,\"sn\":\"k\",\"sin\":true,\"l\":2,\"i\":\"a\"}",
            "{\"ep\":1,\"en\":\"k\",\"l\":2,\"i\":\"a\"}",
        ] {
            #expect(Self.query(json) != one)
        }
    }

    @Test func impossibleMembers_areRefused() {
        let cases = [
            ("{\"l\":0}", "positive"), ("{\"l\":-1}", "positive"), ("{\"l\":1.5}", "\"l\""), ("{\"l\":\"1\"}", "\"l\""),
            ("{\"vf\":\"x\"}", "\"vf\""),
            ("{\"i\":5}", "\"i\""), ("{\"i\":\"a.b\"}", "orderBy"), ("{\"i\":\"\"}", "orderBy"), ("{\"i\":\"a/b#/c\"}", "orderBy"),
            ("{\"sp\":{}}", "primitive"),
            ("{\"ep\":[1]}", "primitive"), ("{\"sp\":1,\"sin\":1}", "\"sin\""), ("{\"sp\":1,\"sn\":2}", "\"sn\""), ("5", "\"q\""),
            ("{\"sp\":1,\"i\":\".key\"}", "must be string"), ("{\"i\":\".key\",\"ep\":null}", "must be string"),
        ]
        for (json, text) in cases { #expect(Self.refusal(json)?.contains(text) == true, "\(json)") }
        #expect(Self.query("{\"l\":1}")?.limit == 1)
    }

    @Test func boundKeys_areNotValidated() {
        let long = String(repeating: "\u{FFFD}", count: 786)
        #expect(Self.query("{\"sp\":1,\"sn\":\"\(long)\"}")?.start?.key == Key(long))
    }
}
