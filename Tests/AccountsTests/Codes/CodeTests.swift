import JSONTree
import Testing
import TestSupport

@testable import Accounts
@testable import Mail

@Suite(.timeLimit(.minutes(30))) struct CodeTests {
    @Test func check50_address_isVerifiedOnce() async throws {
        let bench = try AccountBench()
        let made = try await bench.signUp("ana@x.org")
        let code = try await bench.code("VERIFY_EMAIL", "ana@x.org")
        let reply = try await bench.call("update", ["oobCode": .string(code)])
        #expect(reply.status == 200 && reply["emailVerified"] == true && reply["idToken"] == nil && reply["localId"] == made["localId"])
        #expect(try await bench.user(made)["emailVerified"] == true)
        #expect(try await bench.call("update", ["oobCode": .string(code)]).error == "INVALID_OOB_CODE")
    }

    @Test(
        arguments: [("PASSWORD_RESET", 3600), ("VERIFY_EMAIL", 3 * 86_400), ("EMAIL_SIGNIN", 3600)]
    ) func check50_codes_end(type: String, seconds: Int64) async throws {
        let bench = try AccountBench()
        _ = try await bench.signUp("ana@x.org")
        let code = try await bench.code(type, "ana@x.org")
        bench.clock.advance(seconds: seconds - 1)
        #expect(try await bench.call("resetPassword", ["oobCode": .string(code)]).status == 200)
        bench.clock.advance(seconds: 1)
        #expect(try await bench.call("resetPassword", ["oobCode": .string(code)]).error == "EXPIRED_OOB_CODE")
        #expect(try await bench.call("resetPassword", ["oobCode": .string(code + "x")]).error == "INVALID_OOB_CODE")
        if type == "VERIFY_EMAIL" { #expect(try await bench.call("update", ["oobCode": .string(code)]).error == "EXPIRED_OOB_CODE") }
    }

    @Test func check51_peek_usesNothingUp() async throws {
        let bench = try AccountBench()
        _ = try await bench.signUp("ana@x.org")
        for type in ["PASSWORD_RESET", "VERIFY_EMAIL", "EMAIL_SIGNIN"] {
            let code = try await bench.code(type, "ana@x.org")
            for _ in 0..<2 {
                let reply = try await bench.call("resetPassword", ["oobCode": .string(code)])
                #expect(reply["requestType"] == .string(type))
                #expect(reply["email"] == (type == "EMAIL_SIGNIN" ? nil : "ana@x.org"))
            }
        }
        let change = try await bench.code("VERIFY_AND_CHANGE_EMAIL", "ana@x.org", newEmail: "new@x.org")
        #expect(try await bench.call("resetPassword", ["oobCode": .string(change)])["newEmail"] == "new@x.org")
        #expect(try await bench.call("resetPassword").error == "MISSING_OOB_CODE")
    }

    @Test func check52_reset_setsThePassword_andEndsAllSessions() async throws {
        let bench = try AccountBench()
        let made = try await bench.signUp("ana@x.org")
        let code = try await bench.code("PASSWORD_RESET", "ana@x.org")
        #expect(try await bench.call(
            "resetPassword", ["oobCode": .string(code), "newPassword": "short"]).error?.hasPrefix("WEAK_PASSWORD : ") == true)
        let reply = try await bench.call("resetPassword", ["oobCode": .string(code), "newPassword": "another horse"])
        #expect(reply.status == 200 && reply["email"] == "ana@x.org" && reply["requestType"] == "PASSWORD_RESET" && reply["idToken"] == nil)
        #expect(try await bench.refresh(made["refreshToken"]?.string).error == "TOKEN_EXPIRED")
        #expect(try await bench.signIn("ana@x.org").error == "INVALID_PASSWORD")
        let user = try await bench.user(try await bench.signIn("ana@x.org", "another horse"))
        #expect(user["emailVerified"] == true)
        #expect(try await bench.call("resetPassword", ["oobCode": .string(code), "newPassword": "third horse"]).error == "INVALID_OOB_CODE")
        let other = try await bench.code("VERIFY_EMAIL", "ana@x.org")
        #expect(
            try await bench.call("resetPassword", ["oobCode": .string(other), "newPassword": "third horse"]).error == "INVALID_OOB_CODE")
        let reset = try await bench.code("PASSWORD_RESET", "ana@x.org")
        #expect(try await bench.call("update", ["oobCode": .string(reset)]).error == "INVALID_OOB_CODE")
    }

    @Test(arguments: [true, false]) func reset_dropsOtherServicesOfAnUnverifiedAddressOnly(isVerified: Bool) async throws {
        let bench = try AccountBench()
        let made = try await bench.signUp("ana@x.org")
        try await bench.change(made) {
            $0.isEmailVerified = isVerified
            $0.providers = [LinkedProvider(id: "google.com", rawID: "1099")]
        }
        _ = try await bench.call(
            "resetPassword", ["oobCode": .string(try await bench.code("PASSWORD_RESET", "ana@x.org")), "newPassword": "another horse"])
        let user = try await bench.user(try await bench.signIn("ana@x.org", "another horse"))
        #expect(user["providerUserInfo"]?.elements?.count == (isVerified ? 2 : 1))
    }

    @Test func check25_reset_liftsTheLock() async throws {
        let bench = try AccountBench { $0.throttle.isOn = true }
        _ = try await bench.signUp("ana@x.org")
        for _ in 0..<6 { _ = try await bench.signIn("ana@x.org", "wrong") }
        #expect(try await bench.signIn("ana@x.org").error?.hasPrefix("TOO_MANY_ATTEMPTS_TRY_LATER") == true)
        let code = try await bench.code("PASSWORD_RESET", "ana@x.org")
        #expect(try await bench.call("resetPassword", ["oobCode": .string(code), "newPassword": "another horse"]).status == 200)
        #expect(try await bench.signIn("ana@x.org", "another horse").status == 200)
    }

    @Test func triesOfCodes_areCounted() async throws {
        let bench = try AccountBench { $0.throttle.isOn = true }
        for _ in 0..<10 { #expect(try await bench.call("resetPassword", ["oobCode": "x"]).error == "INVALID_OOB_CODE") }
        #expect(try await bench.call("resetPassword", ["oobCode": "x"]).error?.hasPrefix("TOO_MANY_ATTEMPTS_TRY_LATER : ") == true)
    }

    @Test func check53_unknownAddress_getsNoMail_andNobodyIsNotified() async throws {
        let body: JSONValue = ["requestType": "PASSWORD_RESET", "email": "bob@x.org"]
        let hidden = try AccountBench { $0.hidesAccounts = true }
        _ = try await hidden.signUp("ana@x.org")
        let unknown = try await hidden.call("sendOobCode", body)
        #expect(unknown.status == 200 && unknown["email"] == "bob@x.org")
        let known = try await hidden.call("sendOobCode", ["requestType": "PASSWORD_RESET", "email": "ana@x.org"])
        #expect(known.text == unknown.text.replacing("bob", with: "ana"))
        // Messages arrive in order: the only one is hers.
        #expect(await hidden.mailbox.next().to.text == "ana@x.org")
        #expect(hidden.mailbox.count == 0)
        #expect(try await AccountBench().call("sendOobCode", body).error == "EMAIL_NOT_FOUND")
    }

    @Test func changeToATakenAddress_isSilent_whenAccountsAreHidden() async throws {
        for hides in [true, false] {
            let bench = try AccountBench { $0.hidesAccounts = hides }
            _ = try await bench.signUp("bob@x.org")
            let made = try await bench.signUp("ana@x.org")
            let body: JSONValue = ["requestType": "VERIFY_AND_CHANGE_EMAIL", "idToken": made["idToken"] ?? .null, "newEmail": "bob@x.org"]
            let reply = try await bench.call("sendOobCode", body)
            #expect(reply.error == (hides ? nil : "EMAIL_EXISTS"))
            let uid = try #require(made["localId"]?.string)
            #expect(try await bench.service.stored { try $0.codes(of: uid) }.isEmpty)
        }
    }

    @Test func thief_hasNoWayBack() async throws {
        let bench = try AccountBench()
        let made = try await bench.signUp("ana@x.org")
        try await bench.change(made) { $0.isEmailVerified = true }
        let first = try await bench.call("update", ["idToken": made["idToken"] ?? .null, "email": "thief@x.org"])
        _ = try await bench.call("update", ["idToken": first["idToken"] ?? .null, "email": "thief2@x.org"])
        let uid = try #require(made["localId"]?.string)
        let codes = try await bench.service.stored { try $0.codes(of: uid) }.filter { $0.kind == .recoverEmail }
        #expect(codes.map(\.email) == ["ana@x.org"])
        let code = try #require(await bench.mailbox.next().code)
        #expect(try await bench.call("update", ["oobCode": .string(code)])["email"] == "ana@x.org")
        #expect(try await bench.service.stored { try $0.codes(of: uid) }.map(\.kind) == [.resetPassword])
    }

    @Test func check54_links_areForAdministrators() async throws {
        let bench = try AccountBench()
        _ = try await bench.signUp("ana@x.org")
        let body: JSONValue = ["requestType": "PASSWORD_RESET", "email": "ana@x.org", "returnOobLink": true]
        #expect(try await bench.call("sendOobCode", body).error == "INSUFFICIENT_PERMISSION")
        let reply = try await bench.administer("sendOobCode", body)
        let code = try #require(reply["oobCode"]?.string)
        #expect(code.utf8.count >= 43)
        #expect(
            reply["oobLink"]?.string == "https://hub.example.org/.account/action?mode=resetPassword&oobCode=\(code)&apiKey=default&lang=en")
        #expect(try await bench.administer(
            "sendOobCode", ["requestType": "VERIFY_EMAIL", "email": "bob@x.org", "returnOobLink": true]).error == "USER_NOT_FOUND")
        #expect(try await bench.administer(
            "sendOobCode", ["requestType": "PASSWORD_RESET", "email": "bob@x.org", "returnOobLink": true]).error == "EMAIL_NOT_FOUND")
    }

    @Test(arguments: [
        ("/relative", "INVALID_CONTINUE_URI"), ("localhost/a", "INVALID_CONTINUE_URI"), ("javascript:alert(1)", "INVALID_CONTINUE_URI"),
        ("https://localhost@evil.example/", "INVALID_CONTINUE_URI"), (#"https://evil.example\@localhost"#, "INVALID_CONTINUE_URI"),
        ("https:///localhost", "INVALID_CONTINUE_URI"), ("//localhost", "INVALID_CONTINUE_URI"),
        ("https://localhost:80a/", "INVALID_CONTINUE_URI"),
        ("https://evil.example/?localhost", "UNAUTHORIZED_DOMAIN"), ("https://localhost.evil.example", "UNAUTHORIZED_DOMAIN"),
        ("http://LOCALHOST:5000/a?b=c#d", nil), ("https://127.0.0.1", nil),
    ] as [(String, String?)]) func check55_links_continueToAllowedHostsOnly(url: String, error: String?) async throws {
        let bench = try AccountBench { $0.continueHosts = ["localhost", "127.0.0.1"] }
        _ = try await bench.signUp("ana@x.org")
        let reply = try await bench.administer(
            "sendOobCode", ["requestType": 1, "email": "ana@x.org", "returnOobLink": true, "continueUrl": .string(url)])
        #expect(reply.error?.split(separator: " ").first.map(String.init) == error)
        if error == nil { #expect(reply["oobLink"]?.string?.hasSuffix("&continueUrl=" + QueryText.encode(url)) == true) }
    }

    @Test(arguments: [true, false]) func check55_links_continueToThisMachine_inDevelopmentOnly(isDev: Bool) async throws {
        let bench = try AccountBench { $0.isDev = isDev }
        _ = try await bench.signUp("ana@x.org")
        let body: JSONValue = ["requestType": 1, "email": "ana@x.org", "returnOobLink": true, "continueUrl": "http://localhost:5000/a"]
        let error = try await bench.administer("sendOobCode", body).error?.split(separator: " ").first
        #expect(error == (isDev ? nil : "UNAUTHORIZED_DOMAIN"))
    }

    @Test func check57_changeOfAddress_isProvenFirst() async throws {
        let bench = try AccountBench()
        let made = try await bench.signUp("ana@x.org")
        let code = try await bench.code("VERIFY_AND_CHANGE_EMAIL", "ana@x.org", newEmail: "New@x.org")
        let taken = try await bench.code("VERIFY_AND_CHANGE_EMAIL", "ana@x.org", newEmail: "bob@x.org")
        #expect(try await bench.call("update", ["oobCode": .string(code)]).error == "INVALID_OOB_CODE")
        _ = try await bench.signUp("bob@x.org")
        #expect(try await bench.call("update", ["oobCode": .string(taken)]).error == "EMAIL_EXISTS")
        let third = try await bench.code("VERIFY_AND_CHANGE_EMAIL", "ana@x.org", newEmail: "New@x.org")
        let reply = try await bench.call("update", ["oobCode": .string(third)])
        #expect(
            reply["newEmail"] == "new@x.org" && reply["email"] == "new@x.org" && reply["emailVerified"] == true && reply["idToken"] == nil)
        #expect(try await bench.refresh(made["refreshToken"]?.string).error == "TOKEN_EXPIRED")
        #expect(try await bench.signIn("new@x.org")["localId"] == made["localId"])
    }

    @Test func recovery_bringsTheFirstAddressBack() async throws {
        let bench = try AccountBench { $0.isDev = true }
        let made = try await bench.signUp("ana@x.org")
        let taken = try await bench.call("update", ["idToken": made["idToken"] ?? .null, "email": "thief@x.org"])
        let code = try #require(await bench.service.knownCodes.all.last { $0.code.kind == .recoverEmail }?.secret)
        #expect(try await bench.call("resetPassword", ["oobCode": .string(code)])["email"] == "ana@x.org")
        let reply = try await bench.call("update", ["oobCode": .string(code)])
        #expect(reply["email"] == "ana@x.org" && reply["emailVerified"] == true)
        #expect(try await bench.refresh(taken["refreshToken"]?.string).error == "TOKEN_EXPIRED")
        // In case the thief has changed the password.
        let reset = try #require(await bench.service.knownCodes.all.last)
        #expect(reset.code.kind == .resetPassword)
        #expect(try await bench.signIn("ana@x.org").error == "INVALID_PASSWORD")
        #expect(try await bench.call("resetPassword", ["oobCode": .string(reset.secret), "newPassword": "another horse"]).status == 200)
        #expect(try await bench.signIn("ana@x.org", "another horse")["localId"] == made["localId"])
    }

    @Test func revocation_voidsAnEarlierChangeOfAddress() async throws {
        let bench = try AccountBench()
        _ = try await bench.signUp("ana@x.org")
        let thief = try await bench.code("VERIFY_AND_CHANGE_EMAIL", "ana@x.org", newEmail: "thief@x.org")
        let reset = try await bench.code("PASSWORD_RESET", "ana@x.org")
        #expect(try await bench.call("resetPassword", ["oobCode": .string(reset), "newPassword": "another horse"]).status == 200)
        #expect(try await bench.call("update", ["oobCode": .string(thief)]).error == "INVALID_OOB_CODE")
    }

    @Test func check58_mailedLink_createsAndFindsAccounts() async throws {
        let bench = try AccountBench()
        let code = try await bench.code("EMAIL_SIGNIN", "ana@x.org")
        let wrong = try await bench.call("signInWithEmailLink", ["email": "bob@x.org", "oobCode": .string(code)])
        #expect(wrong.error?.hasPrefix("INVALID_EMAIL : ") == true)
        let first = try await bench.call("signInWithEmailLink", ["email": "Ana@x.org", "oobCode": .string(code)])
        #expect(first["kind"] == "identitytoolkit#EmailLinkSigninResponse" && first["isNewUser"] == true && first["email"] == "ana@x.org")
        #expect(first.claims["firebase"]?["sign_in_provider"] == "password" && first.claims["email_verified"] == true)
        #expect(try await bench.user(first)["providerUserInfo"]?.elements?.map { $0["providerId"] } == ["password"])
        #expect(try await bench.call("signInWithEmailLink", ["email": "ana@x.org", "oobCode": .string(code)]).error == "INVALID_OOB_CODE")
        let again = try await bench.code("EMAIL_SIGNIN", "ana@x.org")
        let second = try await bench.call("signInWithEmailLink", ["email": "ana@x.org", "oobCode": .string(again)])
        #expect(second["isNewUser"] == false && second["localId"] == first["localId"])
    }

    @Test func check58_linkOfAnUnverifiedAccount_throwsItsMakerOut() async throws {
        let bench = try AccountBench()
        let maker = try await bench.signUp("ana@x.org")
        let code = try await bench.code("EMAIL_SIGNIN", "ana@x.org")
        let owner = try await bench.call("signInWithEmailLink", ["email": "ana@x.org", "oobCode": .string(code)])
        #expect(owner["localId"] == maker["localId"])
        #expect(try await bench.refresh(maker["refreshToken"]?.string).error == "TOKEN_EXPIRED")
        #expect(try await bench.signIn("ana@x.org").error == "INVALID_PASSWORD")
    }

    @Test func check58_guest_isLinkedByMail_andTheDisabledStayOut() async throws {
        let bench = try AccountBench()
        let guest = try await bench.signUp()
        let code = try await bench.code("EMAIL_SIGNIN", "ana@x.org")
        let body: JSONValue = ["email": "ana@x.org", "oobCode": .string(code), "idToken": guest["idToken"] ?? .null]
        let linked = try await bench.call("signInWithEmailLink", body)
        #expect(linked["localId"] == guest["localId"] && linked.claims["email_verified"] == true)
        let other = try await bench.signUp()
        let second = try await bench.code("EMAIL_SIGNIN", "ana@x.org")
        let taken = try await bench.call(
            "signInWithEmailLink", ["email": "ana@x.org", "oobCode": .string(second), "idToken": other["idToken"] ?? .null])
        #expect(taken.error == "EMAIL_EXISTS")
        try await bench.change(linked) { $0.isDisabled = true }
        #expect(try await bench.call("signInWithEmailLink", ["email": "ana@x.org", "oobCode": .string(second)]).error == "USER_DISABLED")
    }

    @Test func check59_codes_goWithTheAccount_andWithTheAddress() async throws {
        let bench = try AccountBench()
        let made = try await bench.signUp("ana@x.org")
        let verify = try await bench.code("VERIFY_EMAIL", "ana@x.org")
        let reset = try await bench.code("PASSWORD_RESET", "ana@x.org")
        let changed = try await bench.call("update", ["idToken": made["idToken"] ?? .null, "email": "new@x.org"])
        for code in [verify, reset] {
            #expect(try await bench.call("resetPassword", ["oobCode": .string(code)]).error == "INVALID_OOB_CODE")
        }
        let link = try await bench.code("EMAIL_SIGNIN", "new@x.org")
        let last = try await bench.code("PASSWORD_RESET", "new@x.org")
        #expect(try await bench.call("delete", ["idToken": changed["idToken"] ?? .null]).status == 200)
        for code in [link, last] { #expect(try await bench.call("resetPassword", ["oobCode": .string(code)]).error == "INVALID_OOB_CODE") }
    }

    @Test func newerCode_voidsTheOlder() async throws {
        let bench = try AccountBench()
        _ = try await bench.signUp("ana@x.org")
        let first = try await bench.code("PASSWORD_RESET", "ana@x.org")
        let second = try await bench.code("PASSWORD_RESET", "ana@x.org")
        #expect(try await bench.call("resetPassword", ["oobCode": .string(first)]).error == "INVALID_OOB_CODE")
        #expect(try await bench.call("resetPassword", ["oobCode": .string(second)]).status == 200)
    }

    @Test(arguments: [
        ("{}", "MISSING_REQ_TYPE"), (#"{"requestType":1}"#, "MISSING_EMAIL"), (#"{"requestType":4}"#, "MISSING_ID_TOKEN"),
        (#"{"requestType":7,"idToken":"x"}"#, "INVALID_ID_TOKEN"), (#"{"requestType":1,"email":"nonsense"}"#, "INVALID_EMAIL"),
    ]) func incompleteRequests_areNamed(body: String, error: String) async throws {
        let reply = try await AccountBench().ask("identitytoolkit.googleapis.com/v1/accounts:sendOobCode", raw: body)
        #expect(reply.status == 400 && reply.error == error)
    }
}
