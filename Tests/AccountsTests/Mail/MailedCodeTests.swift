import HTTPTypes
import Testing

@testable import Accounts

/// From an endpoint to a letter.
struct MailedCodeTests {
    @Test func check49_verification_isMailed_withACompleteLink() async throws {
        let bench = try AccountBench()
        let ana = try await bench.signUp("ana@example.org")
        let reply = try await bench.call("sendOobCode", ["requestType": "VERIFY_EMAIL", "idToken": ana["idToken"] ?? .null])
        #expect(reply.status == 200 && reply["email"]?.string == "ana@example.org" && reply["oobCode"] == nil)
        let letter = await bench.letters.next()
        #expect(letter.kind == .verifyEmail && letter.to.text == "ana@example.org" && letter.language == .english)
        let code = try #require(letter.code)
        #expect(code.utf8.count >= 40 && !reply.text.contains(code))
        #expect(letter.link == "https://hub.example.org/.account/action?mode=verifyEmail&oobCode=\(code)&apiKey=any&lang=en")
        let applied = try await bench.call("update", ["oobCode": .string(code)])
        #expect(applied.status == 200 && applied["emailVerified"]?.bool == true)
        #expect(bench.letters.count == 0)
    }

    @Test func mail_speaksTheClientsLanguage() async throws {
        let bench = try AccountBench()
        _ = try await bench.signUp("ana@example.org")
        let body: JSONValue = ["requestType": "PASSWORD_RESET", "email": "ana@example.org"]
        let reply = try await bench.ask("identitytoolkit.googleapis.com/v1/accounts:sendOobCode", body, fields: [.acceptLanguage: "el-GR,en;q=0.5"])
        #expect(reply.status == 200)
        let letter = await bench.letters.next()
        #expect(letter.language == .greek && letter.link?.hasSuffix("&lang=el") == true && letter.text.contains("1 ώρα"))
    }

    /// The change goes to the new address, the way back to the old one, and the way back works.
    @Test func change_isMailed_toBothAddresses() async throws {
        let bench = try AccountBench()
        let ana = try await bench.signUp("ana@example.org")
        try await bench.change(ana) { $0.isEmailVerified = true }
        _ = try await bench.call("sendOobCode", ["requestType": "VERIFY_AND_CHANGE_EMAIL", "idToken": ana["idToken"] ?? .null, "newEmail": "new@example.org"])
        let change = await bench.letters.next()
        #expect(change.kind == .verifyAndChangeEmail && change.to.text == "new@example.org" && change.text.contains("new@example.org"))
        #expect(!change.text.contains("ana@example.org"))
        #expect(try await bench.call("update", ["oobCode": .string(try #require(change.code))]).status == 200)
        let notice = await bench.letters.next()
        #expect(notice.kind == .recoverEmail && notice.to.text == "ana@example.org" && notice.text.contains("from ana@example.org to new@example.org"))
        #expect(notice.text.contains("14 days"))
        #expect(try await bench.call("update", ["oobCode": .string(try #require(notice.code))])["email"]?.string == "ana@example.org")
        #expect(await bench.letters.next().kind == .resetPassword)
    }

    @Test func reset_isAnnounced_toTheOwner() async throws {
        let bench = try AccountBench()
        _ = try await bench.signUp("ana@example.org")
        _ = try await bench.call("sendOobCode", ["requestType": "PASSWORD_RESET", "email": "ana@example.org"])
        let code = try #require(await bench.letters.next().code)
        #expect(try await bench.call("resetPassword", ["oobCode": .string(code), "newPassword": "battery staple"]).status == 200)
        let notice = await bench.letters.next()
        #expect(notice.kind == .passwordChanged && notice.link == nil && !notice.text.contains("battery"))
    }

    @Test func noMail_isSent_whereThereIsNoServer_orNoAddress() async throws {
        var settings = AccountSettings()
        settings.passwords = .quick
        settings.signingAlgorithm = .es256
        let service = try AccountService(settings, folder: nil, logger: LineLog().logger, now: { 0 })
        await #expect(throws: AccountError.self) { try await service.mailAddress("ana@example.org") }
        let bench = try AccountBench { $0.hidesAccounts = true }
        for email in ["άνα@example.org", "unknown@example.org"] {
            let reply = try await bench.call("sendOobCode", ["requestType": "PASSWORD_RESET", "email": .string(email)])
            #expect(reply.error == (email.hasPrefix("unknown") ? nil : "INVALID_EMAIL : No mail can be sent to this address"))
        }
        #expect(bench.letters.count == 0)
    }
}
