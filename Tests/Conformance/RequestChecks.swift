import HubEngine
import HubServer
import JSONTree
import SecurityRules
import TestHub
import Testing
import WireProtocols

/// Checks 31–44: requests and responses.
@Suite(.timeLimit(.minutes(30))) struct RequestChecks {
    @Test func checklist_031_zeroIsARequestNumber() throws {
        let peer = try Peer(TestServer())
        try peer.socket.sendText(#"{"t":"d","d":{"r":0,"a":"s","b":{"c":{}}}}"#)
        #expect(try peer.socket.text() == #"{"t":"d","d":{"r":0,"b":{"s":"ok","d":""}}}"#)
    }

    @Test func checklist_032_033_036_everyRequestIsAnsweredOnceAndInOrder_failuresWithAText() throws {
        let peer = try Peer(TestServer())
        let requests = [
            ("s", #"{"c":{"sdk.js.1":1}}"#, "ok"), ("never heard of", "{}", "failure"), ("n", #"{"p":"/x"}"#, "ok"), ("unauth", "{}", "ok"),
            ("unappeck", "{}", "ok"), ("appcheck", #"{"token":"t"}"#, "ok"), ("q", #"{"p":"/x","h":""}"#, "ok"),
            ("g", #"{"p":"x//y/","q":{}}"#, "ok"),
            ("oc", #"{"p":"/x","d":null}"#, "ok"), ("p", #"{"p":"/bad.key","d":1}"#, "failure"),
            ("p", #"{"p":"/x","d":{"a$b":1}}"#, "failure"),
            ("m", #"{"p":"/x","d":{}}"#, "ok"), ("m", #"{"p":"/x","d":7}"#, "failure"), ("auth", #"{"cred":"nonsense"}"#, "invalid_token"),
            ("p", "{}", "failure"), ("p", "[]", "failure"), ("q", #"{"p":"/x","q":{"l":0},"t":1,"h":""}"#, "failure"), ("", "5", "failure"),
            ("l", #"{"p":"/x","h":""}"#, "ok"), ("u", #"{"p":"/x"}"#, "ok"), ("p", #"{"p":"/.info/connected","d":1}"#, "failure"),
        ]
        for (action, body, _) in requests { try peer.send(action, body) }
        for (i, request) in requests.enumerated() {
            let answer = try Node(json: peer.message())
            #expect(answer.node(at: "d/r") == .int(Int64(i + 1)) && answer.node(at: "d/b/s") == .string(request.2), "\(request)")
            if request.2 != "ok" {
                guard case .string = answer.node(at: "d/b/d") else { Issue.record("d of \(request) is no text"); continue }
            }
        }
        #expect(try peer.pushes() == [])
    }

    @Test func checklist_034_requestsBehindASlowAuth_seeTheNewIdentity() throws {
        let gate = Gate()
        let rules = try RuleSet(parsing: #"{"rules":{"$u":{".read":"auth.uid == $u",".write":"auth.uid == $u"}}}"#)
        let server = try TestServer {
            $0.rules = rules
            $0.tokens = ManualVerifier(gate: gate) { _ in .success(Identity(auth: ["uid": "ana"])) }
        }
        let (peer, other) = (try Peer(server), try Peer(server))
        try peer.send("auth", #"{"cred":"\#(Token.signed("ana"))"}"#)
        try peer.send("q", #"{"p":"/ana","h":""}"#)
        try peer.send("p", #"{"p":"/ana","d":1}"#)
        #expect(try other.get("/ana") == "permission_denied Permission denied", "others do not wait")
        gate.open()
        #expect(try peer.line() == #"ok {"auth":{"uid":"ana"},"expires":null}"#)
        #expect(try [peer.line(), peer.line(), peer.line()] == ["ok {}", "d ana 1", "ok \"\""])
    }

    @Test func requestsBehindAuth_overTheLimit_closeTheConnection() throws {
        let gate = Gate()
        let server = try TestServer {
            $0.tokens = ManualVerifier(gate: gate) { _ in .success(.anonymous) }
            $0.limits.requestsBehindAuth = 3
        }
        let (at, over) = (try Peer(server), try Peer(server))
        for peer in [at, over] { try peer.send("auth", #"{"cred":"\#(Token.signed("x"))"}"#) }
        for _ in 0..<3 { try at.send("s", "{}") }
        for _ in 0..<4 { try over.send("s", "{}") }
        #expect(try over.socket.closeCode() == 1008)
        gate.open()
        for _ in 0..<4 { #expect(try at.line().hasPrefix("ok")) }
    }

    @Test func checklist_035_listenOkIsAnObject() throws {
        #expect(try Peer(TestServer()).listen("/x") == ["ok {}"])
    }

    @Test func checklist_037_040_statsUnlistenUnauthAndAppCheck_areOk() throws {
        let peer = try Peer(TestServer())
        for (action, body) in [("s", #"{"c":{"sdk.js.9-5-0":1}}"#), ("n", #"{"p":"/never"}"#), (
            "n", #"{"p":"/never","q":{"l":1},"t":4}"#), ("unauth", "{}"),
            ("unappcheck", "{}"), ("unappeck", "{}"), ("appcheck", #"{"token":"t"}"#)]
        { #expect(try peer.ask(action, body) == ["ok \"\""]) }
    }

    @Test func checklist_041_authAnswersWithTheIdentity_andRefusesInvalidTokens() throws {
        let peer = try Peer(TestServer())
        #expect(try peer.ask("auth", #"{"cred":"\#(Token.mock("ana"))"}"#).last
            == #"ok {"auth":{"provider":"custom","token":{"exp":3600,"iat":0,"sub":"ana"},"uid":"ana"},"expires":null}"#)
        #expect(try peer.ask("auth", #"{"cred":"no token"}"#) == ["invalid_token Could not parse auth token."])
    }

    /// Rules trust `auth.provider == 'hub'`, the hub's own writes.
    @Test func token_isNeverTheHubItself() throws {
        let claims = #"{"sub":"n","iat":0,"exp":3600,"firebase":{"sign_in_provider":\#(RuleSet.hubAuth.child("provider").json)}}"#
        let token = "eyJhbGciOiJub25lIiwidHlwIjoiSldUIn0." + Base64.encodeURL(Array(claims.utf8)) + "."
        #expect(try Peer(TestServer()).ask("auth", #"{"cred":"\#(token)"}"#).last?.contains(#""provider":"custom""#) == true)
    }

    @Test func checklist_042_pathsWithAndWithoutSlashesAreTheSame() throws {
        let peer = try Peer(TestServer())
        try peer.listen("a/b")
        #expect(try peer.put("//a//b/", "1") == ["d a/b 1", "ok \"\""])
        try peer.listen("/")
        #expect(try peer.put("c", "1") == ["d c 1", "ok \"\""])
        #expect(try peer.put("/", #"{"z":1}"#).contains(#"d  {"z":1}"#))
    }

    @Test func checklist_043_getOfNothingIsNull() throws {
        #expect(try Peer(TestServer()).get("/nothing") == "ok null")
    }

    @Test func checklist_044_getWithAQueryIsTheWindow() throws {
        let peer = try Peer(TestServer())
        try peer.put("/k", #"{"a":1,"b":2,"c":3,".priority":1}"#)
        #expect(try peer.get("/k", #"{"i":".key","l":2,"vf":"r"}"#) == #"ok {"b":2,"c":3}"#)
    }
}
