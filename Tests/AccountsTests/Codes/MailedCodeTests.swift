import HTTPTypes
import JSONTree
import Testing
import TestSupport
import WireProtocols

@testable import Accounts
@testable import Mail
@testable import Tokens

/// From an endpoint to a mail.
@Suite(.timeLimit(.minutes(30))) struct MailedCodeTests {
    @Test func check49_verification_isMailed_withACompleteLink() async throws {
        let bench = try AccountBench()
        let ana = try await bench.signUp("ana@example.org")
        let reply = try await bench.call("sendOobCode", ["requestType": "VERIFY_EMAIL", "idToken": ana["idToken"] ?? .null])
        #expect(reply.status == 200 && reply["email"]?.string == "ana@example.org" && reply["oobCode"] == nil)
        let message = await bench.mailbox.next()
        #expect(message.kind == .verifyEmail && message.to.text == "ana@example.org" && message.language == "en")
        let code = try #require(message.code)
        #expect(code.utf8.count >= 40 && !reply.text.contains(code))
        #expect(message.link == "https://hub.example.org/.account/action?mode=verifyEmail&oobCode=\(code)&apiKey=any&lang=en")
        let applied = try await bench.call("update", ["oobCode": .string(code)])
        #expect(applied.status == 200 && applied["emailVerified"]?.bool == true)
        #expect(bench.mailbox.count == 0)
    }

    @Test func mail_speaksTheClientsLanguage() async throws {
        let bench = try AccountBench()
        _ = try await bench.signUp("ana@example.org")
        let body: JSONValue = ["requestType": "PASSWORD_RESET", "email": "ana@example.org"]
        let reply = try await bench.ask(
            "identitytoolkit.googleapis.com/v1/accounts:sendOobCode", body, fields: [.acceptLanguage: "el-GR,en;q=0.5"])
        #expect(reply.status == 200)
        let message = await bench.mailbox.next()
        #expect(message.language == "el" && message.link?.hasSuffix("&lang=el") == true && message.text.contains("1 ώρα"))
    }

    /// The change is mailed to the new address, the undo to the old one, and the undo works.
    @Test func change_isMailed_toBothAddresses() async throws {
        let bench = try AccountBench()
        let ana = try await bench.signUp("ana@example.org")
        try await bench.change(ana) { $0.isEmailVerified = true }
        _ = try await bench.call(
            "sendOobCode", ["requestType": "VERIFY_AND_CHANGE_EMAIL", "idToken": ana["idToken"] ?? .null, "newEmail": "new@example.org"])
        let change = await bench.mailbox.next()
        #expect(change.kind == .verifyAndChangeEmail && change.to.text == "new@example.org" && change.text.contains("new@example.org"))
        #expect(!change.text.contains("ana@example.org"))
        #expect(try await bench.call("update", ["oobCode": .string(try #require(change.code))]).status == 200)
        let notice = await bench.mailbox.next()
        #expect(
            notice.kind == .recoverEmail && notice.to.text == "ana@example.org"
            && notice.text.contains("from ana@example.org to new@example.org"))
        #expect(notice.text.contains("14 days"))
        #expect(try await bench.call("update", ["oobCode": .string(try #require(notice.code))])["email"]?.string == "ana@example.org")
        #expect(await bench.mailbox.next().kind == .resetPassword)
    }

    @Test func reset_isAnnounced_toTheOwner() async throws {
        let bench = try AccountBench()
        _ = try await bench.signUp("ana@example.org")
        _ = try await bench.call("sendOobCode", ["requestType": "PASSWORD_RESET", "email": "ana@example.org"])
        let code = try #require(await bench.mailbox.next().code)
        #expect(try await bench.call("resetPassword", ["oobCode": .string(code), "newPassword": "battery staple"]).status == 200)
        let notice = await bench.mailbox.next()
        #expect(notice.kind == .passwordChanged && notice.link == nil && !notice.text.contains("battery"))
    }

    @Test func noMail_isSent_whereThereIsNoServer_orNoAddress() async throws {
        var settings = AccountSettings()
        settings.passwords = .quick
        settings.signingAlgorithm = .es256
        let service = try AccountService(settings, folder: nil, logger: LineLog().logger, scheduler: FakeClock(ms: 0).scheduler)
        #expect(throws: AccountError.self) { try service.mail.address("ana@example.org") }
        let bench = try AccountBench { $0.hidesAccounts = true }
        for email in ["άνα@example.org", "unknown@example.org"] {
            let reply = try await bench.call("sendOobCode", ["requestType": "PASSWORD_RESET", "email": .string(email)])
            #expect(reply.error == (email.hasPrefix("unknown") ? nil : "INVALID_EMAIL : No mail can be sent to this address"))
        }
        #expect(bench.mailbox.count == 0)
    }

    /// The most verbose log of mail, pages, passwords and throttling.
    @Test func check80_log_holdsNoSecret() async throws {
        var settings = AccountSettings()
        settings.passwords = .quick
        settings.signingAlgorithm = .es256
        settings.publicURL = "https://hub.example.org"
        settings.hidesAccounts = false
        settings.mail.mailer.waitsMs = [3_600_000_000]
        let log = LineLog()
        let mailbox = Mailbox()
        let service = try AccountService(
            settings, folder: nil, logger: log.logger, scheduler: FakeClock().scheduler, transport: RejectingTransport(mailbox))
        func ask(_ path: String, _ body: String, form: Bool = false) async throws -> AccountAnswer {
            let type = form ? "application/x-www-form-urlencoded" : "application/json"
            let request = HTTPInboundRequest(
                method: .post, target: try HTTPTarget(path), fields: [.contentType: type], body: Array(body.utf8))
            return await service.answer(request, peer: "192.0.2.7")
        }
        let accounts = "/identitytoolkit.googleapis.com/v1/accounts"
        _ = try await ask("\(accounts):signUp?key=k", #"{"email":"ana@example.org","password":"pa55-first"}"#)
        for _ in 0..<7 {
            _ = try await ask("\(accounts):signInWithPassword?key=k", #"{"email":"ana@example.org","password":"pa55-wrong"}"#)
        }
        _ = try await ask("\(accounts):sendOobCode?key=k", #"{"requestType":"PASSWORD_RESET","email":"ana@example.org"}"#)
        let code = try #require(await mailbox.next().code)
        for password in ["pa5", "pa55-second"] {
            _ = try await ask("/.account/action", "mode=resetPassword&oobCode=\(code)&apiKey=k&newPassword=\(password)", form: true)
        }
        _ = await mailbox.next()
        // The second message's error is logged when its transport has returned.
        #expect(await becomes { log.all.count >= 2 })
        #expect(
            try await ask("\(accounts):signInWithPassword?key=k", #"{"email":"ana@example.org","password":"pa55-second"}"#).status == .ok)
        for line in log.all {
            #expect(!line.contains(code) && !line.contains("pa5") && !line.contains("ana@") && !line.contains("oobCode"), "\(line)")
        }
        try await service.close()
    }

    /// Refuses every message, but shows it.
    private struct RejectingTransport: MailTransport {
        let mailbox: Mailbox

        init(_ mailbox: Mailbox) { self.mailbox = mailbox }

        func deliver(_ message: Message) async throws(MailFault) {
            try await mailbox.deliver(message)
            throw .never("mail server: it does not want it")
        }
    }
}
