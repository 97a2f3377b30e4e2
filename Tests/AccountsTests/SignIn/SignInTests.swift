import GRDB
import JSONTree
import Testing
import TestSupport

@testable import Accounts

@Suite(.timeLimit(.minutes(30))) struct SignInTests {
    @Test func check22_rightPassword_signsIn() async throws {
        let bench = try AccountBench()
        let made = try await bench.signUp("ana@x.org", "Correct Horse")
        bench.clock.advance(seconds: 60)
        let reply = try await bench.signIn("ANA@x.org", "Correct Horse")
        #expect(reply["kind"] == "identitytoolkit#VerifyPasswordResponse")
        #expect(reply["registered"] == true)
        #expect(reply["localId"] == made["localId"])
        #expect(reply.claims["firebase"]?["sign_in_provider"] == "password")
        #expect(try await bench.user(reply)["lastLoginAt"] == .string(String(bench.clock.ms)))
        #expect(try await bench.signIn("ana@x.org", "correct horse").error == "INVALID_PASSWORD")
    }

    @Test func password_isTheSameInBothUnicodeForms() async throws {
        let bench = try AccountBench()
        _ = try await bench.signUp("ana@x.org", "caf\u{E9} caf\u{E9}")
        #expect(try await bench.signIn("ana@x.org", "cafe\u{301} cafe\u{301}").status == 200)
    }

    @Test func check23_unknownAndWrong_lookTheSame() async throws {
        let hidden = try AccountBench { $0.hidesAccounts = true }
        _ = try await hidden.signUp("ana@x.org")
        let (wrong, unknown) = (try await hidden.signIn("ana@x.org", "wrong"), try await hidden.signIn("bob@x.org", "wrong"))
        #expect(wrong.status == 400 && wrong.error == "INVALID_LOGIN_CREDENTIALS")
        #expect(wrong.text == unknown.text)
        #expect(wrong.fields == unknown.fields)
        let open = try AccountBench()
        _ = try await open.signUp("ana@x.org")
        #expect(try await open.signIn("ana@x.org", "wrong").error == "INVALID_PASSWORD")
        #expect(try await open.signIn("bob@x.org", "wrong").error == "EMAIL_NOT_FOUND")
    }

    @Test func check23_both_writeAsMuch() async throws {
        let bench = try AccountBench { $0.hidesAccounts = true }
        _ = try await bench.signUp("ana@x.org")
        var changes: [Int] = []
        for email in ["ana@x.org", "bob@x.org"] {
            let before = try await bench.service.writes()
            _ = try await bench.signIn(email, "wrong")
            changes.append(try await bench.service.writes() - before)
        }
        #expect(changes[0] == changes[1])
    }

    @Test func addresses_cannotBeTriedWithoutEnd() async throws {
        let bench = try AccountBench { $0.throttle.isOn = true }
        _ = try await bench.signUp("ana@x.org")
        for _ in 0..<99 {
            #expect(try await bench.call("signUp", ["email": "ana@x.org", "password": "correct horse"]).error == "EMAIL_EXISTS")
        }
        #expect(try await bench.call(
            "signUp", ["email": "ana@x.org", "password": "correct horse"]).error?.hasPrefix("TOO_MANY_ATTEMPTS_TRY_LATER") == true)
    }

    @Test func check24_disabledAccount_isReportedToItsOwnerOnly() async throws {
        let bench = try AccountBench()
        let made = try await bench.signUp("ana@x.org")
        try await bench.change(made) { $0.isDisabled = true }
        #expect(try await bench.signIn("ana@x.org").error == "USER_DISABLED")
        #expect(try await bench.signIn("ana@x.org", "wrong").error == "INVALID_PASSWORD")
    }

    @Test(arguments: [
        (#"{"password":"x"}"#, "MISSING_EMAIL"), (#"{"email":"","password":"x"}"#, "INVALID_EMAIL"),
        (#"{"email":"a@x.org"}"#, "MISSING_PASSWORD"),
        (#"{"email":"a@x.org","password":""}"#, "MISSING_PASSWORD"),
        (#"{"email":7,"password":"x"}"#, "Invalid JSON payload received. Invalid value at 'email': a string is expected."),
    ]) func incompleteCredentials_areNamed(body: String, error: String) async throws {
        let reply = try await AccountBench().ask("identitytoolkit.googleapis.com/v1/accounts:signInWithPassword", raw: body)
        #expect(reply.status == 400 && reply.error == error)
    }

    @Test func check25_tooManyFailures_lockThePassword_andNotTheSession() async throws {
        let bench = try AccountBench { $0.throttle.isOn = true }
        let made = try await bench.signUp("ana@x.org")
        for _ in 0..<6 { _ = try await bench.signIn("ana@x.org", "wrong") }
        let locked = try await bench.signIn("ana@x.org")
        #expect(locked.status == 400 && locked.error?.hasPrefix("TOO_MANY_ATTEMPTS_TRY_LATER : ") == true)
        #expect(try await bench.call("lookup", ["idToken": made["idToken"] ?? .null]).status == 200)
        #expect(try await bench.refresh(made["refreshToken"]?.string).status == 200)
        bench.clock.advance(seconds: 3600)
        #expect(try await bench.signIn("ana@x.org").status == 200)
    }

    @Test func check37_outdatedHash_signsIn_andIsReplaced() async throws {
        let bench = try AccountBench { $0.passwords.scrypt = ScryptParameters(ln: 5, r: 8, p: 1) ?? .standard }
        let made = try await bench.signUp("ana@x.org")
        let weak = try await PasswordHasher(.quick).hash("correct horse")
        try await bench.change(made) { $0.passwordHash = weak }
        #expect(try await bench.signIn("ana@x.org").status == 200)
        let hash = try await bench.service.stored { try $0.account(.email("ana@x.org"))?.passwordHash }
        #expect(hash != weak && hash?.hasPrefix("$scrypt$ln=5,") == true)
        #expect(try await bench.signIn("ana@x.org").status == 200)
    }
}

extension AccountService {
    /// The number of rows changed so far.
    fileprivate func writes() throws -> Int { try store.database.read { $0.totalChangesCount } }
}
