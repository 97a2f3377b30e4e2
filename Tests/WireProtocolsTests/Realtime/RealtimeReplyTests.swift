import JSONTree
import Testing
@testable import WireProtocols

@Suite(.timeLimit(.minutes(30))) struct RealtimeReplyTests {
    @Test func controls_areWrittenExactly_andAlwaysHoldD() {
        let hello = "{\"t\":\"c\",\"d\":{\"t\":\"h\",\"d\":{\"ts\":1700000000123,\"v\":\"5\",\"h\":\"127.0.0.1:9000\",\"s\":\"Kq3\"}}}"
        #expect(text(RealtimeReply.hello(nowMs: 1_700_000_000_123, host: "127.0.0.1:9000", session: "Kq3")) == hello)
        #expect(text(RealtimeReply.pong) == "{\"t\":\"c\",\"d\":{\"t\":\"o\",\"d\":null}}")
        #expect(text(RealtimeReply.reset(host: "h:1")) == "{\"t\":\"c\",\"d\":{\"t\":\"r\",\"d\":\"h:1\"}}")
    }

    @Test func responses_areWrittenExactly() {
        let value: Node = ["n": 4, "x": true]
        #expect(text(RealtimeReply.okListen(3).text) == "{\"t\":\"d\",\"d\":{\"r\":3,\"b\":{\"s\":\"ok\",\"d\":{}}}}")
        #expect(text(
            RealtimeReply.okListen(3, lacksIndex: true).text
        ) == "{\"t\":\"d\",\"d\":{\"r\":3,\"b\":{\"s\":\"ok\",\"d\":{\"w\":[\"no_index\"]}}}}")
        #expect(
            text(RealtimeReply.ok(12, value: value).text)
                == "{\"t\":\"d\",\"d\":{\"r\":12,\"b\":{\"s\":\"ok\",\"d\":{\"n\":4,\"x\":true}}}}")
        #expect(text(RealtimeReply.ok(12, value: .null).text) == "{\"t\":\"d\",\"d\":{\"r\":12,\"b\":{\"s\":\"ok\",\"d\":null}}}")
        #expect(text(RealtimeReply.okAuth(2, auth: ["uid": "u1"], expires: 1_700_003_600).text) ==
            "{\"t\":\"d\",\"d\":{\"r\":2,\"b\":{\"s\":\"ok\",\"d\":{\"auth\":{\"uid\":\"u1\"},\"expires\":1700003600}}}}")
        #expect(text(
            RealtimeReply.okAuth(2, auth: .null).text
        ) == "{\"t\":\"d\",\"d\":{\"r\":2,\"b\":{\"s\":\"ok\",\"d\":{\"auth\":null,\"expires\":null}}}}")
        #expect(text(
            RealtimeReply.refused(4, .permissionDenied).text
        ) == "{\"t\":\"d\",\"d\":{\"r\":4,\"b\":{\"s\":\"permission_denied\",\"d\":\"Permission denied\"}}}")
        #expect(text(RealtimeReply.refused(4, .dataStale).text).contains("\"s\":\"datastale\""))
    }

    @Test(arguments: [0, 60, 80, 81, 82, 16_384, 65_490, 65_491, 70_000]) func message_ofAnyLength_isFramedAsOneTextIs(length: Int) {
        let value = Node.string(String(repeating: "é", count: length / 4) + String(repeating: "x", count: length - length / 4 * 2))
        let whole = utf8("{\"t\":\"d\",\"d\":{\"r\":7,\"b\":{\"s\":\"ok\",\"d\":\(value.json)}}}")
        #expect(RealtimeReply.ok(7, value: value).count == whole.count)
        #expect(RealtimeReply.ok(7, value: value).frame == WebSocketFrame.text(whole))
        #expect(RealtimeReply.ok(7, value: value).realtimeFrames == RealtimeFraming.frames(for: whole))
        let push = utf8("{\"t\":\"d\",\"d\":{\"a\":\"d\",\"b\":{\"p\":\"a\",\"d\":\(value.json)}}}")
        #expect(RealtimePush.data(path: "a", value: value).frames(tag: nil) == RealtimeFraming.frames(for: push))
        let tagged = utf8(text(push).replacing("\"b\":{", with: "\"b\":{\"t\":12,"))
        #expect(RealtimePush.data(path: "a", value: value).frames(tag: 12) == RealtimeFraming.frames(for: tagged))
    }

    @Test func pushes_haveNoLeadingSlash_andATagOnlyIfTagged() {
        let push = RealtimePush.data(path: "rooms/r1", value: ["n": 4])
        let whole = "{\"t\":\"d\",\"d\":{\"a\":\"d\",\"b\":{\"p\":\"rooms/r1\",\"d\":{\"n\":4}}}}"
        #expect(push.frames(tag: nil) == WebSocketFrame.text(utf8(whole)))
        #expect(push.frames(tag: 7) == WebSocketFrame.text(utf8(whole.replacing("\"b\":{", with: "\"b\":{\"t\":7,"))))
        #expect(text(RealtimePush.data(path: .root, value: .null).rest) == "\"p\":\"\",\"d\":null}}}")
        let merge = RealtimePush.merge(path: "k", [(path: "a/b", value: .null), (path: "c\"", value: ["x": 1])])
        #expect(text(merge.frames(tag: 1).dropFirst(2)) ==
            "{\"t\":\"d\",\"d\":{\"a\":\"m\",\"b\":{\"t\":1,\"p\":\"k\",\"d\":{\"a/b\":null,\"c\\\"\":{\"x\":1}}}}}")
        #expect(text(RealtimePush.merge(path: "k", []).rest) == "\"p\":\"k\",\"d\":{}}}}")
    }

    @Test func cancels_carryTheQueryInAnArray() {
        #expect(text(RealtimePush.cancelled(path: "a", query: nil)) == "{\"t\":\"d\",\"d\":{\"a\":\"c\",\"b\":{\"p\":\"a\"}}}")
        let query = TreeQuery(index: .key, limit: 2, viewFrom: .last)
        #expect(text(RealtimePush.cancelled(path: "a", query: query)) ==
            "{\"t\":\"d\",\"d\":{\"a\":\"c\",\"b\":{\"p\":\"a\",\"q\":[{\"l\":2,\"vf\":\"r\",\"i\":\".key\"}]}}}")
        #expect(text(RealtimePush.authRevoked(RealtimeRefusal(.expiredToken, "Auth token is expired."))) ==
            "{\"t\":\"d\",\"d\":{\"a\":\"ac\",\"b\":{\"s\":\"expired_token\",\"d\":\"Auth token is expired.\"}}}")
    }
}
