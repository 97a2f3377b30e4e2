import JSONTree
import Testing

@testable import Accounts

@Suite(.timeLimit(.minutes(30))) struct SignUpTests {
    @Test(arguments: ["{}", #"{"clientType":"CLIENT_TYPE_ANDROID"}"#, ""]) func check14_guest_signsUp(body: String) async throws {
        let bench = try AccountBench()
        let reply = try await bench.ask("identitytoolkit.googleapis.com/v1/accounts:signUp", raw: body)
        #expect(reply.status == 200)
        #expect(reply["kind"] == "identitytoolkit#SignupNewUserResponse")
        let id = try #require(reply["localId"]?.string)
        #expect(id.utf8.count == 28 && id.allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber) })
        #expect(reply["refreshToken"]?.string?.isEmpty == false)
        let claims = reply.claims
        #expect(claims["provider_id"] == "anonymous")
        #expect(claims["firebase"]?["sign_in_provider"] == "anonymous")
        #expect(claims["firebase"]?["identities"] == .object([]))
        #expect(claims["email"] == nil && claims["email_verified"] == nil)
    }

    @Test func check15_newAccount_hasOnePasswordProvider_andNoSecretToShow() async throws {
        let bench = try AccountBench()
        let user = try await bench.user(try await bench.signUp("Ana@Example.org"))
        #expect(user["email"] == "ana@example.org")
        #expect(user["emailVerified"] == false)
        #expect(user["passwordHash"] == "UkVEQUNURUQ=")
        #expect(user["salt"] == nil)
        #expect(user["providerUserInfo"]?.elements?.count == 1)
        #expect(user["providerUserInfo"]?.elements?.first?["providerId"] == "password")
    }

    @Test func check16_takenAddress_isRefusedInAnyCase() async throws {
        let bench = try AccountBench()
        _ = try await bench.signUp("bob@x.org")
        let reply = try await bench.call("signUp", ["email": "BOB@x.org", "password": "correct horse"])
        #expect(reply.status == 400 && reply.error == "EMAIL_EXISTS")
    }

    @Test(arguments: [
        (#"{"email":"a@x.org"}"#, "MISSING_PASSWORD"), (#"{"password":"correct horse"}"#, "MISSING_EMAIL"),
        (#"{"email":"","password":""}"#, "INVALID_EMAIL"), (#"{"email":"not.mail","password":"correct horse"}"#, "INVALID_EMAIL"),
        (#"{"email":"a@b@c","password":"correct horse"}"#, "INVALID_EMAIL"), (#"{"email":"a@x.org","password":""}"#, "MISSING_PASSWORD"),
        (#"{"idToken":"x","password":"correct horse"}"#, "MISSING_EMAIL"),
        (#"{"idToken":"x","email":"a@x.org","password":"correct horse"}"#, "INVALID_ID_TOKEN"),
    ]) func check17_incompleteCredentials_areNamed(body: String, error: String) async throws {
        let reply = try await AccountBench().ask("identitytoolkit.googleapis.com/v1/accounts:signUp", raw: body)
        #expect(reply.status == 400 && reply.error == error)
    }

    @Test func check17_shortPassword_isWeak() async throws {
        let bench = try AccountBench()
        let short = try await bench.call("signUp", ["email": "a@x.org", "password": "12345"])
        #expect(short.error?.hasPrefix("WEAK_PASSWORD : ") == true)
        #expect(try await bench.call("signUp", ["email": "a@x.org", "password": "1a3b5c"]).status == 200)
    }

    @Test func check18_client_choosesNoID() async throws {
        let reply = try await AccountBench().call("signUp", ["localId": "mine"])
        #expect(reply.status == 400 && reply.error == "UNEXPECTED_PARAMETER : User ID")
    }

    @Test func check19_guest_becomesAnAccountWithAPassword() async throws {
        let bench = try AccountBench()
        let guest = try await bench.signUp()
        let reply = try await bench.call(
            "signUp", ["idToken": guest["idToken"] ?? .null, "email": "ana@x.org", "password": "correct horse"])
        #expect(reply["localId"] == guest["localId"])
        #expect(reply.claims["firebase"]?["sign_in_provider"] == "password")
        #expect(reply.claims["provider_id"] == nil)
        #expect(try await bench.signIn("ana@x.org")["localId"] == guest["localId"])
        #expect(try await bench.user(reply)["providerUserInfo"]?.elements?.first?["providerId"] == "password")
        // The guest's session belongs to another account now.
        #expect(try await bench.refresh(guest["refreshToken"]?.string).error == "TOKEN_EXPIRED")
        let author = try #require(guest.claims["sid"]?.string)
        #expect(bench.changes.all == [AccountChange(try #require(guest["localId"]?.string), .revoked, by: author)])
    }

    @Test func check20_guest_cannotTakeAnAddress() async throws {
        let bench = try AccountBench()
        _ = try await bench.signUp("ana@x.org")
        let guest = try await bench.signUp()
        let reply = try await bench.call(
            "signUp", ["idToken": guest["idToken"] ?? .null, "email": "ana@x.org", "password": "correct horse"])
        #expect(reply.error == "EMAIL_EXISTS")
        #expect(try await bench.user(guest)["email"] == nil)
        #expect(try await bench.refresh(guest["refreshToken"]?.string).status == 200)
    }

    @Test func check20_ownAddress_isNotInTheWay_andStaysVerified() async throws {
        let bench = try AccountBench()
        let guest = try await bench.signUp()
        try await bench.change(guest) {
            var google = LinkedProvider(id: "google.com", rawID: "1099")
            google.email = "ana@gmail.com"
            $0.providers = [google]
            $0.email = "ana@gmail.com"
            $0.isEmailVerified = true
        }
        let reply = try await bench.call(
            "signUp", ["idToken": guest["idToken"] ?? .null, "email": "ana@gmail.com", "password": "correct horse"])
        #expect(reply.status == 200)
        let user = try await bench.user(reply)
        #expect(user["emailVerified"] == true)
        #expect(user["providerUserInfo"]?.elements?.map { $0["providerId"] } == ["password", "google.com"])
    }

    @Test func check21_oneOfParallelSignUps_wins() async throws {
        let bench = try AccountBench()
        let replies = try await withThrowingTaskGroup(of: Reply.self) { group in
            for i in 0..<8 {
                group.addTask { try await bench.call("signUp", ["email": "ana@x.org", "password": .string("password \(i)")]) }
            }
            return try await group.reduce(into: []) { $0.append($1) }
        }
        #expect(replies.count { $0.status == 200 } == 1)
        #expect(replies.count { $0.error == "EMAIL_EXISTS" } == 7)
        #expect(try await bench.service.stored { try $0.accounts(after: "", limit: 10) }.count == 1)
    }

    @Test func guestsAndSignUps_canBeOff() async throws {
        #expect(try await AccountBench { $0.allowsAnonymous = false }.call("signUp").error == "ADMIN_ONLY_OPERATION")
        let closed = try AccountBench { $0.allowsSignUp = false }
        #expect(try await closed.call("signUp", ["email": "a@x.org", "password": "correct horse"]).error == "ADMIN_ONLY_OPERATION")
        // Otherwise a guest could turn into an account.
        #expect(try await closed.call("signUp").error == "ADMIN_ONLY_OPERATION")
        let withoutPasswords = try AccountBench { $0.allowsPasswords = false }
        #expect(
            try await withoutPasswords.call("signUp", ["email": "a@x.org", "password": "correct horse"]).error == "OPERATION_NOT_ALLOWED")
    }
}
