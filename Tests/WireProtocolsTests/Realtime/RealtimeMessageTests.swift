import JSONTree
import Testing
@testable import WireProtocols

@Suite(.timeLimit(.minutes(30))) struct RealtimeMessageTests {
    @Test func requests_ofEveryAction_areRead() {
        let cases = [
            ("s", "{\"c\":{\"sdk.js.9-5-0\":1}}", "stats"), ("q", "{\"p\":\"/rooms/r1\",\"h\":\"\"}", "listen /rooms/r1 - - "),
            ("q", "{\"p\":\"/\",\"h\":\"abc=\",\"q\":{\"l\":2,\"vf\":\"r\"},\"t\":3,\"ch\":{\"hs\":[\"\"],\"ps\":[]}}",
                "listen / {\"l\":2,\"vf\":\"r\"} 3 abc="),
            ("q", "{\"p\":\"a\"}", "listen /a - - -"), ("n", "{\"p\":\"/a\"}", "unlisten /a - -"),
            ("n", "{\"p\":\"/a\",\"q\":{\"i\":\".key\",\"l\":1},\"t\":9}", "unlisten /a {\"l\":1,\"i\":\".key\"} 9"),
            ("g", "{\"p\":\"/a\",\"q\":{}}", "get /a {}"), ("g", "{\"p\":\"/a\"}", "get /a -"),
            ("p", "{\"p\":\"/a/b\",\"d\":5}", "put /a/b=5 -"), ("p", "{\"p\":\"/a\",\"d\":null,\"h\":\"x\"}", "put /a=null x"),
            ("p", "{\"p\":\"/a/.priority\",\"d\":2}", "put /a!=2 -"), ("p", "{\"p\":\".priority\",\"d\":null}", "put /!=null -"),
            ("p", "{\"p\":\"/a\",\"d\":{\"t\":{\".sv\":\"timestamp\"}}}", "put /a={\"t\":0}+[/t=value:timestamp] -"),
            ("m", "{\"p\":\"/\",\"d\":{\"a/b\":1,\"/c/\":null,\"d/.priority\":\"x\",\".priority\":1}}",
                "merge / [/a/b=1 /c=null /d!=\"x\" /!=1] -"),
            ("m", "{\"p\":\"/a\",\"d\":{},\"h\":\"\"}", "merge /a [] "), ("o", "{\"p\":\"/a\",\"d\":true}", "onPut /a=true"),
            ("om", "{\"p\":\"/a\",\"d\":{\"b\":1}}", "onMerge /a [/b=1]"), ("oc", "{\"p\":\"/a\",\"d\":null}", "onCancel /a"),
            ("auth", "{\"cred\":\"jwt\"}", "auth jwt false -"), ("gauth", "{\"cred\":\"owner\",\"noauth\":true}", "gauth owner true -"),
            ("gauth", "{\"cred\":\"owner\",\"authvar\":{\"uid\":\"x\",\"token\":{\"a.b/c\":[\"y\"]}}}",
                "gauth owner false {\"token\":{\"a.b/c\":{\"0\":\"y\"}},\"uid\":\"x\"}"),
            ("gauth", "{\"cred\":\"owner\",\"authvar\":{}}", "gauth owner false null"), ("unauth", "{}", "unauth"),
            ("appcheck", "{\"token\":\"t\"}", "appCheck t"), ("unappcheck", "{}", "unappCheck"), ("unappeck", "{}", "unappCheck"),
            ("l", "{\"p\":\"/\"}", "listen / - - -"), ("u", "{\"p\":\"/\"}", "unlisten / - -"), ("", "[]", "unknown "),
            ("wat", "5", "unknown wat"), ("unauth", "null", "unauth"),
        ]
        for (action, body, summary) in cases {
            #expect(RealtimeMessage.action(action, body) == summary)
            // The same with the action after the body, so that one pass is not enough.
            let turned = RealtimeMessage.parse("{\"d\":{\"b\":\(body),\"a\":\"\(action)\",\"r\":7},\"t\":\"d\"}")
            guard case .success(.request(let request)) = turned else { #expect(Bool(false), "\(action)"); continue }
            #expect(request.number == 7)
            #expect(request.action.summary == summary)
        }
    }

    /// The data is checked against the preceding path: a duplicate after it would be written unchecked.
    @Test func aPlaceThatStandsTwice_isRefused() {
        for body in ["\"p\":\"/a\",\"d\":{\"b\":1},\"p\":\"/a/.priority\"", "\"d\":1,\"p\":\"/a\",\"p\":\"/b\""] {
            for action in ["p", "m", "o", "om"] {
                #expect(RealtimeMessage.action(action, "{\(body)}").hasPrefix("invalid"), "\(action) \(body)")
            }
        }
    }

    @Test func members_mayComeInAnyOrder() {
        for body in [
            "\"p\":\"/a\",\"d\":{\"b\":1},\"h\":\"x\"", "\"d\":{\"b\":1},\"h\":\"x\",\"p\":\"/a\"",
            "\"h\":\"x\",\"d\":{\"b\":1},\"p\":\"a\"",
        ] {
            #expect(RealtimeMessage.action("p", "{\(body)}") == "put /a={\"b\":1} x")
            #expect(RealtimeMessage.action("m", "{\(body)}") == "merge /a [/b=1] x")
        }
    }

    @Test func requestNumber_zero_isValid() throws {
        for text in ["{\"t\":\"d\",\"d\":{\"r\":0,\"a\":\"s\",\"b\":{}}}", "{\"t\":\"d\",\"d\":{\"a\":\"s\",\"r\":0}}"] {
            guard case .request(let request) = try RealtimeMessage.parse(text).get() else { return #expect(Bool(false)) }
            #expect(request.number == 0)
            #expect(text.contains("\"r\":0"))
            #expect(
                WireProtocolsTests.text(RealtimeReply.ok(request.number).text)
                    == "{\"t\":\"d\",\"d\":{\"r\":0,\"b\":{\"s\":\"ok\",\"d\":\"\"}}}"
            )
        }
    }

    @Test func paths_withOrWithoutLeadingSlash_areEquivalent() {
        for path in ["a/b", "/a/b", "a/b/", "//a//b"] { #expect(RealtimeMessage.action("g", "{\"p\":\"\(path)\"}") == "get /a/b -") }
        for path in ["", "/", "//"] { #expect(RealtimeMessage.action("g", "{\"p\":\"\(path)\"}") == "get / -") }
    }

    @Test func controls_areRead() throws {
        for (text, expected) in [
            ("{\"t\":\"c\",\"d\":{\"t\":\"p\",\"d\":{}}}", RealtimeControl.ping),
            ("{\"d\":{\"d\":{},\"t\":\"a\"},\"t\":\"c\"}", .switchAck),
            ("{\"t\":\"c\",\"d\":{\"t\":\"n\",\"d\":{}}}", .endTransmission), ("{\"t\":\"c\",\"d\":{\"t\":\"z\"}}", .unknown("z")),
        ] {
            guard case .control(let control) = try RealtimeMessage.parse(text).get() else { return #expect(Bool(false)) }
            #expect(control == expected)
        }
    }

    @Test func badBodies_areRefusedOnTheirRequestOnly() {
        let tooDeep = String(repeating: "{\"a\":", count: 33) + "1" + String(repeating: "}", count: 33)
        let deepest = String(repeating: "{\"a\":", count: 31) + "1" + String(repeating: "}", count: 31)
        let longKey = String(repeating: "k", count: 769)
        let cases = [
            ("p", "{\"p\":\"/a.b\",\"d\":1}", "Invalid path: Invalid token in path"),
            ("q", "{\"p\":\"/.info/x\"}", "Invalid token in path"),
            ("p", "{\"p\":\"/a/.value\",\"d\":1}", "Invalid token in path"), ("q", "{\"p\":\"/a/.priority\"}", "Invalid token in path"),
            ("p", "{\"p\":\"/a.priority\",\"d\":1}", "Invalid token in path"),
            ("m", "{\"p\":\"/.priority\",\"d\":{\"a\":1}}", "Invalid token in path"),
            ("p", "{\"p\":5,\"d\":1}", "\"p\" is missing"), ("p", "{\"d\":1}", "\"p\" is missing"),
            ("p", "{\"p\":\"/a\"}", "\"d\" is missing"),
            ("p", "5", "\"b\" is missing"), ("m", "{\"p\":\"/\"}", "\"d\" is missing"), ("q", "{}", "\"p\" is missing"),
            ("p", "{\"p\":\"/\",\"d\":{\"a\":{\"x.y\":1}}}", "couldn't parse key"),
            ("p", "{\"p\":\"/\",\"d\":{\"\":1}}", "couldn't parse key"),
            ("p", "{\"p\":\"/\",\"d\":{\"\(longKey)\":1}}", "couldn't parse key"),
            ("p", "{\"p\":\"/\",\"d\":{\".foo\":1}}", "couldn't parse key"),
            ("p", "{\"p\":\"/\",\"d\":\(tooDeep)}", "maximum depth"), ("p", "{\"d\":\(tooDeep),\"p\":\"/\"}", "maximum depth"),
            ("p", "{\"p\":\"/x/y\",\"d\":\(deepest)}", "maximum depth"), ("m", "{\"p\":\"/x\",\"d\":{\"y\":\(deepest)}}", "maximum depth"),
            ("p", "{\"p\":\"/a/.priority\",\"d\":true}", "priority must be"),
            ("p", "{\"p\":\"/a/.priority\",\"d\":{\"a\":1}}", "priority must be"),
            ("p", "{\"p\":\"/a\",\"d\":{\".sv\":\"wat\"}}", "unknown server value"),
            ("m", "{\"p\":\"/a\",\"d\":[1]}", "couldn't parse JSON object"),
            ("m", "{\"p\":\"/a\",\"d\":null}", "couldn't parse JSON object"),
            ("m", "{\"p\":\"/\",\"d\":{\"a\":1,\"a/b\":2}}", "path /a that is ancestor of another path /a/b"),
            ("m", "{\"p\":\"/\",\"d\":{\"a\":1,\"/a\":2}}", "ancestor"),
            ("om", "{\"p\":\"/\",\"d\":{\"a/b/c\":1,\"a-b\":1,\"a/b\":2}}", "ancestor"),
            ("m", "{\"p\":\"/\",\"d\":{\"a\":1,\"a/.priority\":2}}", "ancestor"),
            ("m", "{\"p\":\"/\",\"d\":{\"\":1}}", "Invalid token in path"),
            ("m", "{\"p\":\"/\",\"d\":{\"a#\":1,\"b\":2}}", "Invalid token in path"), ("q", "{\"p\":\"/\",\"h\":5}", "\"h\" is missing"),
            ("q", "{\"p\":\"/\",\"t\":\"x\"}", "\"t\" is missing"), ("q", "{\"p\":\"/\",\"t\":1.5}", "\"t\" is missing"),
            ("auth", "{}", "\"cred\" is missing"),
            ("auth", "{\"cred\":5}", "\"cred\" is missing"), ("appcheck", "{}", "\"cred\" is missing"),
        ]
        for (action, body, text) in cases {
            let summary = RealtimeMessage.action(action, body)
            #expect(summary.hasPrefix("invalid \(action) failure: ") && summary.contains(text), "\(action) \(body): \(summary)")
        }
        #expect(RealtimeMessage.action("p", "{\"p\":\"/x\",\"d\":\(deepest)}").hasPrefix("put /x="))
        #expect(RealtimeMessage.action("m", "{\"p\":\"/\",\"d\":{\"a/b\":1,\"a/c\":2,\"ab\":3,\"a/b-c\":4}}").hasPrefix("merge"))
    }

    @Test func longStrings_areTooBig_fromOneByteOverTheLimit() {
        var limits = RealtimeLimits()
        limits.write.stringBytes = 4
        #expect(RealtimeMessage.action("p", "{\"p\":\"/a\",\"d\":\"ääb\"}", limits: limits).contains("too_big"))
        #expect(RealtimeMessage.action("p", "{\"p\":\"/a\",\"d\":\"ää\"}", limits: limits) == "put /a=\"ää\" -")
    }

    @Test func malformedJSON_closesTheConnection() {
        let good = "{\"t\":\"d\",\"d\":{\"r\":1,\"a\":\"m\",\"b\":{\"p\":\"/a\",\"d\":{\"x\":[1,\"y\\n\"],\"z\":{\"w\":null}},\"h\":\"\"}}}"
        #expect(throws: Never.self) { try RealtimeMessage.parse(good).get() }
        for cut in 0..<good.utf8.count {
            guard case .failure(.malformed) = RealtimeMessage.parse(String(good.prefix(cut))) else {
                #expect(Bool(false), "cut at \(cut)")
                continue
            }
        }
        for bad in [
            good + "x", good + "{}", good.replacing("null", with: "nul1"), good.replacing("[1", with: "[01"), "{\"t\":\"d\",}", "\u{FEFF}{}"
        ] {
            guard case .failure(.malformed) = RealtimeMessage.parse(bad) else { #expect(Bool(false), "\(bad)"); continue }
        }
        // After a refused value the text is still checked.
        guard case .failure(.malformed) = RealtimeMessage.parse(
            "{\"t\":\"d\",\"d\":{\"r\":1,\"a\":\"p\",\"b\":{\"p\":\"/\",\"d\":{\".x\":1,tru}}}}")
        else { return #expect(Bool(false)) }
    }

    @Test func otherJSON_isNoEnvelope() {
        for text in [
            "[]", "5", "\"x\"", "null", "{}", "{\"t\":\"d\"}", "{\"d\":{}}", "{\"t\":\"x\",\"d\":{\"r\":1,\"a\":\"s\"}}",
            "{\"t\":5,\"d\":{}}",
            "{\"t\":\"d\",\"d\":5}", "{\"t\":\"d\",\"d\":{\"a\":\"s\"}}", "{\"t\":\"d\",\"d\":{\"r\":\"1\",\"a\":\"s\"}}",
            "{\"t\":\"d\",\"d\":{\"r\":1}}",
            "{\"t\":\"d\",\"d\":{\"r\":1.5,\"a\":\"s\"}}", "{\"t\":\"c\",\"d\":{}}", "{\"t\":\"d\",\"d\":{\"r\":1,\"a\":null}}",
        ] {
            guard case .failure(.notAnEnvelope) = RealtimeMessage.parse(text) else { #expect(Bool(false), "\(text)"); continue }
        }
    }
}
