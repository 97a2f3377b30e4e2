import HTTPTypes
import JSONTree
import Testing
import TestSupport

@testable import Accounts
@testable import Tokens

/// A service like Google, with keys of the test.
struct TestProvider: KeyFetching {
    static let clientID = "1234-web.apps.googleusercontent.com"

    func fetch(_ url: String) async throws(KeyFetchFault) -> FetchedDocument {
        FetchedDocument(body: Array("{\"keys\":[".utf8) + TokenKeys.rsa[0].jwk + Array("]}".utf8), maxAge: 3600)
    }

    /// An ID token as issued by Google.
    static func token(_ bench: AccountBench, _ change: (inout [String: JSONValue]) -> Void = { _ in }) throws -> String {
        var claims: [String: JSONValue] = [
            "iss": "https://accounts.google.com", "aud": .string(clientID), "azp": .string(clientID), "sub": "1099",
            "email": "Ana@gmail.com",
            "email_verified": true, "name": "Ana B", "given_name": "Ana", "family_name": "B", "picture": "https://p/1",
            "iat": .int(bench.clock.seconds),
            "exp": .int(bench.clock.seconds + 3600),
        ]
        change(&claims)
        return try TokenKeys.rsa[0].sign(
            JSONValue.object(claims.sorted { $0.key < $1.key }.map { JSONValue.Member($0.key, $0.value) }).bytes)
    }
}

@Suite(.timeLimit(.minutes(30))) struct FederatedTests {
    private func bench(_ configure: (inout AccountSettings) -> Void = { _ in }) throws -> AccountBench {
        try AccountBench(fetcher: TestProvider()) {
            $0.identityProviders = [.google(clientIDs: [TestProvider.clientID])]
            configure(&$0)
        }
    }

    private func signIn(
        _ bench: AccountBench, _ token: String, _ more: JSONValue = .object([]), nonce: String? = nil
    ) async throws -> Reply {
        let body: [JSONValue.Member] = [
            .init("requestUri", "http://localhost"), .init("returnSecureToken", true),
            .init("postBody", .string("id_token=\(token)&providerId=google.com" + (nonce.map { "&nonce=\($0)" } ?? ""))),
        ]
        return try await bench.call("signInWithIdp", .object(body + (more.members ?? [])))
    }

    private func signIn(
        _ bench: AccountBench, _ more: JSONValue = .object([]), _ change: (inout [String: JSONValue]) -> Void = { _ in }
    ) async throws -> Reply {
        try await signIn(bench, try TestProvider.token(bench, change), more)
    }

    private func count(_ bench: AccountBench) async throws -> Int {
        try await bench.service.stored { try $0.accounts(after: "", limit: 100).count }
    }

    @Test func check60_newIdentity_createsAnAccount() async throws {
        let bench = try bench()
        let token = try TestProvider.token(bench)
        let reply = try await signIn(bench, token)
        #expect(reply.status == 200, "\(reply.text)")
        #expect(
            reply["kind"] == "identitytoolkit#VerifyAssertionResponse" && reply["providerId"] == "google.com" && reply["isNewUser"] == true)
        #expect(reply["federatedId"] == "https://accounts.google.com/1099")
        #expect(
            reply["email"] == "ana@gmail.com" && reply["emailVerified"] == true && reply["displayName"] == "Ana B"
            && reply["photoUrl"] == "https://p/1")
        #expect(
            reply["firstName"] == "Ana" && reply["lastName"] == "B" && reply["fullName"] == "Ana B"
            && reply["oauthIdToken"] == .string(token))
        let raw = try JSONValue(Array(try #require(reply["rawUserInfo"]?.string).utf8))
        #expect(raw["id"] == "1099" && raw["verified_email"] == true)
        let claims = reply.claims
        #expect(claims["firebase"]?["identities"]?["google.com"] == ["1099"] && claims["firebase"]?["sign_in_provider"] == "google.com")
        #expect(claims["email_verified"] == true)
        for name in ["needConfirmation", "errorMessage"] { #expect(reply[name] == nil) }
        let entry = try #require(try await bench.user(reply)["providerUserInfo"]?.elements?.first)
        #expect(entry["providerId"] == "google.com" && entry["rawId"] == "1099" && entry["federatedId"] == "1099")
    }

    // MARK: A provider that assigns the addresses of its domains

    private func school(_ domains: [String]) throws -> AccountBench {
        try AccountBench(fetcher: TestProvider()) {
            $0.hidesAccounts = true
            $0.identityProviders = [.openID(
                "oidc.school", issuer: "https://login.school.example", clientIDs: ["hub"], keys: .keySet("https://login.school.example/keys"),
                authoritativeDomains: domains)]
        }
    }

    private func signInAtSchool(
        _ bench: AccountBench, _ email: String = "Ana@school.example", isVerified: JSONValue = true, subject: String = "s1"
    ) async throws -> Reply {
        let token = try TestProvider.token(bench) {
            $0 = [
                "iss": "https://login.school.example", "aud": "hub", "sub": .string(subject), "email": .string(email),
                "email_verified": isVerified, "name": "Ana S", "iat": .int(bench.clock.seconds), "exp": .int(bench.clock.seconds + 3600),
            ]
        }
        return try await bench.call("signInWithIdp", [
            "requestUri": "http://localhost", "postBody": .string("id_token=\(token)&providerId=oidc.school"),
        ])
    }

    @Test func importedAccount_isJoined_byTheProviderOfItsDomain() async throws {
        let bench = try school(["school.example"])
        try await bench.administrate("accounts:batchCreate", ["users": [
            ["localId": "ana", "email": "ana@school.example", "emailVerified": true, "rawPassword": "correct horse"],
        ]])
        let reply = try await signInAtSchool(bench)
        #expect(reply.status == 200 && reply["localId"] == "ana" && reply["needConfirmation"] == nil, "\(reply.text)")
        #expect(reply.claims["firebase"]?["identities"]?["oidc.school"] == ["s1"])
        #expect(try await bench.signIn("ana@school.example").status == 200, "its user had proved the address: what was there stays")
        #expect(try await signInAtSchool(bench)["localId"] == "ana")
    }

    @Test(arguments: [
        ("ana@school.example", true, []), ("ana@school.example", true, ["other.example", "chool.example", "example"]),
        ("ana@pupils.school.example", true, ["school.example"]), ("ana@school.example", false, ["school.example"]),
        ("ana@school.example", .null, ["school.example"]), ("ana@xschool.example", true, ["school.example"]),
    ] as [(String, JSONValue, [String])])
    func importedAccount_isNotJoined_byAnyOther(email: String, isVerified: JSONValue, domains: [String]) async throws {
        let bench = try school(domains)
        try await bench.administrate(
            "accounts:batchCreate", ["users": [["localId": "ana", "email": .string(email), "emailVerified": true]]])
        let reply = try await signInAtSchool(bench, email, isVerified: isVerified)
        #expect(reply["needConfirmation"] == true && reply["idToken"] == nil, "\(reply.text)")
    }

    @Test func accountThatNobodyHadProved_losesItsMakersWaysIn() async throws {
        let bench = try school(["school.example"])
        try await bench.administrate("accounts:batchCreate", ["users": [
            ["localId": "eve", "email": "ana@school.example", "rawPassword": "correct horse"],
        ]])
        #expect(try await signInAtSchool(bench)["localId"] == "eve")
        #expect(try await bench.signIn("ana@school.example").status == 400)
    }

    @Test func nameAtTheService_isCopied() async throws {
        let bench = try bench()
        let reply = try await signIn(bench) { $0["screen_name"] = "ana_b" }
        let user = try await bench.user(reply)
        #expect(user["screenName"] == "ana_b" && user["providerUserInfo"]?.elements?.first?["screenName"] == "ana_b")
    }

    @Test func linkedIdentity_thatTakesThePlaceOfAnother_endsTokensWithThat() async throws {
        let bench = try bench()
        let first = try await signIn(bench)
        let uid = try #require(first["localId"]?.string)
        let linked = try await signIn(bench, ["idToken": first["idToken"] ?? .null]) {
            $0["sub"] = "1100"
            $0["email"] = nil
        }
        #expect(linked.status == 200, "\(linked.text)")
        #expect(linked.claims["firebase"]?["identities"]?["google.com"] == ["1100"])
        #expect(bench.changes.all == [AccountChange(uid, .claimsChanged, by: first.claims["sid"]?.string)])
        let generation = try await bench.service.stored { try $0.tokenGeneration(of: uid) }
        #expect(generation == 1 && linked.claims["firebase"]?["generation"] == 1)
    }

    @Test func check61_sameIdentity_signsIn_andChangesNoName() async throws {
        let bench = try bench()
        let first = try await signIn(bench)
        _ = try await bench.call("update", ["idToken": first["idToken"] ?? .null, "displayName": "My own"])
        let second = try await signIn(bench) {
            $0["name"] = "Other"
            $0["email"] = "moved@gmail.com"
        }
        #expect(second["localId"] == first["localId"] && second["isNewUser"] != true && second["displayName"] == "My own")
        let user = try await bench.user(second)
        #expect(user["email"] == "ana@gmail.com" && user["displayName"] == "My own")
        #expect(user["providerUserInfo"]?.elements?.first?["email"] == "moved@gmail.com")
    }

    @Test func check62_badTokens_createNoAccount() async throws {
        let bench = try bench()
        var bad = [
            try TestProvider.token(bench) { $0["aud"] = "somebody else" },
            try TestProvider.token(bench) { $0["iss"] = "https://evil.example" },
            try TestProvider.token(bench) { $0["exp"] = .int(bench.clock.seconds) }, try TestProvider.token(bench) { $0["sub"] = nil },
            try TestProvider.token(bench) { $0["sub"] = 1099 }, #"{"sub":"1099"}"#, "nonsense",
        ]
        let good = try TestProvider.token(bench)
        let parts = good.split(separator: ".").map(String.init)
        bad.append("\(parts[0]).\(parts[1]).\(String(parts[2].reversed()))")
        bad.append(Base64.encodeURL(#"{"alg":"none"}"#.utf8) + ".\(parts[1]).")
        bad.append(Base64.encodeURL(#"{"alg":"HS256","kid":"\#(TokenKeys.rsa[0].verifying.id)"}"#.utf8) + ".\(parts[1]).\(parts[2])")
        for token in bad {
            let reply = try await signIn(bench, token)
            #expect(reply.status == 400 && reply.error?.hasPrefix("INVALID_IDP_RESPONSE : ") == true, "\(reply.text)")
        }
        let accessOnly = try await bench.call(
            "signInWithIdp", ["requestUri": "http://localhost", "postBody": "access_token=x&providerId=google.com"])
        #expect(accessOnly.error?.hasPrefix("INVALID_IDP_RESPONSE : ") == true)
        let unknown = try await bench.call(
            "signInWithIdp", ["requestUri": "http://localhost", "postBody": "id_token=x&providerId=apple.com"])
        #expect(unknown.error?.hasPrefix("OPERATION_NOT_ALLOWED") == true)
        #expect(try await count(bench) == 0)
    }

    @Test func check63_nonce_mustMatchOnBothSides() async throws {
        let bench = try bench()
        // SHA-256 of "abc".
        let hash: JSONValue = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        let token = try TestProvider.token(bench) { $0["nonce"] = hash }
        for (token, nonce) in [(token, "abd"), (token, nil), (try TestProvider.token(bench), "abc")] {
            #expect(try await signIn(bench, token, nonce: nonce).error?.hasPrefix("MISSING_OR_INVALID_NONCE : ") == true)
        }
        #expect(try await signIn(bench, token, nonce: "abc").status == 200)
        #expect(try await signIn(bench, token, nonce: "abc").error?.hasPrefix("MISSING_OR_INVALID_NONCE : ") == true)
    }

    @Test func check64_ownerOfTheAddress_throwsOutTheMakerOfTheAccount() async throws {
        let bench = try bench()
        let maker = try await bench.signUp("ana@gmail.com")
        try await bench.change(maker) { $0.providers = [LinkedProvider(id: "apple.com", rawID: "7")] }
        let owner = try await signIn(bench)
        #expect(owner["localId"] == maker["localId"] && owner["isNewUser"] != true)
        let user = try await bench.user(owner)
        #expect(user["emailVerified"] == true && user["passwordHash"] == nil && user["displayName"] == "Ana B")
        #expect(user["providerUserInfo"]?.elements?.map { $0["providerId"] } == ["google.com"])
        #expect(try await bench.refresh(maker["refreshToken"]?.string).error == "TOKEN_EXPIRED")
        #expect(try await bench.signIn("ana@gmail.com").error == "INVALID_PASSWORD")
        #expect(bench.changes.all.map(\.kind) == [.revoked])
    }

    @Test func check65_verifiedAccount_keepsItsPassword() async throws {
        let bench = try bench()
        let made = try await bench.signUp("ana@gmail.com")
        try await bench.change(made) { $0.isEmailVerified = true }
        let google = try await signIn(bench)
        #expect(google["localId"] == made["localId"])
        #expect(try await bench.signIn("ana@gmail.com")["localId"] == made["localId"])
        #expect(try await bench.refresh(made["refreshToken"]?.string).status == 200)
        let recycled = try await signIn(bench) { $0["sub"] = "2000" }
        #expect(recycled["emailRecycled"] == true && recycled["localId"] == made["localId"])
        #expect(try await bench.user(recycled)["providerUserInfo"]?.elements?.map { $0["rawId"] } == ["2000"])
    }

    @Test(
        arguments: [("ana@gmail.com", false), ("ana@example.org", true)]
    ) func check66_unprovenAddress_needsConfirmation(email: String, isVerified: Bool) async throws {
        let bench = try bench()
        let made = try await bench.signUp(email)
        let before = try await bench.user(made)
        let reply = try await signIn(bench) {
            $0["email"] = .string(email)
            $0["email_verified"] = .bool(isVerified)
        }
        #expect(reply.status == 200 && reply["needConfirmation"] == true && reply["verifiedProvider"] == ["password"])
        #expect(reply["email"] == .string(email) && reply["localId"] == made["localId"])
        #expect(reply["idToken"] == nil && reply["refreshToken"] == nil)
        #expect(try await bench.user(made) == before)
    }

    @Test func check16_addressOfAGoogleAccount_isTaken() async throws {
        let bench = try bench()
        _ = try await signIn(bench)
        #expect(try await bench.call("signUp", ["email": "ANA@gmail.com", "password": "correct horse"]).error == "EMAIL_EXISTS")
    }

    @Test func check67_guest_isLinked() async throws {
        let bench = try bench()
        let guest = try await bench.signUp()
        let reply = try await signIn(bench, ["idToken": guest["idToken"] ?? .null])
        #expect(reply["localId"] == guest["localId"] && reply["isNewUser"] != true)
        #expect(reply.claims["firebase"]?["sign_in_provider"] == "google.com")
        let user = try await bench.user(reply)
        #expect(user["email"] == "ana@gmail.com" && user["emailVerified"] == true)
        #expect(user["providerUserInfo"]?.elements?.map { $0["providerId"] } == ["google.com"])
    }

    @Test func check68_identityInUse_cannotBeLinked() async throws {
        let bench = try bench()
        let owner = try await signIn(bench)
        let guest = try await bench.signUp()
        for caller in [owner, guest] {
            let plain = try await signIn(bench, ["idToken": caller["idToken"] ?? .null])
            #expect(plain.status == 400 && plain.error == "FEDERATED_USER_ID_ALREADY_LINKED")
            let soft = try await signIn(bench, ["idToken": caller["idToken"] ?? .null, "returnIdpCredential": true])
            #expect(
                soft.status == 200 && soft["errorMessage"] == "FEDERATED_USER_ID_ALREADY_LINKED" && soft["idToken"] == nil
                && soft["oauthIdToken"] != nil)
        }
        _ = try await bench.signUp("bob@x.org")
        let taken = try await signIn(bench, ["idToken": guest["idToken"] ?? .null]) {
            $0["sub"] = "77"
            $0["email"] = "bob@x.org"
        }
        #expect(taken.error == "EMAIL_EXISTS")
    }

    @Test func check69_parameters_areFoundWhereverTheyAre() async throws {
        let bench = try bench()
        let token = try TestProvider.token(bench)
        #expect(try await bench.call("signInWithIdp", ["postBody": "id_token=x&providerId=google.com"]).error == "MISSING_REQUEST_URI")
        #expect(try await bench.call(
            "signInWithIdp", ["requestUri": "here", "postBody": "id_token=x&providerId=google.com"]).error == "INVALID_REQUEST_URI")
        let noProvider = try await bench.call("signInWithIdp", ["requestUri": "http://localhost", "postBody": .string("id_token=\(token)")])
        #expect(noProvider.error?.hasPrefix("INVALID_CREDENTIAL_OR_PROVIDER_ID : ") == true)
        let query = try await bench.call(
            "signInWithIdp", ["requestUri": .string("http://localhost/?providerId=GOOGLE.com&id_token=\(token)#x=1")])
        #expect(query.status == 200, "\(query.text)")
        let fragment = try await bench.call(
            "signInWithIdp", [
                "requestUri": .string("http://localhost/?id_token=bad#id_token=\(token)&providerId=google.com"),
                "postBody": "id_token=worse",
            ])
        #expect(fragment["localId"] == query["localId"])
        let apple = "id_token=\(token)&providerId=google.com&user={\"name\":{\"firstName\":\"Άνα\",\"lastName\":\"50% B\"}}&nonsense=%zz"
        #expect(try await bench.call(
            "signInWithIdp", ["requestUri": "http://localhost", "postBody": .string(apple)])["localId"] == query["localId"])
    }

    @Test func nameSentToTheAppOnly_isTakenForANewAccount() async throws {
        let bench = try bench()
        let token = try TestProvider.token(bench) { $0["name"] = nil }
        let body = "id_token=\(token)&providerId=google.com&user={\"name\":{\"firstName\":\"Άνα\",\"lastName\":\"50% B\"}}"
        #expect(try await bench.call(
            "signInWithIdp", ["requestUri": "http://localhost", "postBody": .string(body)])["displayName"] == "Άνα 50% B")
    }

    @Test func check70_unknownIdentity_isNotCreatedUnasked() async throws {
        let bench = try bench()
        #expect(try await signIn(bench, ["autoCreate": false]).error == "EMAIL_NOT_FOUND")
        #expect(try await count(bench) == 0)
    }

    @Test func check45_unlinkedIdentity_createsAnotherAccount() async throws {
        let bench = try bench()
        let made = try await bench.signUp("ana@x.org")
        let linked = try await signIn(bench, ["idToken": made["idToken"] ?? .null]) { $0["email"] = "ana@x.org" }
        #expect(try await bench.call("update", ["idToken": linked["idToken"] ?? .null, "deleteProvider": ["google.com"]]).status == 200)
        let other = try await signIn(bench)
        #expect(other["isNewUser"] == true && other["localId"] != made["localId"])
    }

    @Test func disabledAccount_staysOut() async throws {
        let bench = try bench()
        let made = try await signIn(bench)
        try await bench.change(made) { $0.isDisabled = true }
        #expect(try await signIn(bench).error == "USER_DISABLED")
    }

    /// The table of the contract, stated independently.
    @Test func outcome_isTheTables_inEveryCase() {
        for isSignedIn in [true, false] {
            for isKnown in [true, false] {
                for holder in FederatedOutcome.Holder.allCases {
                    for isBelieved in [true, false] {
                        let outcome = FederatedOutcome(isSignedIn: isSignedIn, isKnown: isKnown, addressOf: holder, isBelieved: isBelieved)
                        let expected: FederatedOutcome
                        if isKnown { expected = isSignedIn ? .alreadyLinked : .signIn }
                        else if holder == .none { expected = isSignedIn ? .link : .create }
                        else if isSignedIn { expected = holder == .own ? .link : .addressTaken }
                        else { expected = isBelieved ? .join : .confirm }
                        #expect(outcome == expected)
                    }
                }
            }
        }
    }
}
