import HubEngine
@testable import HubServer
import JSONTree
import SecurityRules
import TestHub
import Testing
import TestSupport

/// Checks 132–140: identities and rules.
@Suite(.timeLimit(.minutes(30))) struct SecurityChecks {
    private func server(
        _ rules: String, clock: FakeClock = FakeClock(), _ configure: @escaping (inout ServerSettings) -> Void = { _ in }
    ) throws -> TestServer {
        let rules = try RuleSet(parsing: #"{"rules":\#(rules)}"#)
        return try TestServer(scheduler: clock.scheduler) {
            $0.rules = rules
            configure(&$0)
        }
    }

    private static let denied = "permission_denied Permission denied"

    @Test func checklist_132_readIsGrantedFromAbove_andADeniedListenGetsNothing() throws {
        let server = try server(#"{".write":true,"a":{"b":{".read":true}}}"#)
        let peer = try Peer(server)
        try peer.put("/a", #"{"b":{"c":1},"d":2}"#)
        #expect(try peer.listen("/a") == [Self.denied])
        #expect(try peer.listen("/a/b/c") == ["d a/b/c 1", "ok {}"])
        #expect(try peer.get("/a") == Self.denied)
    }

    @Test func checklist_133_deployCancelsOnlyWhatIsNowDenied() throws {
        let server = try server(#"{".read":true,".write":true}"#)
        let (peer, other) = (try Peer(server), try Peer(server))
        for path in ["/a", "/b"] { try peer.listen(path) }
        let database = try #require(server.server.hub.database("test"))
        database.replace(try RuleSet(parsing: #"{"rules":{".write":true,"b":{".read":true}}}"#))
        try other.merge("/", #"{"a/x":1,"b/x":1}"#)
        #expect(try peer.pushes() == ["c a", "d b/x 1"])
    }

    @Test func listen_isCancelledWhenTheDataItsRuleReadsChanges_andSeesNothingOfIt() throws {
        let server = try server(#"{".write":true,"room":{".read":"root.child('members/'+auth.uid).exists()"}}"#)
        let (ana, other) = (try Peer(server), try Peer(server))
        try other.put("/members/ana", "true")
        try ana.signIn("ana")
        try ana.listen("/room")
        try other.merge("/", #"{"room/hello":1}"#)
        #expect(try ana.pushes() == ["d room/hello 1"])
        try other.merge("/", #"{"members/ana":null,"room/secret":1}"#)
        #expect(try ana.pushes() == ["c room"])
        try other.put("/room/more", "1")
        #expect(try ana.pushes() == [])
        #expect(try ana.listen("/room") == [Self.denied])
    }

    @Test func endOfASession_thatNoClockReaches_isNever() {
        #expect(Identity(auth: .null, expires: .max).end(10) == .max)
        #expect(Identity(auth: .null, expires: .max / 500).end(10) == .max)
        #expect(Identity(auth: .null, expires: .min).end(0) == .min)
        #expect(Identity(auth: .null, expires: 100).end(10) == 110_000)
    }

    @Test func checklist_134_signOutCancels_refreshDoesNot() throws {
        let server = try server(#"{"mine":{"$u":{".read":"auth.uid == $u",".write":true}},"open":{".read":true}}"#)
        let peer = try Peer(server)
        try peer.signIn("ana")
        try peer.listen("/mine/ana")
        try peer.listen("/open")
        #expect(try peer.ask("auth", #"{"cred":"\#(Token.mock("ana", extra: #","fresh":true"#))"}"#).count == 1)
        #expect(try peer.pushes() == [])
        #expect(try peer.ask("unauth", "{}") == ["ok \"\""])
        #expect(try peer.pushes() == ["c mine/ana"])
        try Peer(server).put("/mine/ana", "1")
        #expect(try peer.pushes() == [])
    }

    @Test func checklist_135_expiredToken_isRevokedWithItsRightsUntilThen() throws {
        let clock = FakeClock()
        let server = try server(#"{"x":{".read":"auth.uid == 'ana'",".write":"auth.uid == 'ana'"},"seen":{".read":true}}"#, clock: clock) {
            $0.limits.tokenLeewaySeconds = 0
            $0.tokens = ManualVerifier { _ in .success(Identity(auth: ["uid": "ana"], expires: clock.seconds + 5)) }
        }
        let peer = try Peer(server)
        #expect(try peer.ask("auth", #"{"cred":"\#(Token.signed("ana"))"}"#)[0].hasPrefix(#"ok {"auth":{"uid":"ana"},"expires":1"#))
        try peer.listen("/x")
        try peer.ask("o", #"{"p":"/x","d":"gone"}"#)
        #expect(try peer.put("/x", "1") == ["d x 1", "ok \"\""])
        clock.advance(seconds: 5)
        #expect(try peer.line() == #"ac {"s":"expired_token","d":"Auth token is expired."}"#)
        _ = try peer.socket.closeCode()
        let admin = try Peer(server)
        try admin.signInAsOwner()
        #expect(try admin.get("/x") == #"ok "gone""#, "its onDisconnect fired as ana")
    }

    @Test func expiredToken_isRevokedByLongPollingToo() throws {
        let clock = FakeClock()
        let server = try server(#"{".read":true}"#, clock: clock) {
            $0.limits.tokenLeewaySeconds = 0
            $0.tokens = ManualVerifier { _ in .success(Identity(auth: ["uid": "ana"], expires: clock.seconds + 5)) }
        }
        let peer = try LongPollPeer(server)
        try peer.poll(#"{"t":"d","d":{"r":1,"a":"auth","b":{"cred":"\#(Token.signed("ana"))"}}}"#)
        #expect(try peer.messages(1).first?.node(at: "d/b/s") == "ok")
        clock.advance(seconds: 5)
        while peer.closed == nil { try peer.poll() }
        #expect(peer.heard.last?.node(at: "d/a") == "ac" && peer.heard.last?.node(at: "d/b/s") == "expired_token")
    }

    @Test func tokenThatHasExpiredAlready_isRefused_andTheLeewayCounts() throws {
        for (leeway, status) in [(5, "expired_token"), (3600, "ok")] {
            let clock = FakeClock()
            let server = try server(#"{".read":true}"#, clock: clock) {
                $0.limits.tokenLeewaySeconds = leeway
                $0.tokens = ManualVerifier { _ in .success(Identity(auth: ["uid": "ana"], expires: clock.seconds - 60)) }
            }
            #expect(try Peer(server).ask("auth", #"{"cred":"\#(Token.signed("ana"))"}"#)[0].hasPrefix(status))
        }
    }

    @Test func checklist_136_unsignedExpiredTokens_areForDevelopmentOnly() throws {
        for isDev in [true, false] {
            let server = try server(#"{".read":true}"#) { $0.isDev = isDev }
            let peer = try Peer(server, "v=5&ns=default")
            #expect(try peer.ask("auth", #"{"cred":"\#(Token.mock("ana"))"}"#)[0].hasPrefix(isDev ? "ok" : "invalid_token"))
            #expect(try peer.ask("gauth", #"{"cred":"owner"}"#)[0].hasPrefix(isDev ? "ok" : "invalid_token"))
        }
    }

    @Test func checklist_137_actingAsSomebodyElse_isForAdministrators() throws {
        let server = try server(#"{"$u":{".read":"auth.uid == $u"}}"#)
        let peer = try Peer(server)
        try peer.ask("gauth", #"{"cred":"owner","authvar":{"uid":"bo"}}"#)
        #expect(try [peer.get("/bo"), peer.get("/ana")] == ["ok null", Self.denied])
        try peer.ask("gauth", #"{"cred":"owner","noauth":true}"#)
        #expect(try peer.get("/bo") == Self.denied)
        try peer.ask("gauth", #"{"cred":"owner"}"#)
        #expect(try peer.get("/bo") == "ok null")
        try peer.ask("auth", #"{"cred":"\#(Token.mock("ana"))","authvar":{"uid":"bo"}}"#)
        #expect(try [peer.get("/bo"), peer.get("/ana")] == [Self.denied, "ok null"])
    }

    @Test func checklist_138_administratorsAreBoundByTheDataModel() throws {
        let peer = try Peer(server("{}"))
        try peer.signInAsOwner()
        #expect(try peer.put("/a", "1") == ["ok \"\""])
        #expect(try peer.put("/a", #"{"b.c":1}"#)[0].hasPrefix("failure "))
        #expect(try peer.put("/" + Array(repeating: "a", count: 33).joined(separator: "/"), "1")[0].hasPrefix("failure "))
        #expect(try peer.get("/a", #"{"i":"x","l":1}"#).hasPrefix("failure Index not defined"))
    }

    @Test func checklist_139_rulesSeeTheQueryOfEachListen() throws {
        let peer = try Peer(server(#"{"k":{".read":"query.limitToFirst <= 10 && query.orderByKey"}}"#))
        #expect(try peer.listen("/k", #"{"i":".key","l":10,"vf":"l"}"#, tag: 1) == ["ok {}"])
        #expect(try peer.listen("/k", #"{"i":".key","l":11,"vf":"l"}"#, tag: 2) == [Self.denied])
        #expect(try peer.listen("/k") == [Self.denied])
    }

    @Test func checklist_140_validateIsSkippedOnDelete_andHoldsForEveryOtherWrite() throws {
        let peer = try Peer(server(#"{".read":true,".write":true,"n":{".validate":"newData.isNumber()"}}"#))
        try peer.put("/n", "1")
        #expect(try peer.put("/n", #""x""#) == [Self.denied])
        #expect(try peer.merge("/", #"{"n":"x"}"#) == [Self.denied])
        #expect(try peer.put("/", #"{"n":"x"}"#) == [Self.denied])
        #expect(try peer.put("/n", #""x""#, if: Node.int(1).hash) == [Self.denied])
        #expect(try peer.ask("o", #"{"p":"/n","d":"x"}"#) == [Self.denied])
        #expect(try peer.ask("om", #"{"p":"/","d":{"n":"x"}}"#) == [Self.denied])
        #expect(try peer.put("/n", #"{".sv":{"increment":1}}"#) == ["ok \"\""])
        #expect(try peer.put("/n", "null") == ["ok \"\""])
    }
}
