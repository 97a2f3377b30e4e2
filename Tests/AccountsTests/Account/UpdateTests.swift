import JSONTree
import Testing
import TestSupport

@testable import Accounts

@Suite(.timeLimit(.minutes(30))) struct UpdateTests {
    private func update(_ bench: AccountBench, _ signedIn: Reply, _ fields: JSONValue) async throws -> Reply {
        try await bench.call("update", .object([.init("idToken", signedIn["idToken"] ?? .null)] + (fields.members ?? [])))
    }

    @Test func check39_answer_echoesTheProfile_andBringsNoTokens() async throws {
        let bench = try AccountBench()
        let made = try await bench.signUp("ana@x.org")
        #expect(try await update(bench, made, ["photoUrl": "https://x/a.png"]).status == 200)
        let reply = try await update(bench, made, ["displayName": "Ana"])
        #expect(reply["kind"] == "identitytoolkit#SetAccountInfoResponse")
        #expect(reply["displayName"] == "Ana" && reply["photoUrl"] == "https://x/a.png")
        #expect(reply["providerUserInfo"]?.elements?.map { $0["providerId"] } == ["password"])
        #expect(reply["idToken"] == nil && reply["refreshToken"] == nil && reply["expiresIn"] == nil)
        #expect(bench.changes.all.isEmpty)
    }

    @Test(arguments: [#""displayName":null"#, #""displayName":"""#, #""deleteAttribute":["DISPLAY_NAME"]"#, #""delete_attribute":[2]"#])
    func check40_name_isCleared_andTheRestStays(clearing: String) async throws {
        let bench = try AccountBench()
        let made = try await bench.signUp("ana@x.org")
        _ = try await update(bench, made, ["displayName": "Ana", "photoUrl": "not a url"])
        #expect(try await bench.user(made)["photoUrl"] == "not a url")
        let token = try #require(made["idToken"]?.string)
        let reply = try await bench.ask("identitytoolkit.googleapis.com/v1/accounts:update", raw: #"{"idToken":"\#(token)",\#(clearing)}"#)
        #expect(reply.status == 200 && reply["displayName"] == nil && reply["photoUrl"] == "not a url")
        let user = try await bench.user(made)
        #expect(user["displayName"] == nil && user["photoUrl"] == "not a url")
    }

    @Test func profile_hasLimits() async throws {
        let bench = try AccountBench()
        let made = try await bench.signUp("ana@x.org")
        let name = String(repeating: "ä", count: 256)
        #expect(try await update(bench, made, ["displayName": .string(name)])["displayName"] == .string(name))
        #expect(try await update(bench, made, ["displayName": .string(name + "a")]).status == 400)
        let url = String(repeating: "u", count: 2048)
        #expect(try await update(bench, made, ["photoUrl": .string(url)]).status == 200)
        #expect(try await update(bench, made, ["photoUrl": .string(url + "u")]).status == 400)
    }

    @Test func check41_newPassword_endsAllOtherSessions() async throws {
        let bench = try AccountBench()
        let made = try await bench.signUp("ana@x.org")
        let reply = try await update(bench, made, ["password": "another horse"])
        #expect(reply["idToken"] != nil && reply["refreshToken"] != nil && reply["expiresIn"] == "3600")
        #expect(reply.claims["firebase"]?["sign_in_provider"] == "password")
        #expect(try await bench.refresh(made["refreshToken"]?.string).error == "TOKEN_EXPIRED")
        #expect(try await bench.signIn("ana@x.org").error == "INVALID_PASSWORD")
        #expect(try await bench.signIn("ana@x.org", "another horse").status == 200)
        #expect(try await update(bench, reply, ["password": "short"]).error?.hasPrefix("WEAK_PASSWORD : ") == true)
    }

    @Test func check42_newAddress_isUnverified_andHasAWayBack() async throws {
        let bench = try AccountBench()
        let made = try await bench.signUp("ana@x.org")
        try await bench.change(made) { $0.isEmailVerified = true }
        let reply = try await update(bench, made, ["email": "New@x.org"])
        #expect(reply["email"] == "new@x.org" && reply["emailVerified"] == false && reply["idToken"] != nil)
        #expect(reply.claims["email"] == "new@x.org")
        let uid = try #require(made["localId"]?.string)
        let codes = try await bench.service.stored { try $0.codes(of: uid) }
        #expect(codes.map(\.kind) == [.recoverEmail] && codes.first?.email == "ana@x.org")
        #expect(try await bench.refresh(made["refreshToken"]?.string).error == "TOKEN_EXPIRED")
        #expect(try await bench.signIn("ana@x.org").error == "EMAIL_NOT_FOUND")
        #expect(try await bench.signIn("new@x.org").status == 200)
    }

    @Test func check42_address_changesByMailOnly_whenAccountsAreHidden() async throws {
        let bench = try AccountBench { $0.hidesAccounts = true }
        let made = try await bench.signUp("ana@x.org")
        #expect(try await update(bench, made, ["email": "new@x.org"]).error == "OPERATION_NOT_ALLOWED")
        #expect(try await update(bench, made, ["email": "ana@x.org"]).status == 200)
        #expect(try await bench.user(made)["email"] == "ana@x.org")
    }

    @Test func addressOfAnotherAccount_isRefused() async throws {
        let bench = try AccountBench()
        _ = try await bench.signUp("bob@x.org")
        let made = try await bench.signUp("ana@x.org")
        #expect(try await update(bench, made, ["email": "BOB@x.org"]).error == "EMAIL_EXISTS")
        #expect(try await update(bench, made, ["email": "nonsense"]).error == "INVALID_EMAIL")
        #expect(try await bench.refresh(made["refreshToken"]?.string).status == 200)
    }

    @Test func guest_takesAnAddress_andThenAPassword() async throws {
        let bench = try AccountBench()
        let guest = try await bench.signUp()
        let first = try await update(bench, guest, ["email": "ana@x.org"])
        #expect(first["providerUserInfo"] == [] && first.claims["firebase"]?["sign_in_provider"] == "anonymous")
        let second = try await update(bench, first, ["password": "correct horse"])
        #expect(second["localId"] == guest["localId"] && second.claims["firebase"]?["sign_in_provider"] == "password")
        #expect(second["providerUserInfo"]?.elements?.count == 1)
        #expect(try await bench.signIn("ana@x.org")["localId"] == guest["localId"])
    }

    @Test func check43_oldSignIn_changesNothingThatMatters() async throws {
        let bench = try AccountBench { $0.recentLoginSeconds = 300 }
        let made = try await bench.signUp("ana@x.org")
        bench.clock.advance(seconds: 300)
        #expect(try await update(bench, made, ["email": "b@x.org", "displayName": "Ana"]).status == 200)
        let old = try await bench.signIn("b@x.org")
        bench.clock.advance(seconds: 301)
        let stale = "CREDENTIAL_TOO_OLD_LOGIN_AGAIN"
        #expect(try await update(bench, old, ["password": "another horse"]).error == stale)
        #expect(try await update(bench, old, ["email": "c@x.org"]).error == stale)
        #expect(try await update(bench, old, ["deleteProvider": ["password"]]).error == stale)
        #expect(try await bench.call("delete", ["idToken": old["idToken"] ?? .null]).error == stale)
        let change: JSONValue = ["requestType": 7, "idToken": old["idToken"] ?? .null, "newEmail": "c@x.org"]
        #expect(try await bench.call("sendOobCode", change).error == stale)
        #expect(try await update(bench, old, ["displayName": "Ana B"]).status == 200)
        let fresh = try await bench.signIn("b@x.org")
        #expect(try await update(bench, fresh, ["password": "another horse"]).status == 200)
    }

    @Test func check43_refreshAndChange_makeNoSignInRecent() async throws {
        let bench = try AccountBench { $0.recentLoginSeconds = 300 }
        let made = try await bench.signUp("ana@x.org")
        bench.clock.advance(seconds: 200)
        let changed = try await update(bench, made, ["password": "another horse"])
        #expect(changed.claims["auth_time"] == made.claims["auth_time"])
        bench.clock.advance(seconds: 101)
        #expect(try await update(bench, changed, ["password": "correct horse"]).error == "CREDENTIAL_TOO_OLD_LOGIN_AGAIN")
    }

    @Test func guest_needsNoRecentSignIn() async throws {
        let bench = try AccountBench { $0.recentLoginSeconds = 300 }
        let guest = try await bench.signUp()
        bench.clock.advance(seconds: 3000)
        let upgrade: JSONValue = ["idToken": guest["idToken"] ?? .null, "email": "a@x.org", "password": "correct horse"]
        #expect(try await bench.call("signUp", upgrade).status == 200)
    }

    @Test(arguments: [
        (#""customAttributes":"{}""#, "INSUFFICIENT_PERMISSION"), (#""disableUser":true"#, "OPERATION_NOT_ALLOWED"),
        (#""custom_attributes":"{}""#, "INSUFFICIENT_PERMISSION"),
    ]) func check44_administratorsFields_areRefusedToClients(field: String, error: String) async throws {
        let bench = try AccountBench()
        let token = try #require(try await bench.signUp("ana@x.org")["idToken"]?.string)
        let reply = try await bench.ask("identitytoolkit.googleapis.com/v1/accounts:update", raw: #"{"idToken":"\#(token)",\#(field)}"#)
        #expect(reply.status == 400 && reply.error == error)
    }

    @Test func check44_client_verifiesNothingItself() async throws {
        let bench = try AccountBench()
        let made = try await bench.signUp("ana@x.org")
        let reply = try await update(
            bench, made, ["emailVerified": true, "localId": "other", "createdAt": "1", "lastLoginAt": 1, "phoneNumber": "+30"])
        #expect(reply["emailVerified"] == false && reply["localId"] == made["localId"])
        let user = try await bench.user(made)
        #expect(user["emailVerified"] == false && user["createdAt"] == .string(String(bench.clock.ms)) && user["phoneNumber"] == nil)
        #expect(try await bench.call("update").error == "INVALID_REQ_TYPE : Unsupported request parameters.")
    }

    @Test func check45_unlinkedProvider_isGone() async throws {
        let bench = try AccountBench()
        let made = try await bench.signUp("ana@x.org")
        try await bench.change(made) { $0.providers = [LinkedProvider(id: "google.com", rawID: "1099")] }
        let reply = try await update(bench, made, ["deleteProvider": ["google.com"]])
        #expect(reply["providerUserInfo"]?.elements?.map { $0["providerId"] } == ["password"])
        #expect(try await bench.user(made)["providerUserInfo"]?.elements?.count == 1)
        let fresh = Reply.claims(try await bench.refresh(made["refreshToken"]?.string)["id_token"])
        #expect(fresh["firebase"]?["identities"] == ["email": ["ana@x.org"]])
    }

    /// Notified of changed claims, the client would refresh with a token that has ended. Notified of the revocation, it has time for its fresh
    /// tokens.
    @Test func changes_nameTheirSession() async throws {
        let bench = try AccountBench()
        let made = try await bench.signUp("ana@x.org")
        let uid = try #require(made["localId"]?.string)
        try await bench.change(made) { $0.providers = [LinkedProvider(id: "google.com", rawID: "1099")] }
        let before = bench.changes.all.count
        let reply = try await update(bench, made, ["deleteProvider": ["google.com"], "password": "battery staple"])
        #expect(reply["idToken"] != nil)
        #expect(Array(bench.changes.all[before...]) == [AccountChange(uid, .revoked, by: made.claims["sid"]?.string)])
        _ = try await update(bench, reply, ["deleteProvider": ["google.com"]])
        #expect(bench.changes.all.count == before + 1, "nothing has changed")
    }

    @Test func unlinkedPassword_takesTheAddressWithIt() async throws {
        let bench = try AccountBench()
        let made = try await bench.signUp("ana@x.org")
        let reply = try await update(bench, made, ["deleteProvider": ["password"]])
        #expect(reply.status == 200 && reply["email"] == nil && reply["providerUserInfo"] == [] && reply["passwordHash"] == nil)
        #expect(try await bench.signIn("ana@x.org").error == "EMAIL_NOT_FOUND")
        #expect(try await bench.signUp("ana@x.org")["localId"] != made["localId"])
    }

    @Test(arguments: [false, true]) func check46_deletedAccount_isGone(withID: Bool) async throws {
        let bench = try AccountBench()
        let made = try await bench.signUp("ana@x.org")
        var body: [JSONValue.Member] = [.init("idToken", made["idToken"] ?? .null)]
        if withID { body.add("localId", made["localId"]) }
        let reply = try await bench.call("delete", .object(body))
        #expect(reply.status == 200 && reply["kind"] == "identitytoolkit#DeleteAccountResponse")
        #expect(try await bench.call("lookup", ["idToken": made["idToken"] ?? .null]).error == "USER_NOT_FOUND")
        #expect(try await bench.signIn("ana@x.org").error == "EMAIL_NOT_FOUND")
        #expect(try await bench.signUp("ana@x.org")["localId"] != made["localId"])
        #expect(bench.changes.all == [AccountChange(try #require(made["localId"]?.string), .deleted)])
        #expect(await bench.service.pendingRemovals() == [made["localId"]?.string])
    }

    @Test func check47_client_deletesNobodyByID() async throws {
        let bench = try AccountBench()
        let made = try await bench.signUp("ana@x.org")
        #expect(try await bench.call("delete", ["localId": made["localId"] ?? .null]).error == "MISSING_ID_TOKEN")
        #expect(try await bench.signIn("ana@x.org").status == 200)
    }

    @Test func check48_providers_haveTheirIDs() async throws {
        let bench = try AccountBench()
        let made = try await bench.signUp("ana@x.org")
        try await bench.change(made) {
            $0.providers = [LinkedProvider(id: "google.com", rawID: "1099"), LinkedProvider(id: "apple.com", rawID: "7")]
        }
        let entries = try #require(try await bench.user(made)["providerUserInfo"]?.elements)
        #expect(entries.count == 3)
        for entry in entries {
            #expect(entry["providerId"]?.string != nil && entry["rawId"]?.string != nil && entry["rawId"] == entry["federatedId"])
        }
    }
}
