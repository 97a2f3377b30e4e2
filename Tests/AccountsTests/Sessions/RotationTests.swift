import Foundation
import HTTPTypes
import JSONTree
import Testing
import TestSupport

@testable import Accounts

/// Refresh tokens that are replaced at each use (RFC 9700 §4.14.2).
@Suite(.timeLimit(.minutes(30))) struct RotationTests {
    private func grant(_ bench: AccountBench, _ token: String?) async throws -> Reply {
        try await bench.ask(
            ".oauth/token", key: false, fields: [.contentType: "application/x-www-form-urlencoded"],
            raw: "grant_type=refresh_token&refresh_token=\(try #require(token))")
    }

    private func next(_ bench: AccountBench, _ token: String?) async throws -> String {
        let reply = try await grant(bench, token)
        #expect(reply.status == 200, "\(reply.text)")
        return try #require(reply["refresh_token"]?.string)
    }

    private func fault(_ reply: Reply) -> String { "\(reply.status) \(reply["error"]?.string ?? "-")" }

    @Test func eachUse_givesAnotherToken() async throws {
        let bench = try AccountBench()
        var token = try await bench.signUp("ana@x.org")["refreshToken"]?.string
        var all: Set = [token]
        for _ in 0..<20 {
            token = try await next(bench, token)
            all.insert(token)
            bench.clock.advance(seconds: 1800)
        }
        #expect(all.count == 21)
    }

    /// A lost answer, or tabs that refresh at the same time: each ends up with the current token.
    @Test func replacedToken_isTolerated_forAMinute() async throws {
        let bench = try AccountBench()
        let first = try await bench.signUp("ana@x.org")["refreshToken"]?.string
        let second = try await next(bench, first)
        bench.clock.advance(ms: 30_000)
        #expect(try await next(bench, first) == second)
        let third = try await next(bench, second)
        bench.clock.advance(ms: 30_000)
        for token in [first, second] { #expect(try await next(bench, token) == third) }
        bench.clock.advance(seconds: 86_400)
        #expect(try await grant(bench, third).status == 200)
    }

    @Test func replacedToken_endsItsSession_afterThat() async throws {
        let bench = try AccountBench()
        let (made, other) = (try await bench.signUp("ana@x.org"), try await bench.signIn("ana@x.org"))
        let first = made["refreshToken"]?.string
        let second = try await next(bench, first)
        bench.clock.advance(ms: 60_001)
        #expect(fault(try await grant(bench, first)) == "400 invalid_grant")
        #expect(fault(try await grant(bench, second)) == "400 invalid_grant", "one of the two was stolen")
        #expect(try await bench.call("lookup", ["idToken": made["idToken"] ?? .null]).error == "TOKEN_EXPIRED")
        let (uid, session) = (try #require(made["localId"]?.string), try #require(made.claims["sid"]?.string))
        #expect(bench.changes.all == [AccountChange(uid, .sessionEnded(session))])
        let event = try await bench.service.stored { try $0.audit(of: uid, limit: 1).first.map { "\($0.event) \($0.detail ?? "")" } }
        #expect(event == "session-ended a replaced refresh token was used")
        #expect(try await grant(bench, other["refreshToken"]?.string).status == 200)
    }

    @Test(arguments: [RefreshTokenRotation.oauth, .never, .all])
    func setting_saysWhereTokensAreReplaced(rotation: RefreshTokenRotation) async throws {
        let bench = try AccountBench { $0.refreshRotation = rotation }
        let made = try await bench.signUp("ana@x.org")
        let token = made["refreshToken"]?.string
        let reply = try await bench.refresh(token)
        #expect(reply.status == 200)
        #expect((reply["refresh_token"]?.string != token) == (rotation == .all))
        let second = reply["refresh_token"]?.string
        #expect((try await next(bench, second) != second) == (rotation != .never))
    }

    /// Without rotation, a token that another program has replaced is still recognised.
    @Test func tokenReplacedElsewhere_isNotTaken_whereTokensStay() async throws {
        let bench = try AccountBench()
        let first = try await bench.signUp("ana@x.org")["refreshToken"]?.string
        let second = try await next(bench, first)
        #expect(try await bench.refresh(first)["refresh_token"] == .string(second))
        bench.clock.advance(ms: 60_001)
        #expect(try await bench.refresh(second)["refresh_token"] == .string(second))
        #expect(try await bench.refresh(first).error == "TOKEN_EXPIRED")
        #expect(try await bench.refresh(second).error == "TOKEN_EXPIRED")
    }

    @Test func rotation_holdsAcrossARestart() async throws {
        let folder = try TemporaryFolder()
        let bench = try AccountBench(folder: folder.url.path)
        let first = try await bench.signUp("ana@x.org")["refreshToken"]?.string
        let second = try await next(bench, first)
        let again = try AccountBench(folder: folder.url.path, clock: bench.clock)
        #expect(try await next(again, first) == second)
        let third = try await next(again, second)
        bench.clock.advance(ms: 60_001)
        #expect(fault(try await grant(again, second)) == "400 invalid_grant")
        #expect(fault(try await grant(again, third)) == "400 invalid_grant")
    }

    /// Only the wall clock jumps: no minute has passed.
    @Test func clockThatJumpsAhead_endsNoSession() async throws {
        let bench = try AccountBench()
        let first = try await bench.signUp("ana@x.org")["refreshToken"]?.string
        let second = try await next(bench, first)
        bench.clock.step(seconds: 3600)
        #expect(try await next(bench, first) == second)
    }

    @Test func everyTokenOfASession_endsIt_whereItIsRevoked() async throws {
        let bench = try AccountBench()
        let first = try #require(try await bench.signUp("ana@x.org")["refreshToken"]?.string)
        let second = try await next(bench, first)
        #expect(try await bench.ask(
            ".oauth/revoke", key: false, fields: [.contentType: "application/x-www-form-urlencoded"], raw: "token=\(second)").status == 200)
        #expect(fault(try await grant(bench, second)) == "400 invalid_grant")
    }

    @Test func tokenOfADeletedUser_isStillKnownAsOne() async throws {
        let bench = try AccountBench { $0.refreshRotation = .all }
        let made = try await bench.signUp("ana@x.org")
        let second = try await bench.refresh(made["refreshToken"]?.string)
        #expect(try await bench.call("delete", ["idToken": second["id_token"] ?? .null]).status == 200)
        #expect(try await bench.refresh(second["refresh_token"]?.string).error == "USER_NOT_FOUND")
    }

    @Test func store_holdsNoTokenThatWasGivenOut() async throws {
        let bench = try AccountBench()
        let first = try #require(try await bench.signUp("ana@x.org")["refreshToken"]?.string)
        let second = try await next(bench, first)
        let parts = [first] + second.split(separator: ".").map(String.init)
        #expect(parts.count == 3 && parts[1] == first)
        let rows = try await bench.service.everyText()
        #expect(!rows.isEmpty && rows.allSatisfy { row in parts.allSatisfy { !row.contains($0) } })
    }

    /// A caller that guesses the second part must have had the first.
    @Test func unknownPart_isAReplacedOne() async throws {
        let bench = try AccountBench()
        let first = try #require(try await bench.signUp("ana@x.org")["refreshToken"]?.string)
        #expect(fault(try await grant(bench, "x" + first)) == "400 invalid_grant")
        #expect(try await bench.refresh(first).status == 200, "another session's, if any")
        #expect(fault(try await grant(bench, first + ".x")) == "400 invalid_grant")
        #expect(try await bench.refresh(first).error == "TOKEN_EXPIRED")
    }

    @Test func rotations_areReadAsTheyWereWritten() {
        var rotation = RefreshRotation()
        var token = RefreshToken("a-secret")
        for i in 0..<40 {
            token = rotation.replace(token, [UInt8](repeating: UInt8(i), count: RefreshRotation.saltBytes), at: Int64(i), since: 0)
            #expect(rotation.replaced.count == min(i + 1, RefreshRotation.most))
            #expect(RefreshRotation.decode(rotation.encoded) == rotation.replaced)
        }
        #expect(RefreshRotation.decode([1, 2, 3]) == [] && RefreshRotation.decode([]) == [])
    }
}
