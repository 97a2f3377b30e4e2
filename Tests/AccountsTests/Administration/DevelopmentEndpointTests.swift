import HTTPTypes
import JSONTree
import Testing
import TestSupport

@testable import Accounts

/// Endpoints of a development hub for test suites (accounts contract §11).
@Suite(.timeLimit(.minutes(30))) struct DevelopmentEndpointTests {
    @Test func check77_emptiedHub_keepsTheCodes() async throws {
        let bench = try AccountBench { $0.isDev = true }
        let (uid, session) = try await bench.newUser("ana@example.org")
        let (other, _) = try await bench.newUser("bo@example.org")
        try await bench.asClient("sendOobCode", ["requestType": "PASSWORD_RESET", "email": "ana@example.org"])
        try await bench.asClient(
            "sendOobCode", ["requestType": "EMAIL_SIGNIN", "email": "new@example.org", "continueUrl": "http://localhost/x"])
        let before = try await bench.development(.get, "oobCodes")
        #expect(before["oobCodes"]?.elements?.count == 2)
        #expect(try await bench.development(.delete, "accounts") == [:])
        #expect(Set(bench.changes.all) == [AccountChange(uid, .deleted), AccountChange(other, .deleted)])
        await #expect(throws: Refusal("USER_NOT_FOUND")) { try await bench.refreshed(session) }
        #expect(try await bench.development(.get, "oobCodes") == before)
        // The reset belongs to a deleted account, although another user has its address now.
        try await bench.newUser("ana@example.org")
        let reset = try #require(before["oobCodes"]?.elements?.first?["oobCode"])
        await #expect(throws: Refusal("INVALID_OOB_CODE")) {
            try await bench.asClient("resetPassword", ["oobCode": reset, "newPassword": "battery staple"])
        }
    }

    @Test func check77_pendingCodes_areListed_theOldestFirst() async throws {
        let bench = try AccountBench { $0.isDev = true }
        func codes() async throws -> [JSONValue] { try #require(try await bench.development(.get, "oobCodes")["oobCodes"]?.elements) }
        #expect(try await codes() == [])
        let (_, session) = try await bench.newUser("ana@example.org")
        let token = session["idToken"] ?? .null
        try await bench.asClient("sendOobCode", ["requestType": "VERIFY_EMAIL", "idToken": token])
        try await bench.asClient("sendOobCode", ["requestType": "PASSWORD_RESET", "email": "ana@example.org"])
        try await bench.asClient("sendOobCode", ["requestType": "VERIFY_AND_CHANGE_EMAIL", "idToken": token, "newEmail": "new@example.org"])
        let all = try await codes()
        #expect(all.map { $0["requestType"] } == ["VERIFY_EMAIL", "PASSWORD_RESET", "VERIFY_AND_CHANGE_EMAIL"])
        for code in all {
            #expect(code["email"] == "ana@example.org")
            #expect(try #require(code["oobLink"]?.string).contains("oobCode=\(try #require(code["oobCode"]?.string))"))
        }
        #expect(all.map { $0["newEmail"] } == [nil, nil, "new@example.org"])
        // Checking a code does not use it up, applying it does, and a new code invalidates the previous one.
        try await bench.asClient("resetPassword", ["oobCode": all[0]["oobCode"] ?? .null])
        #expect(try await codes() == all)
        try await bench.asClient("update", ["oobCode": all[0]["oobCode"] ?? .null])
        #expect(try await codes() == [all[1], all[2]])
        try await bench.asClient("sendOobCode", ["requestType": "PASSWORD_RESET", "email": "ana@example.org"])
        let latest = try await codes()
        #expect(latest.map { $0["requestType"] } == ["VERIFY_AND_CHANGE_EMAIL", "PASSWORD_RESET"])
        #expect(latest[1] != all[1])
        bench.clock.advance(seconds: Int64(bench.service.settings.resetCodeSeconds))
        #expect(try await codes() == [all[2]])
    }

    @Test func codesOfADeletedAccount_areListedNoMore() async throws {
        let bench = try AccountBench { $0.isDev = true }
        let (uid, _) = try await bench.newUser("ana@example.org")
        try await bench.asClient("sendOobCode", ["requestType": "PASSWORD_RESET", "email": "ana@example.org"])
        try await bench.administrate("accounts:delete", ["localId": .string(uid)])
        #expect(try await bench.development(.get, "oobCodes") == ["oobCodes": []])
    }

    @Test func check77_configuration_isMerged() async throws {
        let bench = try AccountBench { $0.isDev = true }
        func config(_ hides: Bool) -> JSONValue {
            ["signIn": ["allowDuplicateEmails": false], "emailPrivacyConfig": ["enableImprovedEmailPrivacy": .bool(hides)]]
        }
        let unknown: JSONValue = ["email": "no@example.org", "password": "correct horse"]
        #expect(try await bench.development(.get, "config") == config(false))
        await #expect(throws: Refusal("EMAIL_NOT_FOUND")) { try await bench.asClient("signInWithPassword", unknown) }
        #expect(try await bench.development(.patch, "config", ["emailPrivacyConfig": ["enableImprovedEmailPrivacy": true]]) == config(true))
        #expect(try await bench.development(.patch, "config", ["signIn": ["allowDuplicateEmails": false]]) == config(true))
        #expect(try await bench.development(.get, "config") == config(true))
        await #expect(throws: Refusal("INVALID_LOGIN_CREDENTIALS")) { try await bench.asClient("signInWithPassword", unknown) }
        let refusal = await #expect(throws: Refusal.self) {
            try await bench.development(.patch, "config", ["signIn": ["allowDuplicateEmails": true]])
        }
        #expect(try #require(refusal?.message).hasPrefix("OPERATION_NOT_ALLOWED : "))
    }

    @Test func administratorsConfiguration_isReplacedByItsMask() async throws {
        let bench = try AccountBench { $0.isDev = true }
        let path = "identitytoolkit.googleapis.com/v2/projects/demo-app/config"
        let on: JSONValue = ["emailPrivacyConfig": ["enableImprovedEmailPrivacy": true]]
        func patch(_ mask: String, _ body: JSONValue) async throws -> JSONValue? {
            try await bench.exchange(
                .patch, path + mask, body, authorization: "Bearer owner")["emailPrivacyConfig"]?["enableImprovedEmailPrivacy"]
        }
        #expect(try await patch("?updateMask=emailPrivacyConfig.enableImprovedEmailPrivacy", on) == true)
        #expect(try await patch(
            "?updateMask=signIn.allowDuplicateEmails", ["emailPrivacyConfig": ["enableImprovedEmailPrivacy": false]]) == true)
        #expect(try await patch("", [:]) == false)
        #expect(try await patch("?updateMask=emailPrivacyConfig", on) == true)
        #expect(try await bench.exchange(.get, path, authorization: "Bearer owner")["signIn"] == ["allowDuplicateEmails": false])
        // A hub outside development mode is configured by its options only.
        let bare = try AccountBench()
        let refusal = await #expect(throws: Refusal.self) {
            try await bare.exchange(.patch, path, on, authorization: "Bearer \(AccountBench.administrator)")
        }
        #expect(refusal?.status == 405)
        #expect(try await bare.exchange(
            .get, path,
            authorization: "Bearer \(AccountBench.administrator)")["emailPrivacyConfig"] == ["enableImprovedEmailPrivacy": false])
    }
}
