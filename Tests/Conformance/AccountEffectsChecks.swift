import Dispatch
import DispatchNet
import HubEngine
import JSONTree
import Scheduling
import TestHub
import Testing
import TestSupport
import Tokens

@testable import Accounts
@testable import HubServer

/// The effects of account changes on connected clients (accounts contract §15).
@Suite(.timeLimit(.minutes(30))) struct AccountEffectsChecks {
    private static let revoked = #"ac {"s":"expired_token","d":"Auth token is expired."}"#

    /// Accepts the subject of any signed token.
    private static func identity(_ token: String) -> Result<Identity, Failure> {
        guard let claims = TokenParts.claims(of: token) else { return .failure(Credentials.badToken) }
        return .success(Identity(auth: ["uid": claims.child("sub"), "provider": "password", "token": claims]))
    }

    private func server(
        gate: Gate? = nil, clock: FakeClock? = nil, _ configure: (inout ServerSettings) -> Void = { _ in }
    ) throws -> TestServer {
        try TestServer(scheduler: clock?.scheduler ?? .system()) {
            $0.accounts = .quick
            $0.tokens = ManualVerifier(gate: gate, Self.identity)
            configure(&$0)
        }
    }

    /// Announces a change as the service does after a transaction, and returns when every lane has handled it.
    private func change(_ server: TestServer, _ uid: String, _ kind: AccountChange.Kind, by author: String? = nil) throws {
        let accounts = try #require(server.server.accounts)
        let told = DispatchSemaphore(value: 0)
        accounts.perform { accounts in
            accounts.announce(AccountChange(uid, kind, by: author))
            told.signal()
        }
        told.wait()
        _ = server.server.signIns()
    }

    private func signIn(_ peer: Peer, _ uid: String, session: String? = nil) throws {
        #expect(try peer.ask("auth", #"{"cred":"\#(Token.signed(uid, session: session))"}"#).last?.hasPrefix("ok") == true)
    }

    @Test func changedAccount_losesItsSessions_inEveryNamespaceAndProtocol_andNobodyElseDoes() throws {
        for kind in [AccountChange.Kind.disabled, .deleted, .revoked, .claimsChanged] {
            let server = try server()
            let (ana, elsewhere, bo) = (try Peer(server), try Peer(server, "v=5&ns=other"), try Peer(server))
            let polling = try LongPollPeer(server)
            let stream = try RESTPeer(server)
            let observer = try TestSocket(port: server.port)
            try signIn(ana, "ana")
            try signIn(elsewhere, "ana")
            try signIn(bo, "bo")
            try polling.poll(#"{"t":"d","d":{"r":1,"a":"auth","b":{"cred":"\#(Token.signed("ana"))"}}}"#)
            #expect(try polling.messages(1).last?.node(at: "d/b/s") == "ok")
            try stream.stream("/a.json?auth=\(Token.signed("ana"))")
            #expect(try stream.event() == #"put {"path":"/","data":null}"#)
            try observer.upgrade("/.observe?ns=test")
            try observer.sendText(#"{"id":1,"op":"auth","token":"\#(Token.signed("ana"))"}"#)
            #expect(try observer.text().contains(#""uid":"ana""#))

            try polling.hold()
            try change(server, "ana", kind)
            #expect(try ana.line() == Self.revoked && elsewhere.line() == Self.revoked)
            _ = try (ana.socket.closeCode(), elsewhere.socket.closeCode())
            while polling.closed == nil { try polling.poll() }
            #expect(polling.heard.last?.node(at: "d/a") == "ac")
            #expect(try stream.event() == "auth_revoked credential is no longer valid")
            #expect(try stream.event() == nil)
            #expect(try observer.text().contains("invalid_token"))
            #expect(try observer.closeCode() == 3000, "Unauthorized")
            #expect(try bo.put("/b", "1") == ["ok \"\""])
        }
    }

    @Test func endedSession_endsItsOwnConnectionsOnly() throws {
        let server = try server()
        let (one, two) = (try Peer(server), try Peer(server))
        try signIn(one, "ana", session: "s1")
        try signIn(two, "ana", session: "s2")
        try change(server, "ana", .sessionEnded("s1"))
        #expect(try one.line() == Self.revoked)
        #expect(try two.put("/a", "1") == ["ok \"\""])
    }

    /// The answer to the change contains fresh tokens, or the client gets them in a moment. Asked to sign in earlier, the SDK would use ended ones
    /// and sign the user out.
    @Test func sessionThatMadeTheChange_goesOnForAMoment() throws {
        let clock = FakeClock()
        let server = try server(clock: clock)
        let (one, again, two) = (try Peer(server), try Peer(server), try Peer(server))
        let stream = try RESTPeer(server)
        try signIn(one, "ana", session: "s1")
        try signIn(again, "ana", session: "s1")
        try signIn(two, "ana", session: "s2")
        try stream.stream("/a.json?auth=\(Token.signed("ana", session: "s1"))")
        #expect(try stream.event() == #"put {"path":"/","data":null}"#)
        try change(server, "ana", .revoked, by: "s1")
        #expect(try two.line() == Self.revoked, "others are out at once")
        clock.advance(seconds: 9)
        #expect(try one.put("/b", "1") == ["ok \"\""])
        try signIn(again, "ana", session: "s3")
        clock.advance(seconds: 2)
        #expect(try one.line() == Self.revoked)
        #expect(try stream.event() == "auth_revoked credential is no longer valid")
        clock.advance(seconds: 100)
        #expect(try again.put("/b", "2") == ["ok \"\""], "it has signed in anew")
    }

    /// A wall clock that is set back must not extend an ended session.
    @Test func momentOfTheSessionThatMadeTheChange_isNoLonger_whenTheWallClockIsSetBack() throws {
        let clock = FakeClock()
        let server = try server(clock: clock)
        let (peer, stream) = (try Peer(server), try RESTPeer(server))
        try signIn(peer, "ana", session: "s1")
        try stream.stream("/a.json?auth=\(Token.signed("ana", session: "s1"))")
        #expect(try stream.event() == #"put {"path":"/","data":null}"#)
        try change(server, "ana", .revoked, by: "s1")
        clock.step(seconds: -3600)
        clock.advance(seconds: 11)
        #expect(try peer.line() == Self.revoked)
        #expect(try stream.event() == "auth_revoked credential is no longer valid")
    }

    /// The session that made the change reconnects meanwhile: if it were refused, its SDK would use ended tokens and sign its user out.
    @Test func changeByTheSessionItself_duringItsCheck_letsItRunOut() throws {
        let (gate, clock) = (Gate(), FakeClock())
        let server = try server(gate: gate, clock: clock)
        let (peer, other, stream) = (try Peer(server), try Peer(server), try RESTPeer(server))
        _ = try peer.send("auth", #"{"cred":"\#(Token.signed("ana", session: "s1"))"}"#)
        _ = try other.send("auth", #"{"cred":"\#(Token.signed("ana", session: "s2"))"}"#)
        try stream.send("GET", "/a.json?auth=\(Token.signed("ana", session: "s1"))", "", ["Accept: text/event-stream"])
        #expect(becomes { server.server.signIns() >= 3 })
        try change(server, "ana", .revoked, by: "s1")
        gate.open()
        #expect(try peer.line().hasPrefix("ok"))
        #expect(try other.line() == "expired_token Auth token is expired.")
        #expect(try stream.socket.head().status == 200)
        #expect(try stream.event() == #"put {"path":"/","data":null}"#)
        clock.advance(seconds: 11)
        #expect(try peer.line() == Self.revoked)
        #expect(try stream.event() == "auth_revoked credential is no longer valid")
    }

    /// Any other change of the account ends it immediately.
    @Test func sessionThatMadeTheChange_isRevokedWithTheAccount() throws {
        let server = try server(clock: FakeClock())
        let peer = try Peer(server)
        try signIn(peer, "ana", session: "s1")
        try change(server, "ana", .revoked, by: "s1")
        try change(server, "ana", .disabled)
        #expect(try peer.line() == Self.revoked)
        #expect(server.server.signIns() == 0)
    }

    @Test func signedOutOrChangedClient_isNotAffected() throws {
        let server = try server()
        let (out, other) = (try Peer(server), try Peer(server))
        try signIn(out, "ana")
        #expect(try out.ask("unauth", "{}") == ["ok \"\""])
        try signIn(other, "ana")
        try signIn(other, "bo")
        try change(server, "ana", .disabled)
        #expect(try out.put("/a", "1") == ["ok \"\""] && other.put("/b", "1") == ["ok \"\""])
        try change(server, "bo", .disabled)
        #expect(try other.line() == Self.revoked)
    }

    /// The check started before the change and answers after it, so it may have read the old state.
    @Test func changeDuringACheck_isNotMissed() throws {
        let gate = Gate()
        let server = try server(gate: gate)
        let (peer, stream) = (try Peer(server), try RESTPeer(server))
        let asked = try peer.send("auth", #"{"cred":"\#(Token.signed("ana"))"}"#)
        try stream.send("GET", "/a.json?auth=\(Token.signed("ana"))", "", ["Accept: text/event-stream"])
        #expect(asked == 1)
        // Both have started: they are registered before they are checked.
        #expect(becomes { server.server.signIns() >= 2 })
        try change(server, "ana", .disabled)
        gate.open()
        #expect(try peer.line() == "expired_token Auth token is expired.")
        #expect(try stream.socket.response().status == 401)
        #expect(server.server.signIns() == 0)
    }

    @Test func signIns_areForgottenWithTheirConnections() throws {
        let server = try server()
        do {
            let (peer, stream) = (try Peer(server), try RESTPeer(server))
            try signIn(peer, "ana")
            try signIn(peer, "ana")
            try stream.stream("/a.json?auth=\(Token.signed("bo"))")
            #expect(try stream.event() != nil)
            #expect(try stream.socket.server?.metric(#"vigla_sessions{protocol="stream"}"#) == 1)
            #expect(server.server.signIns() == 2)
        }
        #expect(becomes { server.server.signIns() == 0 })
    }
}

extension AccountSettings {
    /// With an algorithm whose keys are generated quickly.
    static var quick: AccountSettings {
        var settings = AccountSettings()
        settings.signingAlgorithm = .es256
        return settings
    }
}

extension Server {
    /// The number of sign-ins of all lanes, after all earlier notifications.
    func signIns() -> Int {
        lanes.reduce(0) { sum, lane in
            let counted = Handover<Int>()
            lane.loop.execute { counted.put(lane.signIns.count) }
            return sum + counted.wait()
        }
    }
}
