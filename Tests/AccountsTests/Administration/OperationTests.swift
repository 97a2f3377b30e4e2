import HTTPTypes
import JSONTree
import Testing
import TestSupport

@testable import Accounts

/// Operations of `vigla user` and `vigla token`.
@Suite(.timeLimit(.minutes(30))) struct OperationTests {
    private func operate(
        _ bench: AccountBench, _ name: String, _ body: JSONValue, bearer: String? = AccountBench.administrator
    ) async throws -> Reply {
        try await bench.ask(".account/admin/\(name)", body, key: false, fields: bearer.map { [.authorization: "Bearer \($0)"] } ?? [:])
    }

    @Test func operations_areForAdministrators() async throws {
        let bench = try AccountBench()
        for name in ["find", "alias", "sessions", "end-session", "mint", "rotate-key"] {
            #expect(try await operate(bench, name, ["user": "ana@x.org"], bearer: nil).status == 401)
            #expect(try await operate(bench, name, ["user": "ana@x.org"], bearer: "owner").status == 401)
            #expect(try await bench.ask(".account/admin/\(name)", ["user": "ana@x.org"]).status == 401, "with a key")
        }
    }

    @Test func account_isFound_byIDAddressAndAlias() async throws {
        let bench = try AccountBench()
        let made = try await bench.signUp("ana@x.org")
        #expect(try await operate(bench, "alias", ["user": "ana@x.org", "alias": "Ana.K"]).status == 200)
        for name in [try #require(made["localId"]?.string), "ana@x.org", "ANA@x.org", "ana.k", "ANA.K"] {
            let found = try await operate(bench, "find", ["user": .string(name)])
            #expect(found["user"]?["localId"] == made["localId"] && found["alias"] == "ana.k", "\(name): \(found.text)")
        }
        #expect(try await operate(bench, "find", ["user": "bo"]).error == "USER_NOT_FOUND")
        #expect(try await operate(bench, "find", [:]).error == "MISSING_IDENTIFIER")
    }

    @Test func alias_isOfOneAccount_andNoAddress() async throws {
        let bench = try AccountBench()
        _ = try await bench.signUp("ana@x.org")
        _ = try await bench.signUp("bo@x.org")
        #expect(try await operate(bench, "alias", ["user": "ana@x.org", "alias": "ana"]).status == 200)
        #expect(try await operate(bench, "alias", ["user": "ana@x.org", "alias": "ana"]).status == 200)
        #expect(try await operate(bench, "alias", ["user": "bo@x.org", "alias": "ANA"]).error == "ALIAS_EXISTS")
        for bad in ["a@b", "a b", "é", String(repeating: "a", count: 65)] {
            #expect(
                try await operate(bench, "alias", ["user": "bo@x.org", "alias": .string(bad)]).error?.hasPrefix("INVALID_ALIAS") == true,
                "\(bad)")
        }
        #expect(try await operate(bench, "alias", ["user": "bo@x.org", "alias": .string(String(repeating: "a", count: 64))]).status == 200)
        #expect(try await operate(bench, "alias", ["user": "ana", "alias": .null]).status == 200)
        #expect(try await operate(bench, "find", ["user": "ana"]).error == "USER_NOT_FOUND")
    }

    @Test func sessions_areListed_andEnded() async throws {
        let bench = try AccountBench()
        let one = try await bench.signUp("ana@x.org")
        bench.clock.advance(seconds: 10)
        let two = try await bench.signIn("ana@x.org")
        let sessions = try await operate(bench, "sessions", ["user": "ana@x.org"])
        let listed = try #require(sessions["sessions"]?.elements)
        #expect(listed.map { $0["id"] } == [two.claims["sid"], one.claims["sid"]], "the last used first")
        #expect(listed[0]["provider"] == "password" && listed[0]["peer"] == "192.0.2.7")
        #expect(try await operate(bench, "end-session", ["user": "ana@x.org", "session": one.claims["sid"] ?? .null])["ended"] == 1)
        #expect(try await bench.refresh(one["refreshToken"]?.string).error == "TOKEN_EXPIRED")
        #expect(try await bench.refresh(two["refreshToken"]?.string).status == 200)
        let (uid, session) = (try #require(one["localId"]?.string), try #require(one.claims["sid"]?.string))
        #expect(bench.changes.all == [AccountChange(uid, .sessionEnded(session))])
        #expect(try await operate(
            bench, "end-session", ["user": "ana@x.org", "session": one.claims["sid"] ?? .null]).error == "SESSION_NOT_FOUND")
        #expect(try await operate(bench, "end-session", ["user": "ana@x.org"])["ended"] == 1)
        #expect(try await bench.refresh(two["refreshToken"]?.string).error == "TOKEN_EXPIRED")
        #expect(try await operate(bench, "sessions", ["user": "ana@x.org"])["sessions"] == [])
    }

    @Test func mintedToken_isAsGoodAsAny_andListed() async throws {
        let bench = try AccountBench()
        let made = try await bench.signUp("ana@x.org")
        let minted = try await operate(bench, "mint", ["user": "ana@x.org"])
        #expect(minted.claims["sub"] == made["localId"] && minted.claims["firebase"]?["sign_in_provider"] == "custom")
        #expect(try await bench.user(minted)["localId"] == made["localId"])
        #expect(try await operate(bench, "sessions", ["user": "ana@x.org"])["sessions"]?.elements?.count == 2)
        try await bench.change(made) { $0.isDisabled = true }
        #expect(try await operate(bench, "mint", ["user": "ana@x.org"]).error == "USER_DISABLED")
    }

    @Test func rotatedKey_signs_andTheOlderVerifiesUntilItIsEnded() async throws {
        let bench = try AccountBench()
        let made = try await bench.signUp("ana@x.org")
        let rotated = try await operate(bench, "rotate-key", [:])
        let first = try #require(rotated["kid"]?.string)
        #expect(bench.service.signingKeyID == first)
        #expect(try await bench.call("lookup", ["idToken": made["idToken"] ?? .null]).status == 200)
        #expect(try await operate(bench, "rotate-key", ["endOlder": true])["kid"]?.string != first)
        #expect(try await bench.call("lookup", ["idToken": made["idToken"] ?? .null]).error == "INVALID_ID_TOKEN")
        #expect(try await bench.refresh(made["refreshToken"]?.string).status == 200, "nobody is signed out")
    }
}
