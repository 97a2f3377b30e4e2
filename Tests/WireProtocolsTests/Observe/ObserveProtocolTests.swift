import JSONTree
import Testing
@testable import WireProtocols

@Suite(.timeLimit(.minutes(30))) struct ObserveProtocolTests {
    static func parse(_ text: String) -> Result<ObserveRequest, ObserveError> {
        utf8(text).withUnsafeBytes { bytes in
            do throws(ObserveError) { return .success(try ObserveRequest.parse(bytes)) } catch { return .failure(error) }
        }
    }

    static func read(_ bytes: [UInt8]) -> Result<ObserveMessage, ObserveError> {
        bytes.withUnsafeBytes { bytes in
            do throws(ObserveError) { return .success(try ObserveMessage.parse(bytes)) } catch { return .failure(error) }
        }
    }

    static func write(_ path: Path, _ value: Node, _ part: TreeWrite.Part = .node) -> TreeWrite {
        TreeWrite(path, part: part, WriteValue(value))
    }

    static let requests: [(String, ObserveOperation)] = [
        ("{\"id\":1,\"op\":\"observe\",\"path\":\"timeline/ana\",\"events\":[\"added\",\"changed\",\"removed\"]}",
            .observe(path: "timeline/ana", events: .children)),
        ("{\"id\":1,\"op\":\"observe\",\"path\":\"\",\"events\":[\"value\"]}", .observe(path: .root, events: .value)),
        ("{\"id\":1,\"op\":\"unobserve\",\"sub\":0}", .unobserve(sub: 0)),
        ("{\"id\":1,\"op\":\"get\",\"path\":\"a/b\"}", .get(path: "a/b")),
        ("{\"id\":1,\"op\":\"set\",\"path\":\"a\",\"value\":{\"b\":[1,null]}}", .set(write("a", ["b": ["0": 1]]))),
        ("{\"id\":1,\"op\":\"set\",\"path\":\"a/.priority\",\"value\":5}", .set(write("a", 5, .priority))),
        ("{\"id\":1,\"op\":\"update\",\"path\":\"\",\"value\":{\"posts/p1/handled\":true,\"x/.priority\":\"p\",\"y\":null}}",
            .update(path: .root, [write("posts/p1/handled", true), write("x", "p", .priority), write("y", .null)])),
        ("{\"id\":1,\"op\":\"push\",\"path\":\"a\",\"value\":\"v\"}", .push(path: "a", WriteValue("v"))),
        ("{\"id\":1,\"op\":\"remove\",\"path\":\"a\"}", .remove(write("a", .null))),
        ("{\"id\":1,\"op\":\"transaction\",\"path\":\"a\",\"hash\":\"h\",\"value\":5}", .transaction(write("a", 5), hash: "h")),
        ("{\"id\":1,\"op\":\"onDisconnect\",\"do\":\"set\",\"path\":\"a\",\"value\":5}", .onDisconnect(.set(write("a", 5)))),
        (
            "{\"id\":1,\"op\":\"onDisconnect\",\"do\":\"update\",\"path\":\"a\",\"value\":{\"b/c\":null}}",
            .onDisconnect(.update(path: "a", [write("b/c", .null)]))
        ),
        ("{\"id\":1,\"op\":\"onDisconnect\",\"do\":\"remove\",\"path\":\"a\"}", .onDisconnect(.remove(write("a", .null)))),
        ("{\"id\":1,\"op\":\"onDisconnect\",\"do\":\"cancel\",\"path\":\"a\"}", .onDisconnect(.cancel(path: "a"))),
        (
            "{\"id\":1,\"op\":\"observe\",\"path\":\"a\",\"events\":[\"added\"],\"since\":null}",
            .observe(path: "a", events: .added, since: .now)
        ),
        (
            "{\"id\":1,\"op\":\"observe\",\"path\":\"a\",\"events\":[\"added\"],\"since\":{\"epoch\":\"k3\",\"seq\":8}}",
            .observe(path: "a", events: .added, since: .after(epoch: "k3", seq: 8))
        ),
        ("{\"id\":1,\"op\":\"count\",\"path\":\"a\"}", .count(path: "a")),
        (
            "{\"id\":1,\"op\":\"observe\",\"path\":\"a\",\"events\":[\"value\",\"count\"],\"maxHz\":2.5}",
            .observe(path: "a", events: [.value, .count], maxHz: 2.5)
        ),
        ("{\"id\":1,\"op\":\"auth\",\"token\":\"t\"}", .auth(token: "t")), ("{\"id\":1,\"op\":\"ping\"}", .ping),
    ]

    /// The value is checked for the preceding operation and path: later duplicates would be applied unchecked.
    @Test func aMemberThatStandsTwice_isRefused() throws {
        for text in [
            "{\"id\":1,\"op\":\"set\",\"path\":\"a\",\"value\":{\"b\":1},\"path\":\"a/.priority\"}",
            "{\"id\":1,\"op\":\"set\",\"path\":\"a\",\"value\":1,\"op\":\"push\"}",
        ] {
            guard case .invalid(let fault) = try Self.parse(text).get().operation else { Issue.record("\(text)"); continue }
            #expect(fault.code == .badRequest)
        }
    }

    @Test func requests_areReadAndWritten() throws {
        for (text, operation) in Self.requests {
            let request = try Self.parse(text).get()
            #expect(request == ObserveRequest(id: 1, operation))
            let encoded = request.encoded()
            #expect(try Self.parse(WireProtocolsTests.text(encoded)).get() == request)
            if !text.contains("[1,null]") { #expect(WireProtocolsTests.text(encoded) == text) }
        }
    }

    @Test func members_mayComeInAnyOrder_andPathsInAnyForm() {
        #expect(Self.parse("{\"value\":{\"b\":1},\"path\":\"//a/\",\"op\":\"set\",\"id\":-9}") ==
            .success(ObserveRequest(id: -9, .set(Self.write("a", ["b": 1])))))
        #expect(Self.parse("{\"value\":{\"/b/c\":1},\"op\":\"update\",\"id\":0,\"path\":\"/a\"}") ==
            .success(ObserveRequest(id: 0, .update(path: "a", [Self.write("b/c", 1)]))))
        #expect(Self.parse("{\"op\":\"observe\",\"path\":\"a\",\"id\":1}") == .success(
            ObserveRequest(id: 1, .observe(path: "a", events: .value))))
    }

    @Test func transaction_isTheValueThatItRestsOn_orItsHash() throws {
        for (was, hash) in [("5", Node.int(5).hash), ("null", ""), (#"{"b":1,".priority":2}"#, (["b": 1] as Node).with(priority: 2).hash)] {
            for text in [
                #""was":\#(was),"path":"a","value":6,"op":"transaction","id":1"#,
                #""id":1,"op":"transaction","value":6,"was":\#(was),"path":"a""#,
            ] {
                #expect(try Self.parse("{\(text)}").get() == ObserveRequest(id: 1, .transaction(Self.write("a", 6), hash: hash)), "\(text)")
            }
        }
    }

    @Test func serverValues_passThroughTheClientsEncoding() throws {
        let value = "{\"a\":{\".sv\":\"timestamp\"},\"b\":{\"c\":{\".value\":{\".sv\":{\"increment\":2}},"
            + "\".priority\":{\".sv\":\"timestamp\"}},\"d\":1},\".priority\":{\".sv\":\"timestamp\"}}"
        let text = "{\"id\":1,\"op\":\"set\",\"path\":\"x\",\"value\":\(value)}"
        #expect(WireProtocolsTests.text(try Self.parse(text).get().encoded()) == text)
        let root = "{\"id\":1,\"op\":\"push\",\"path\":\"x\",\"value\":{\".sv\":{\"increment\":-1.5}}}"
        #expect(WireProtocolsTests.text(try Self.parse(root).get().encoded()) == root)
    }

    @Test func requestsThatCannotBeCarriedOut_areRefusedByCode() {
        let cases: [(String, ObserveCode, String)] = [
            ("\"op\":\"observe\",\"path\":\"/a\",\"where\":[]", .notSupported, "\"where\""),
            ("\"op\":\"observe\",\"path\":\"/a\",\"near\":{}", .badRequest, "takes no \"near\""),
            ("\"op\":\"observe\",\"path\":\"/a\",\"since\":1", .badRequest, "\"since\" is null"),
            ("\"op\":\"observe\",\"path\":\"/a\",\"since\":{\"seq\":1}", .badRequest, "\"since\" is null"),
            ("\"op\":\"observe\",\"path\":\"/a\",\"since\":{\"epoch\":\"e\"}", .badRequest, "\"since\" is null"),
            ("\"op\":\"observe\",\"path\":\"/a\",\"since\":{\"epoch\":\"e\",\"seq\":-1}", .badRequest, "\"since\" is null"),
            ("\"op\":\"observe\",\"path\":\"/a\",\"since\":{\"epoch\":\"e\",\"seq\":1,\"x\":1}", .badRequest, "\"since\" is null"),
            ("\"op\":\"get\",\"path\":\"/a\",\"since\":null", .badRequest, "takes no \"since\""),
            ("\"op\":\"observe\",\"path\":\"/a\",\"maxHz\":0", .badRequest, "\"maxHz\" is a number from"),
            ("\"op\":\"observe\",\"path\":\"/a\",\"maxHz\":1001", .badRequest, "\"maxHz\" is a number from"),
            ("\"op\":\"observe\",\"path\":\"/a\",\"maxHz\":\"2\"", .badRequest, "\"maxHz\" is a number from"),
            ("\"op\":\"observe\",\"path\":\"/a\",\"maxHz\":2,\"events\":[\"value\",\"added\"]", .badRequest, "\"maxHz\" goes with"),
            ("\"op\":\"observe\",\"path\":\"/a\",\"maxHz\":2,\"events\":[\"ready\"]", .badRequest, "\"maxHz\" goes with"),
            ("\"op\":\"get\",\"path\":\"/a\",\"maxHz\":2", .badRequest, "takes no \"maxHz\""),
            ("\"op\":\"observe\",\"path\":\"/a\",\"events\":[\"distance\"]", .notSupported, "event \"distance\""),
            ("\"op\":\"count\"", .badRequest, "\"path\""),
            ("\"op\":\"transaction\",\"path\":\"/a\",\"value\":1", .badRequest, "\"was\""),
            ("\"op\":\"transaction\",\"path\":\"/a\",\"was\":1", .badRequest, "\"value\""),
            ("\"op\":\"transaction\",\"path\":\"/a\",\"was\":1,\"hash\":\"\",\"value\":1", .badRequest, "exclude"),
            ("\"op\":\"transaction\",\"path\":\"/a/.priority\",\"was\":1,\"value\":1", .badPath, "token in path"),
            ("\"op\":\"transaction\",\"path\":\"/a\",\"was\":{\".sv\":\"timestamp\"},\"value\":1", .badRequest, "\"was\""),
            ("\"op\":\"onDisconnect\",\"path\":\"/a\"", .badRequest, "\"do\""),
            ("\"op\":\"onDisconnect\",\"path\":\"/a\",\"do\":\"push\"", .notSupported, "\"do\":\"push\""),
            ("\"op\":\"onDisconnect\",\"path\":\"/a\",\"do\":\"set\"", .badRequest, "\"value\""),
            ("\"op\":\"onDisconnect\",\"path\":\"/a\",\"do\":\"update\",\"value\":5", .badData, "JSON object"),
            ("\"op\":\"onDisconnect\",\"path\":\"/a\",\"do\":\"cancel\",\"value\":5", .badRequest, "takes no \"value\""),
            ("\"op\":\"onDisconnect\",\"path\":\"/a/.priority\",\"do\":\"cancel\"", .badPath, "token in path"),
            ("\"op\":\"set\",\"path\":\"/a\",\"do\":\"set\",\"value\":1", .badRequest, "takes no \"do\""),
            ("\"path\":\"/a\"", .badRequest, "\"op\""),
            ("\"op\":5", .badRequest, "\"op\""),
            ("\"op\":\"observe\"", .badRequest, "\"path\""), ("\"op\":\"observe\",\"path\":5", .badRequest, "\"path\""),
            ("\"op\":\"observe\",\"path\":\"/a\",\"events\":[]", .badRequest, "\"events\""),
            ("\"op\":\"observe\",\"path\":\"/a\",\"events\":\"value\"", .badRequest, "\"events\""),
            ("\"op\":\"observe\",\"path\":\"/a\",\"events\":[1]", .badRequest, "\"events\""),
            ("\"op\":\"get\",\"path\":\"/a.b\"", .badPath, "token in path"),
            ("\"op\":\"get\",\"path\":\"/a/.priority\"", .badPath, "token in path"),
            ("\"op\":\"get\",\"path\":\"/a\",\"value\":1", .badRequest, "takes no \"value\""),
            ("\"op\":\"set\",\"path\":\"/a\"", .badRequest, "\"value\""),
            ("\"op\":\"set\",\"path\":\"/a\",\"value\":{\"x.y\":1}", .badData, "key"),
            ("\"op\":\"update\",\"path\":\"/a\",\"value\":5", .badData, "JSON object"),
            ("\"op\":\"update\",\"path\":\"/a\",\"value\":{\"b\":1,\"b/c\":2}", .badData, "ancestor"),
            ("\"op\":\"update\",\"path\":\"/a\",\"value\":{\"b#\":1}", .badPath, "token"), ("\"op\":\"auth\"", .badRequest, "\"token\""),
            ("\"op\":\"unobserve\"", .badRequest, "\"sub\""), ("\"op\":\"ping\",\"sub\":1", .badRequest, "takes no \"sub\""),
            ("\"op\":\"push\",\"path\":\"/a\",\"value\":{\".sv\":\"x\"}", .badData, "server value"),
        ]
        for (members, code, message) in cases {
            for text in ["{\"id\":4,\(members)}", "{\(members),\"id\":4}"] {
                guard case .success(let request) = Self.parse(text), request.id == 4, case .invalid(let fault) = request.operation else {
                    #expect(Bool(false), "\(text)")
                    continue
                }
                #expect(fault.code == code && fault.message.contains(message), "\(text): \(fault)")
            }
        }
    }

    @Test func refusals_nameTheMemberThatIsAtFault() throws {
        let cases: [(String, String?)] = [
            ("\"op\":\"dance\"", "op"), ("\"op\":\"get\"", "path"), ("\"op\":\"get\",\"path\":\"/a.b\"", "path"),
            ("\"op\":\"get\",\"path\":\"/a\",\"sub\":1", "sub"), ("\"op\":\"observe\",\"path\":\"/a\",\"events\":[\"x\"]", "events"),
            ("\"op\":\"observe\",\"path\":\"/a\",\"since\":1", "since"), ("\"op\":\"set\",\"path\":\"/a\"", "value"),
            ("\"op\":\"set\",\"path\":\"/a\",\"value\":{\"x.y\":1}", "value"),
            ("\"op\":\"get\",\"path\":\"/a\",\"query\":{\"orderBy\":\"a.b\"}", "query.orderBy"),
            ("\"op\":\"get\",\"path\":\"/a\",\"query\":{\"where\":[[5,\"==\",1]]}", "query.where[0]"),
        ]
        for (members, member) in cases {
            guard case .invalid(let fault) = try Self.parse("{\"id\":4,\(members)}").get().operation else {
                Issue.record("\(members)")
                continue
            }
            #expect(fault.member == member, "\(members): \(fault)")
        }
        let answer = ObserveReply.failed(1, ObserveFault(.badPath, "m", member: "path")).text
        #expect(text(answer) == "{\"id\":1,\"error\":{\"code\":\"bad_path\",\"message\":\"m\",\"member\":\"path\"}}")
        #expect(Self.read(Array(answer)) == .success(.failed(id: 1, ObserveFailure(code: "bad_path", message: "m", member: "path"))))
    }

    @Test func depth_countsTheKeyThatAPushAdds() {
        let nested = String(repeating: "{\"a\":", count: 30) + "1" + String(repeating: "}", count: 30)
        for (op, path, isLegal) in [("set", "x/y", true), ("set", "x/y/z", false), ("push", "x", true), ("push", "x/y", false)] {
            guard case .success(let request) = Self.parse("{\"id\":1,\"op\":\"\(op)\",\"path\":\"\(path)\",\"value\":\(nested)}") else {
                return #expect(Bool(false))
            }
            if case .invalid(let fault) = request.operation { #expect(!isLegal && fault.code == .badData) } else { #expect(isLegal) }
        }
    }

    @Test func whatIsNoRequest_closesTheConnection() {
        for text in [
            "", "{", "{\"id\":1,\"op\":\"ping\"", "{\"id\":1,\"op\":\"ping\"}x",
            "{\"id\":1,\"op\":\"set\",\"path\":\"/\",\"value\":{\".x\":tru}}",
        ] {
            guard case .failure(.malformed) = Self.parse(text) else { #expect(Bool(false), "\(text)"); continue }
        }
        for text in ["[]", "5", "{}", "{\"op\":\"ping\"}", "{\"id\":\"1\",\"op\":\"ping\"}", "{\"id\":null,\"op\":\"ping\"}"] {
            #expect(Self.parse(text) == .failure(.notAMessage))
        }
        #expect(text(ObserveReply.failed(nil, ObserveError.malformed(offset: 3).fault).text) ==
            "{\"id\":null,\"error\":{\"code\":\"bad_request\",\"message\":\"message is not JSON at byte 3\"}}")
    }

    @Test func answers_areWrittenExactly_andReadBack() {
        let success = ObserveSuccess(seq: 8, value: ["a": 1], key: "-N", uid: "u\"1")
        let cases: [(FramedText, String, ObserveMessage)] = [
            (ObserveReply.ok(1), "{\"id\":1,\"ok\":{}}", .ok(id: 1, ObserveSuccess())),
            (ObserveReply.ok(1, ObserveSuccess(seq: 8123)), "{\"id\":1,\"ok\":{\"seq\":8123}}", .ok(id: 1, ObserveSuccess(seq: 8123))),
            (
                ObserveReply.ok(1, ObserveSuccess(value: .null)), "{\"id\":1,\"ok\":{\"value\":null}}",
                .ok(id: 1, ObserveSuccess(value: .null))),
            (
                ObserveReply.ok(0, success), "{\"id\":0,\"ok\":{\"seq\":8,\"key\":\"-N\",\"uid\":\"u\\\"1\",\"value\":{\"a\":1}}}",
                .ok(id: 0, success)),
            (
                ObserveReply.ok(1, ObserveSuccess(value: ["a": 1], keys: ["b", "a\"c"], distances: [12.1, 80])),
                "{\"id\":1,\"ok\":{\"keys\":[\"b\",\"a\\\"c\"],\"distances\":[12.1,80],\"value\":{\"a\":1}}}",
                .ok(id: 1, ObserveSuccess(value: ["a": 1], keys: ["b", "a\"c"], distances: [12.1, 80]))),
            (
                ObserveReply.ok(1, ObserveSuccess(value: .null, keys: [])), "{\"id\":1,\"ok\":{\"keys\":[],\"value\":null}}",
                .ok(id: 1, ObserveSuccess(value: .null, keys: []))),
            (ObserveReply.failed(1, .permissionDenied), "{\"id\":1,\"error\":{\"code\":\"permission_denied\",\"message\":\"Permission "
                + "denied\"}}",
                .failed(id: 1, ObserveFailure(code: "permission_denied", message: "Permission denied"))),
            (ObserveReply.failed(nil, .permissionDenied), "{\"id\":null,\"error\":{\"code\":\"permission_denied\",\"message\":\"Permission "
                + "denied\"}}",
                .failed(id: nil, ObserveFailure(code: "permission_denied", message: "Permission denied"))),
            (ObserveReply.ended(sub: 3, .permissionDenied), "{\"sub\":3,\"error\":{\"code\":\"permission_denied\",\"message\":\"Permission "
                + "denied\"}}",
                .ended(sub: 3, ObserveFailure(code: "permission_denied", message: "Permission denied"))),
        ]
        for (reply, json, message) in cases {
            #expect(text(reply.text) == json)
            #expect(reply.frame == WebSocketFrame.text(utf8(json)))
            #expect(Self.read(Array(reply.text)) == .success(message))
        }
    }

    static let events: [(ObserveEvent, String)] = [
        (.value(.null), "\"event\":\"value\",\"value\":null}"), (.value(["a": 1]), "\"event\":\"value\",\"value\":{\"a\":1}}"),
        (.added(key: "-Nx", value: "v", prev: nil), "\"event\":\"added\",\"key\":\"-Nx\",\"value\":\"v\",\"prev\":null}"),
        (
            .changed(key: "p1", value: ["x": true], prev: "p\"0"),
            "\"event\":\"changed\",\"key\":\"p1\",\"value\":{\"x\":true},\"prev\":\"p\\\"0\"}"),
        (.removed(key: "p1", value: 2), "\"event\":\"removed\",\"key\":\"p1\",\"value\":2}"),
        (.moved(key: "p1", prev: "p0"), "\"event\":\"moved\",\"key\":\"p1\",\"prev\":\"p0\"}"),
        (.moved(key: "p1", prev: nil), "\"event\":\"moved\",\"key\":\"p1\",\"prev\":null}"), (.ready, "\"event\":\"ready\"}"),
        (.count(7), "\"event\":\"count\",\"count\":7}"),
        (
            .added(key: "a", value: 1, prev: .notSent, distance: 123.4),
            "\"event\":\"added\",\"key\":\"a\",\"value\":1,\"distance\":123.4}"),
        (
            .changed(key: "a", value: 1, prev: "b", distance: 80),
            "\"event\":\"changed\",\"key\":\"a\",\"value\":1,\"prev\":\"b\",\"distance\":80}"),
        (.moved(key: "a", prev: .notSent, distance: 0), "\"event\":\"moved\",\"key\":\"a\",\"distance\":0}"),
        (
            .moved(key: "a", prev: .first, distance: 20_015_114.44),
            "\"event\":\"moved\",\"key\":\"a\",\"prev\":null,\"distance\":20015114.44}"),
        (
            .removed(key: "a", value: 1, distance: 12.5, why: .left),
            "\"event\":\"removed\",\"key\":\"a\",\"value\":1,\"distance\":12.5,\"why\":\"left\"}"),
        (.removed(key: "a", value: 1, why: .deleted), "\"event\":\"removed\",\"key\":\"a\",\"value\":1,\"why\":\"deleted\"}"),
    ]

    @Test func events_shareTheirRest_behindAPrefixPerObserve() {
        for (event, rest) in Self.events {
            let push = ObservePush(event, seq: 8124)
            #expect(text(push.rest) == "\"seq\":8124,\(rest)")
            for sub in [0, 1, 77_777] as [Int64] {
                let message = ObservePush.prefix(sub: sub) + push.rest
                #expect(text(message) == "{\"sub\":\(sub),\"seq\":8124,\(rest)")
                #expect(Self.read(message) == .success(.event(sub: sub, seq: 8124, event)))
                #expect(push.frame(sub: sub) == WebSocketFrame.text(message))
                #expect(push.head(sub: sub) + push.rest == push.frame(sub: sub))
            }
        }
    }

    /// Metres are sent with two decimals, and never as NaN or infinity.
    @Test(arguments: [(0.004, "0"), (0.005, "0.01"), (1.235, "1.24"), (999.999, "1000"), (1e7 / 3, "3333333.33"), (12.1, "12.1")])
    func distances_areRoundedToCentimetres(_ metres: Double, _ written: String) {
        let rest = ObservePush(.moved(key: "a", prev: .notSent, distance: metres), seq: 1).rest
        #expect(text(rest).hasSuffix("\"distance\":\(written)}"))
    }

    /// A newer server may know more reasons.
    @Test func reasonsThatAreNotKnown_areNone() {
        let removed = "{\"sub\":1,\"seq\":2,\"event\":\"removed\",\"key\":\"a\",\"value\":1,\"why\":\"moved away\"}"
        #expect(Self.read(utf8(removed)) == .success(.event(sub: 1, seq: 2, .removed(key: "a", value: 1))))
    }

    @Test func client_toleratesNewMembers_andRefusesOtherMessages() {
        #expect(Self.read(utf8("{\"new\":{},\"ok\":{\"extra\":[1],\"seq\":2},\"id\":1}")) == .success(.ok(id: 1, ObserveSuccess(seq: 2))))
        #expect(Self.read(utf8("{\"id\":1,\"error\":{\"code\":\"newer\",\"why\":1,\"message\":\"m\"}}")) ==
            .success(.failed(id: 1, ObserveFailure(code: "newer", message: "m"))))
        #expect(ObserveFailure(code: "newer", message: "").known == nil)
        #expect(ObserveFailure(code: "bad_path", message: "").known == .badPath)
        for text in ["[]", "{}", "{\"id\":1}", "{\"id\":null,\"ok\":{}}", "{\"sub\":1}", "{\"sub\":1,\"seq\":1}", "{\"sub\":1,\"seq\":1,"
            + "\"event\":\"added\",\"value\":1}",
            "{\"sub\":1,\"seq\":1,\"event\":\"x\",\"key\":\"k\",\"value\":1}", "{\"sub\":\"1\"}"] {
            #expect(Self.read(utf8(text)) == .failure(.notAMessage), "\(text)")
        }
        guard case .failure(.malformed) = Self.read(utf8("{\"id\":")) else { return #expect(Bool(false)) }
    }
}
