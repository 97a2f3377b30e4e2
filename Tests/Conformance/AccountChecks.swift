import Accounts
import HubServer
import JSONTree
import SecurityRules
import TestHub
import Testing

/// Accounts and the database together: real tokens on real sockets (accounts contract §15).
@Suite(.timeLimit(.minutes(30))) struct AccountChecks {
    private static let revoked = #"ac {"s":"expired_token","d":"Auth token is expired."}"#

    private func server() throws -> TestServer {
        let rules = try RuleSet(parsing: #"{"rules":{"users":{"$u":{".read":"auth.uid == $u",".write":"auth.uid == $u"}},"#
            + #""news":{".read":true,".write":"auth.token.role == 'staff'"}}}"#)
        return try TestServer {
            $0.accounts = .quick
            $0.accounts?.passwords.minLength = 6
            $0.accounts?.recentLoginSeconds = 0
            $0.rules = rules
        }
    }

    private func ask(
        _ server: TestServer, _ target: String, _ body: String, admin: Bool = false, type: String = "application/json"
    ) throws -> (status: Int, body: RawObject) {
        let socket = try TestSocket(port: server.port)
        let field = admin ? "Authorization: Bearer owner\r\n" : ""
        try socket.send("POST \(target)?key=k HTTP/1.1\r\nHost: localhost\r\nContent-Type: \(type)\r\n\(field)Content-Length: "
            + "\(body.utf8.count)\r\n\r\n\(body)")
        let answer = try socket.response()
        return (answer.status, try RawObject(answer.body))
    }

    private struct Device {
        let uid: String
        let idToken: String
        let refreshToken: String
    }

    private func guest(_ server: TestServer) throws -> Device {
        let (status, body) = try ask(server, "/identitytoolkit.googleapis.com/v1/accounts:signUp", "{}")
        #expect(status == 200)
        return Device(
            uid: try #require(body["localId"]).string, idToken: try #require(body["idToken"]).string,
            refreshToken: try #require(body["refreshToken"]).string)
    }

    private func refresh(_ server: TestServer, _ device: Device) throws -> (status: Int, body: RawObject) {
        try ask(
            server, "/securetoken.googleapis.com/v1/token", "grant_type=refresh_token&refresh_token=\(device.refreshToken)",
            type: "application/x-www-form-urlencoded")
    }

    private func error(_ answer: (status: Int, body: RawObject)) throws -> String {
        let error = try #require(answer.body["error"]).object()
        return try #require(error["message"]).string
    }

    private func update(_ server: TestServer, _ members: String) throws {
        let (status, _) = try ask(
            server, "/identitytoolkit.googleapis.com/v1/projects/default/accounts:update", "{\(members)}", admin: true)
        #expect(status == 200)
    }

    private func signIn(_ peer: Peer, _ token: String) throws -> String {
        try #require(try peer.ask("auth", #"{"cred":"\#(token)"}"#).last)
    }

    @Test func rulesSeeTheAccount_onSocketsAndOverREST() throws {
        let server = try server()
        let (ana, bo) = (try guest(server), try guest(server))
        let peer = try Peer(server)
        let answer = try signIn(peer, ana.idToken)
        #expect(answer.contains(#""uid":"\#(ana.uid)""#) && answer.contains(#""provider":"anonymous""#))
        #expect(try peer.put("/users/\(ana.uid)", "1") == ["ok \"\""])
        #expect(try peer.put("/users/\(bo.uid)", "1")[0].hasPrefix("permission_denied"))
        let rest = try RESTPeer(server)
        for credential in ["auth=\(ana.idToken)", "access_token=\(ana.idToken)"] {
            #expect(try rest.get("/users/\(ana.uid).json?\(credential)") == "200 1")
            #expect(try rest.get("/users/\(bo.uid).json?\(credential)").hasPrefix("401"))
        }
        #expect(try rest.get("/users/\(ana.uid).json", ["Authorization: Bearer \(ana.idToken)"]) == "200 1")
    }

    /// Signed by an issuer that this hub does not trust.
    @Test func check28_tokensOfOthers_areRefused() throws {
        let server = try server()
        let ana = try guest(server)
        let parts = ana.idToken.split(separator: ".")
        let peer = try Peer(server)
        for bad in [
            Token.signed("ana"), "\(parts[0]).\(parts[1]).AAAA", "\(parts[0]).\(Token.signed("x").split(separator: ".")[1]).\(parts[2])",
        ] {
            #expect(try signIn(peer, bad) == "invalid_token Could not parse auth token.")
            #expect(try RESTPeer(server).get("/users/\(ana.uid).json?auth=\(bad)").hasPrefix("401"))
        }
        let production = try TestServer {
            $0.accounts = .quick
            $0.isDev = false
            $0.namespace = "test"
        }
        #expect(try signIn(Peer(production), Token.mock("ana")) == "invalid_token Could not parse auth token.", "unsigned")
    }

    @Test func check73_revokedSessions_loseTheirConnectionsAndTheirTokens() throws {
        let server = try server()
        let device = try guest(server)
        let peer = try Peer(server)
        #expect(try signIn(peer, device.idToken).hasPrefix("ok"))
        try update(server, #""localId":"\#(device.uid)","validSince":\#(Int64.max / 1_000_000_000)"#)
        #expect(try peer.line() == Self.revoked)
        #expect(try error(refresh(server, device)) == "TOKEN_EXPIRED")
        #expect(try signIn(Peer(server), device.idToken).hasPrefix("expired_token"))
    }

    @Test func guestWhoLinksAnAddress_hasTimeToUseTheFreshTokens() throws {
        let server = try server()
        let device = try guest(server)
        let (peer, other) = (try Peer(server), try Peer(server))
        #expect(try signIn(peer, device.idToken).hasPrefix("ok"))
        let (_, again) = try ask(
            server, "/securetoken.googleapis.com/v1/token", "grant_type=refresh_token&refresh_token=\(device.refreshToken)",
            type: "application/x-www-form-urlencoded")
        #expect(try signIn(other, try #require(again["id_token"]).string).hasPrefix("ok"))
        let (status, body) = try ask(
            server, "/identitytoolkit.googleapis.com/v1/accounts:signUp",
            #"{"idToken":"\#(device.idToken)","email":"ana@x.org","password":"correct horse","returnSecureToken":true}"#)
        #expect(status == 200)
        #expect(try error(refresh(server, device)) == "TOKEN_EXPIRED")
        #expect(try signIn(Peer(server), device.idToken).hasPrefix("expired_token"))
        #expect(try peer.ask("auth", #"{"cred":"\#(try #require(body["idToken"]).string)"}"#).last?.hasPrefix("ok") == true)
        #expect(try other.put("/users/\(device.uid)/a", "1") == ["ok \"\""], "a moment longer")
        #expect(try peer.put("/users/\(device.uid)/a", "2") == ["ok \"\""])
    }

    @Test func check74_disabledAccounts_loseTheirConnections_untilTheyAreEnabled() throws {
        let server = try server()
        let device = try guest(server)
        let (peer, stream) = (try Peer(server), try RESTPeer(server))
        #expect(try signIn(peer, device.idToken).hasPrefix("ok"))
        try stream.stream("/users/\(device.uid).json?auth=\(device.idToken)")
        #expect(try stream.event() != nil)
        try update(server, #""localId":"\#(device.uid)","disableUser":true"#)
        #expect(try peer.line() == Self.revoked)
        #expect(try stream.event() == "auth_revoked credential is no longer valid")
        #expect(try error(refresh(server, device)) == "USER_DISABLED")
        #expect(try signIn(Peer(server), device.idToken).hasPrefix("expired_token"))
        try update(server, #""localId":"\#(device.uid)","disableUser":false"#)
        #expect(try refresh(server, device).status == 200)
    }

    @Test func changedClaims_countAtOnce_withAFreshToken() throws {
        let server = try server()
        let device = try guest(server)
        let peer = try Peer(server)
        #expect(try signIn(peer, device.idToken).hasPrefix("ok"))
        #expect(try peer.put("/news", "1")[0].hasPrefix("permission_denied"))
        try update(server, #""localId":"\#(device.uid)","customAttributes":"{\"role\":\"staff\"}""#)
        #expect(try peer.line() == Self.revoked)
        let refreshed = try refresh(server, device).body
        let fresh = try #require(refreshed["access_token"]).string
        let next = try Peer(server)
        #expect(try signIn(next, fresh).hasPrefix("ok"))
        #expect(try next.put("/news", "1") == ["ok \"\""])
    }

    /// From the moment the change is answered, for every way to the data; a token issued in that second is accepted.
    @Test(arguments: ["claims", "disabled"]) func tokenFromBeforeAChange_isRefused_everywhere(change: String) throws {
        let server = try server()
        let device = try guest(server)
        try update(server, #""localId":"\#(device.uid)","customAttributes":"{\"role\":\"staff\"}""#)
        let staff = try #require(try refresh(server, device).body["access_token"]).string
        let rest = try RESTPeer(server)
        #expect(try rest.get("/users/\(device.uid).json?auth=\(staff)").hasPrefix("200"))
        if change == "claims" {
            try update(server, #""localId":"\#(device.uid)","customAttributes":"{}""#)
        } else {
            for flag in [true, false] { try update(server, #""localId":"\#(device.uid)","disableUser":\#(flag)"#) }
        }
        let fresh = try #require(try refresh(server, device).body["access_token"]).string

        for (token, isTaken) in [(staff, false), (fresh, true)] {
            let status = isTaken ? "200" : "401"
            #expect(try rest.put("/users/\(device.uid).json?auth=\(token)", "1").hasPrefix(status))
            #expect(try rest.put("/users/\(device.uid).json", "1", ["Authorization: Bearer \(token)"]).hasPrefix(status))
            #expect(try rest.get("/users/\(device.uid).json?access_token=\(token)").hasPrefix(status))
            #expect(try signIn(Peer(server), token).hasPrefix(isTaken ? "ok" : "expired_token"))
            let polling = try LongPollPeer(server)
            try polling.poll(#"{"t":"d","d":{"r":1,"a":"auth","b":{"cred":"\#(token)"}}}"#)
            #expect(try polling.messages(1).last?.node(at: "d/b/s") == (isTaken ? "ok" : "expired_token"))
            let observer = try TestSocket(port: server.port)
            try observer.upgrade("/.observe?ns=test")
            try observer.sendText(#"{"id":1,"op":"auth","token":"\#(token)"}"#)
            let answer = try observer.text()
            #expect(answer.contains(isTaken ? #""uid":"\#(device.uid)""# : #""error":{"code":""#), "\(answer)")
            let stream = try RESTPeer(server)
            if isTaken {
                try stream.stream("/users/\(device.uid).json?auth=\(token)")
                #expect(try stream.event()?.hasPrefix("put") == true)
            } else {
                #expect(try stream.get("/users/\(device.uid).json?auth=\(token)", ["Accept: text/event-stream"]).hasPrefix("401"))
            }
        }
    }
}
