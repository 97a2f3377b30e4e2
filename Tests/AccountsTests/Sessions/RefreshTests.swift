import GRDB
import HTTPTypes
import JSONTree
import Testing
import TestSupport

@testable import Accounts
@testable import Tokens

@Suite(.timeLimit(.minutes(30))) struct RefreshTests {
    @Test func check27_idToken_saysWhatTheContractSays() async throws {
        let bench = try AccountBench()
        let reply = try await bench.signUp("ana@x.org")
        let (claims, now) = (reply.claims, bench.clock.seconds)
        #expect(claims["iss"] == "https://securetoken.google.com/demo-app")
        #expect(claims["aud"] == "demo-app")
        #expect(claims["sub"] == reply["localId"] && claims["user_id"] == reply["localId"])
        #expect(claims["iat"] == .int(now) && claims["exp"] == .int(now + 3600) && claims["auth_time"] == .int(now))
        #expect(claims["firebase"]?["identities"] == ["email": ["ana@x.org"]])
    }

    @Test func check28_tokenThatIsNotOurs_isInvalid() async throws {
        let bench = try AccountBench()
        let token = try #require(try await bench.signUp("ana@x.org")["idToken"]?.string)
        let parts = token.split(separator: ".").map(String.init)
        let payload = String(decoding: Base64.decodeURL(parts[1]) ?? [], as: UTF8.self)
        let changed: String = Base64.encodeURL(payload.replacing("\"ana@", with: "\"eve@").utf8)
        let header = try JSONValue(Base64.decodeURL(parts[0]) ?? [])
        let kid = try #require(header["kid"]?.string)
        /// The token with another header.
        func under(_ header: String, signature: String) -> String {
            let text: String = Base64.encodeURL(header.utf8)
            return [text, parts[1], signature].joined(separator: ".")
        }
        var bad: [String] = ["x", [parts[0], parts[1]].joined(separator: "."), [parts[0], changed, parts[2]].joined(separator: ".")]
        bad.append(under(#"{"alg":"none","typ":"JWT"}"#, signature: ""))
        bad.append(under(#"{"alg":"none","typ":"JWT"}"#, signature: parts[2]))
        bad.append(under(#"{"alg":"ES256","kid":"other","typ":"JWT"}"#, signature: parts[2]))
        bad.append(under(#"{"alg":"HS256","kid":"\#(kid)","typ":"JWT"}"#, signature: parts[2]))
        bad.append(try bench.service.tokens.keys.sign(Array(payload.replacing("\"aud\":\"demo-app\"", with: "\"aud\":\"other\"").utf8)))
        bad.append(try bench.service.tokens.keys.sign(
            Array(payload.replacing("securetoken.google.com/demo-app", with: "securetoken.google.com/other").utf8)))
        for token in bad { #expect(try await bench.call("lookup", ["idToken": .string(token)]).error == "INVALID_ID_TOKEN") }
        #expect(try await bench.call("lookup", ["idToken": .string(try bench.service.tokens.keys.sign(Array(payload.utf8)))]).status == 200)
    }

    @Test(arguments: [
        #"{"grantType":"refresh_token","refreshToken":"R"}"#, #"{"grant_type":"refresh_token","refresh_token":"R"}"#,
        "grant_type=refresh_token&refresh_token=R",
        "refreshToken=R&grantType=refresh_token&code=x",
    ]) func check29_tokenEndpoint_takesAllSpellings(template: String) async throws {
        let bench = try AccountBench()
        let made = try await bench.signUp("ana@x.org")
        let refreshToken = try #require(made["refreshToken"]?.string)
        let type = template.hasPrefix("{") ? "application/json" : "application/x-www-form-urlencoded;charset=utf-8"
        let reply = try await bench.ask(
            "securetoken.googleapis.com/v1/token", fields: [.contentType: type],
            raw: template.replacing("\"R\"", with: "\"\(refreshToken)\"").replacing("=R", with: "=\(refreshToken)"))
        #expect(reply.status == 200, "\(reply.text)")
        #expect(reply["access_token"]?.string?.isEmpty == false && reply["access_token"] == reply["id_token"])
        #expect(reply["token_type"] == "Bearer" && reply["expires_in"] == "3600")
        #expect(reply["refresh_token"] == made["refreshToken"])
        #expect(reply["user_id"] == made["localId"])
        #expect(reply["project_id"]?.string != nil)
        #expect(try await bench.call("lookup", ["idToken": reply["id_token"] ?? .null]).status == 200)
    }

    @Test func check30_refresh_keepsTheSession_andPicksUpTheAccount() async throws {
        let bench = try AccountBench()
        let made = try await bench.signUp("ana@x.org")
        let start = bench.clock.seconds
        bench.clock.advance(seconds: 1000)
        try await bench.change(made) {
            $0.displayName = "Ana"
            $0.customClaims = #"{"role":"staff"}"#
        }
        let claims = Reply.claims(try await bench.refresh(made["refreshToken"]?.string)["id_token"])
        #expect(claims["auth_time"] == .int(start) && claims["iat"] == .int(start + 1000))
        #expect(claims["firebase"]?["sign_in_provider"] == "password")
        #expect(claims["name"] == "Ana" && claims["role"] == "staff")
    }

    @Test func refresh_writesNothing_ifRepeatedWithinAMinute() async throws {
        let bench = try AccountBench()
        let made = try await bench.signUp("ana@x.org")
        let (uid, start) = (try #require(made["localId"]?.string), bench.clock.ms)
        func noted() async throws -> [Int64?] {
            try await bench.service.stored { [try $0.sessions(of: uid).first?.lastUsedAt, try $0.account(.id(uid))?.lastRefreshAt] }
        }
        bench.clock.advance(seconds: 59)
        #expect(try await bench.refresh(made["refreshToken"]?.string).status == 200)
        #expect(try await noted() == [start, start])
        bench.clock.advance(seconds: 1)
        #expect(try await bench.refresh(made["refreshToken"]?.string).status == 200)
        #expect(try await noted() == [start + 60_000, start + 60_000])
        // From elsewhere, immediately: the user's list of devices must show that.
        bench.clock.advance(seconds: 1)
        let body: JSONValue = ["grantType": "refresh_token", "refreshToken": made["refreshToken"] ?? .null]
        #expect(try await bench.ask("securetoken.googleapis.com/v1/token", body, peer: "198.51.100.1").status == 200)
        #expect(try await noted() == [start + 61_000, start + 61_000])
        #expect(try await bench.service.stored { try $0.sessions(of: uid).first?.peer } == "198.51.100.1")
    }

    @Test func account_keepsItsNewestSessions() async throws {
        let bench = try AccountBench { $0.sessionsOfAccount = 3 }
        var made = [try await bench.signUp("ana@x.org")]
        for _ in 0..<3 {
            bench.clock.advance(seconds: 61)
            #expect(try await bench.refresh(made[0]["refreshToken"]?.string).status == 200)
            bench.clock.advance(seconds: 1)
            made.append(try await bench.signIn("ana@x.org"))
        }
        // The first was used after the second.
        #expect(try await bench.refresh(made[1]["refreshToken"]?.string).error == "TOKEN_EXPIRED")
        #expect(try await bench.call("lookup", ["idToken": made[1]["idToken"] ?? .null]).error == "TOKEN_EXPIRED")
        #expect(bench.changes.all.map(\.session) == [made[1].claims["sid"]?.string])
        for i in [0, 2, 3] { #expect(try await bench.refresh(made[i]["refreshToken"]?.string).status == 200) }
        for _ in 0..<10 { #expect(try await bench.signIn("ana@x.org").status == 200) }
        let rows = try await bench.service.stored {
            try Row.fetchOne($0.db, sql: "SELECT count(*), sum(ended) FROM session").map { [$0[0], $0[1]] as [Int] }
        }
        #expect(rows == [6, 3])
        #expect(try await bench.refresh(made[1]["refreshToken"]?.string).error == "INVALID_REFRESH_TOKEN")
    }

    @Test func check31_otherDevices_doNotMoveTheTimeOfSignIn() async throws {
        let bench = try AccountBench()
        let a = try await bench.signUp("ana@x.org")
        let start = bench.clock.seconds
        bench.clock.advance(seconds: 500)
        let b = try await bench.signIn("ana@x.org")
        #expect(b.claims["auth_time"] == .int(start + 500))
        #expect(Reply.claims(try await bench.refresh(a["refreshToken"]?.string)["id_token"])["auth_time"] == .int(start))
    }

    @Test(arguments: [
        ("{}", "MISSING_GRANT_TYPE"), (#"{"grantType":"password"}"#, "INVALID_GRANT_TYPE"),
        (#"{"grantType":"refresh_token"}"#, "MISSING_REFRESH_TOKEN"),
        (#"{"grantType":"refresh_token","refreshToken":"garbage"}"#, "INVALID_REFRESH_TOKEN"),
    ]) func check32_faultsOfTheTokenEndpoint_haveTheirCodes(body: String, error: String) async throws {
        let reply = try await AccountBench().ask("securetoken.googleapis.com/v1/token", raw: body)
        #expect(reply.status == 400 && reply.error == error)
    }

    @Test func check32_disabledAccount_refreshesNothing() async throws {
        let bench = try AccountBench()
        let made = try await bench.signUp("ana@x.org")
        try await bench.change(made) { $0.isDisabled = true }
        #expect(try await bench.refresh(made["refreshToken"]?.string).error == "USER_DISABLED")
        #expect(try await bench.call("lookup", ["idToken": made["idToken"] ?? .null]).error == "USER_DISABLED")
    }

    @Test func check33_revokedSession_isOver_andADeletedUserUnknown() async throws {
        let bench = try AccountBench()
        let made = try await bench.signUp("ana@x.org")
        let other = try await bench.signIn("ana@x.org")
        let changed = try await bench.call("update", ["idToken": other["idToken"] ?? .null, "password": "another horse"])
        #expect(changed.status == 200)
        for old in [made, other] { #expect(try await bench.refresh(old["refreshToken"]?.string).error == "TOKEN_EXPIRED") }
        #expect(try await bench.refresh(changed["refreshToken"]?.string).status == 200)
        #expect(try await bench.call("delete", ["idToken": changed["idToken"] ?? .null]).status == 200)
        for token in [made, other, changed] { #expect(try await bench.refresh(token["refreshToken"]?.string).error == "USER_NOT_FOUND") }
    }

    @Test func check34_tabs_mayRefreshAtOnce() async throws {
        let bench = try AccountBench()
        let token = try await bench.signUp("ana@x.org")["refreshToken"]?.string
        async let first = bench.refresh(token)
        async let second = bench.refresh(token)
        for reply in [try await first, try await second] {
            #expect(reply.status == 200)
            #expect(try await bench.refresh(reply["refresh_token"]?.string).status == 200)
        }
    }

    @Test func check35_revocation_isExact_withinASecond() async throws {
        let bench = try AccountBench()
        let made = try await bench.signUp("ana@x.org")
        let other = try await bench.signIn("ana@x.org")
        // All in one second.
        let reply = try await bench.call("update", ["idToken": other["idToken"] ?? .null, "validSince": "1"])
        for old in [made, other] { #expect(try await bench.call("lookup", ["idToken": old["idToken"] ?? .null]).error == "TOKEN_EXPIRED") }
        #expect(try await bench.call("lookup", ["idToken": reply["idToken"] ?? .null]).status == 200)
        #expect(try await bench.user(reply)["validSince"] == .string(String(bench.clock.seconds)))
        #expect(bench.changes.all.map(\.kind) == [.revoked])
    }

    @Test func check36_store_holdsNoUsableSecret() async throws {
        let bench = try AccountBench()
        let made = try await bench.signUp("ana@x.org")
        let refreshToken = try #require(made["refreshToken"]?.string)
        let kept = try await bench.service.stored { try $0.session(tokenHash: SecretHash.of(refreshToken)) }
        #expect(kept?.hasEnded == false)
        #expect(try await bench.service.everyText().allSatisfy { !$0.contains(refreshToken) && !$0.contains("correct horse") })
        let hash = try await bench.service.stored { try $0.account(.email("ana@x.org"))?.passwordHash }
        #expect(hash?.hasPrefix("$scrypt$") == true)
    }

    @Test func idleSession_isOverAfterItsDays() async throws {
        let bench = try AccountBench { $0.idleDays = 10 }
        let made = try await bench.signUp("ana@x.org")
        for _ in 0..<3 {
            bench.clock.advance(seconds: 10 * 86_400)
            #expect(try await bench.refresh(made["refreshToken"]?.string).status == 200)
        }
        bench.clock.advance(seconds: 10 * 86_400 + 1)
        #expect(try await bench.refresh(made["refreshToken"]?.string).error == "TOKEN_EXPIRED")
    }

    @Test func idTokenPastItsEndAndLeeway_isInvalid() async throws {
        let bench = try AccountBench()
        let made = try await bench.signUp("ana@x.org")
        bench.clock.advance(seconds: 3600 + 299)
        #expect(try await bench.call("lookup", ["idToken": made["idToken"] ?? .null]).status == 200)
        bench.clock.advance(seconds: 1)
        #expect(try await bench.call("lookup", ["idToken": made["idToken"] ?? .null]).error == "INVALID_ID_TOKEN")
    }
}

extension AccountService {
    /// All text in all tables.
    func everyText() throws -> [String] {
        try store.database.read { db in
            let tables = try String.fetchAll(db, sql: "SELECT name FROM sqlite_master WHERE type = 'table'")
            return try tables.flatMap { try Row.fetchAll(db, sql: "SELECT * FROM \($0)").map { "\($0)" } }
        }
    }
}
