import HTTPTypes
import JSONTree
import Testing
import TestSupport

@testable import Accounts

/// Administrators create, find, change and delete accounts (accounts contract §10).
@Suite(.timeLimit(.minutes(30))) struct AccountAdministrationTests {
    // MARK: Authorization

    @Test func check4_administrator_isWhoHasASecret() async throws {
        let bench = try AccountBench()
        let path = "\(AccountBench.v1)/projects/demo-app/accounts:lookup"
        let body: JSONValue = ["localId": ["x"]]
        for authorization in ["Bearer nonsense", "bEArEr owner", "Bearer ya29.x", "Bearer ", "Basic eA==", nil] {
            let refusal = await #expect(throws: Refusal.self) { try await bench.exchange(.post, path, body, authorization: authorization) }
            #expect(refusal?.status == 401 && refusal?.name == "UNAUTHENTICATED", "\(authorization ?? "")")
        }
        // A key belongs to a client and does not help here.
        let keyed = await #expect(throws: Refusal.self) { try await bench.exchange(.post, path + "?key=any", body) }
        #expect(keyed?.status == 401)
        #expect(try await bench.exchange(.post, path, body, authorization: "bearer \(AccountBench.administrator)")["users"] == nil)
        let dev = try AccountBench { $0.isDev = true }
        for authorization in ["bEArEr OWNER", "Bearer ya29.anything"] {
            #expect(
                try await dev.exchange(.post, path, body, authorization: authorization)["kind"] == "identitytoolkit#GetAccountInfoResponse")
        }
    }

    @Test func check5_testEndpoints_existOnADevelopmentHubOnly() async throws {
        let bench = try AccountBench()
        let routes: [(HTTPRequest.Method, String)] = [
            (.delete, "accounts"), (.get, "oobCodes"), (.get, "config"), (.patch, "config"), (.get, "verificationCodes"),
        ]
        for (method, path) in routes {
            for authorization in [nil, "Bearer owner", "Bearer \(AccountBench.administrator)"] {
                let refusal = await #expect(throws: Refusal.self) {
                    try await bench.exchange(method, "emulator/v1/projects/demo-app/\(path)", authorization: authorization)
                }
                #expect(refusal?.status == 404)
            }
        }
        let dev = try AccountBench { $0.isDev = true }
        for (method, path) in routes { try await dev.development(method, path) }
    }

    @Test func anotherProjectsAccounts_areNotSearched() async throws {
        let bench = try AccountBench()
        let message =
            #"PROJECT_NOT_FOUND : The accounts here are those of project "demo-app". Ask for that, or start the hub with --project other"#
        await #expect(throws: Refusal(message)) {
            try await bench.exchange(
                .post, "\(AccountBench.v1)/projects/other/accounts", [:], authorization: "Bearer \(AccountBench.administrator)")
        }
        await #expect(throws: Refusal(message)) {
            try await bench.exchange(
                .post, "\(AccountBench.legacy)/downloadAccount", ["targetProjectId": "other"],
                    authorization: "Bearer \(AccountBench.administrator)")
        }
    }

    // MARK: Creating

    @Test func check71_createdAccount_isSeenWhole() async throws {
        let bench = try AccountBench()
        let wanted: JSONValue = [
            "localId": "uid/of@71.x", "email": "ANA@example.org", "emailVerified": true, "password": "correct horse", "displayName": "Ana",
            "photoUrl": "https://x/a.png", "phoneNumber": "+306900000000", "disabled": true,
        ]
        let made = try await bench.administrate("accounts", wanted)
        #expect(made["kind"] == "identitytoolkit#SignupNewUserResponse")
        #expect(made["localId"] == "uid/of@71.x")
        #expect(made["email"] == "ana@example.org")
        #expect(made["idToken"] == nil && made["refreshToken"] == nil)
        let seen = try #require(try await bench.seen("uid/of@71.x"))
        for name in ["emailVerified", "displayName", "photoUrl", "phoneNumber", "disabled"] {
            #expect(seen[name] == wanted[name], "\(name)")
        }
        #expect(seen["passwordHash"] == .string(Account.redactedHash))
        #expect(seen["providerUserInfo"]?.elements?.compactMap { $0["providerId"]?.string }.sorted() == ["password", "phone"])
        #expect(seen["createdAt"] == .string("\(bench.clock.seconds)000"))
        #expect(seen["validSince"] == .string("\(bench.clock.seconds)"))
        let nameless = try await bench.administrate("accounts")
        #expect(try #require(nameless["localId"]?.string).wholeMatch(of: /[A-Za-z0-9]{28}/) != nil)
        // An app with a secret may use its own path.
        let other = try await bench.exchange(
            .post, "\(AccountBench.v1)/accounts:signUp", ["localId": "other"], authorization: "Bearer \(AccountBench.administrator)")
        #expect(other["localId"] == "other" && other["idToken"] == nil)
    }

    @Test func check71_duplicatesAndBadFields_areRefused() async throws {
        let bench = try AccountBench()
        try await bench.administrate("accounts", ["localId": "ana", "email": "ana@example.org", "phoneNumber": "+306900000000"])
        let refused: [(JSONValue, String)] = [
            (["localId": "ana"], "DUPLICATE_LOCAL_ID"),
            (["email": "Ana@Example.org"], "EMAIL_EXISTS"),
            (["phoneNumber": "+306900000000"], "PHONE_NUMBER_EXISTS"),
            (["phoneNumber": "306900000000"], "INVALID_PHONE_NUMBER : It is a + with 1 to 15 digits"),
            (["phoneNumber": "+3069000000000000"], "INVALID_PHONE_NUMBER : It is a + with 1 to 15 digits"),
            (["email": "nomail"], "INVALID_EMAIL"),
            (["email": "b@example.org", "password": "short"], "WEAK_PASSWORD : Password should be at least 6 characters"),
            (["localId": ""], "INVALID_LOCAL_ID : It has 1 to 128 characters"),
            (["localId": .string(String(repeating: "x", count: 129))], "INVALID_LOCAL_ID : It has 1 to 128 characters"),
        ]
        for (body, message) in refused {
            await #expect(throws: Refusal(message), "\(body)") { try await bench.administrate("accounts", body) }
        }
        #expect(try await bench.administrate("accounts:query", ["returnUserInfo": false])["recordsCount"] == "1")
        try await bench.administrate(
            "accounts", ["localId": .string(String(repeating: "x", count: 128)), "phoneNumber": "+306900000000000"])
    }

    // MARK: Finding

    @Test func check75_unknownIDs_leaveUsersOut() async throws {
        let bench = try AccountBench()
        let answer = try await bench.administrate("accounts:lookup", ["localId": ["nobody"], "email": ["no@example.org"]])
        #expect(answer == ["kind": "identitytoolkit#GetAccountInfoResponse"])
    }

    @Test func accounts_areFoundByEachOfTheirFields_andComeOnce() async throws {
        let bench = try AccountBench()
        let google: JSONValue = ["providerId": "google.com", "rawId": "1099"]
        try await bench.administrate("accounts", ["localId": "ana", "email": "ana@example.org", "phoneNumber": "+306900000000"])
        try await bench.administrate("accounts:update", ["localId": "ana", "linkProviderUserInfo": google])
        try await bench.administrate("accounts", ["localId": "bo"])
        for (name, value) in [
            ("localId", "ana"), ("email", "ANA@example.org"), ("phoneNumber", "+306900000000"), ("federatedUserId", google),
        ] as [(String, JSONValue)] {
            let found = try await bench.administrate("accounts:lookup", .object([.init(name, [value])]))
            #expect(found["users"]?.elements?.map { $0["localId"] } == ["ana"], "\(name)")
        }
        let all = try await bench.administrate(
            "accounts:lookup",
            [
                "localId": ["bo", "ana", "bo", "nobody"], "email": ["ana@example.org"], "phoneNumber": ["+306900000000"],
                "federatedUserId": [google],
            ])
        #expect(all["users"]?.elements?.map { $0["localId"] } == ["bo", "ana"])
        await #expect(throws: Refusal("MISSING_IDENTIFIER")) { try await bench.administrate("accounts:lookup") }
    }

    @Test func lookUpOfTooMany_isRefused() async throws {
        let bench = try AccountBench { $0.lookupsAtOnce = 2 }
        try await bench.administrate("accounts:lookup", ["localId": ["a"], "email": ["b"]])
        let refusal = await #expect(throws: Refusal.self) {
            try await bench.administrate("accounts:lookup", ["localId": ["a", "c"], "email": ["b"]])
        }
        #expect(refusal?.status == 400 && refusal?.name == "INVALID_ARGUMENT")
    }

    @Test func check71_pages_holdEveryAccountOnce() async throws {
        let bench = try AccountBench()
        let ids = (0..<7).map { "user-\($0)" }
        for id in ids.shuffled() { try await bench.administrate("accounts", ["localId": .string(id)]) }
        for size in 1...8 {
            var (listed, token, pages) = ([String](), String?.none, 0)
            repeat {
                let query = "maxResults=\(size)" + (token.map { "&nextPageToken=\($0)" } ?? "")
                let page = try await bench.administrate("accounts:batchGet?\(query)", nil, .get)
                #expect(page["kind"] == "identitytoolkit#DownloadAccountResponse")
                let users = page["users"]?.elements ?? []
                #expect(page["users"] == nil || !users.isEmpty)
                listed += users.compactMap { $0["localId"]?.string }
                token = page["nextPageToken"]?.string
                pages += 1
            } while token != nil
            #expect(listed == ids)
            #expect(pages == 7 / size + 1)
        }
        let legacy = try await bench.exchange(
            .post, "\(AccountBench.legacy)/downloadAccount", [
                "maxResults": 3, "nextPageToken": "user-1",
            ], authorization: "Bearer \(AccountBench.administrator)")
        #expect(legacy["users"]?.elements?.map { $0["localId"] } == ["user-2", "user-3", "user-4"])
        for bad in ["0", "1001", "x"] {
            let refusal = await #expect(throws: Refusal.self) {
                try await bench.administrate("accounts:batchGet?maxResults=\(bad)", nil, .get)
            }
            #expect(refusal?.name == "INVALID_ARGUMENT")
        }
        #expect(try await bench.administrate("accounts:batchGet?maxResults=1000", nil, .get)["users"]?.elements?.count == 7)
    }

    @Test func accounts_areCounted_andShownByTheirPlace() async throws {
        let bench = try AccountBench()
        for id in ["c", "a", "b"] { try await bench.administrate("accounts", ["localId": .string(id)]) }
        #expect(try await bench.administrate("accounts:query", ["returnUserInfo": false]) == ["recordsCount": "3"])
        let part = try await bench.administrate("accounts:query", ["sortBy": "USER_ID", "order": "DESC", "offset": "1", "limit": "1"])
        #expect(part["userInfo"]?.elements?.map { $0["localId"] } == ["b"])
        #expect(part["recordsCount"] == "1")
        let refusal = await #expect(throws: Refusal.self) { try await bench.administrate("accounts:query", ["sortBy": "NAME"]) }
        #expect(refusal?.status == 501 && refusal?.name == "NOT_IMPLEMENTED")
    }

    // MARK: Changing

    @Test func administrator_changesEverything_andTheRestStays() async throws {
        let bench = try AccountBench { $0.hidesAccounts = true }
        let (uid, _) = try await bench.newUser("ana@example.org")
        let answer = try await bench.administrate(
            "accounts:update",
            ["localId": .string(uid), "email": "new@example.org", "emailVerified": true, "displayName": "Ana", "createdAt": "1600000000123",
             "lastLoginAt": 1_700_000_000_456, "phoneNumber": "+3069"])
        #expect(answer["kind"] == "identitytoolkit#SetAccountInfoResponse")
        #expect(answer["localId"] == .string(uid) && answer["idToken"] == nil)
        var seen = try #require(try await bench.seen(uid))
        #expect(seen["email"] == "new@example.org" && seen["emailVerified"] == true && seen["initialEmail"] != "new@example.org")
        #expect(seen["createdAt"] == "1600000000123" && seen["lastLoginAt"] == "1700000000456")
        try await bench.administrate(
            "accounts:update", ["localId": .string(uid), "photoUrl": "p", "deleteProvider": ["phone"], "deleteAttribute": ["DISPLAY_NAME"]])
        seen = try #require(try await bench.seen(uid))
        #expect(seen["displayName"] == nil && seen["phoneNumber"] == nil && seen["photoUrl"] == "p")
        #expect(seen["email"] == "new@example.org" && seen["emailVerified"] == true)
        // A changed address is not a verified one.
        try await bench.administrate("accounts:update", ["localId": .string(uid), "email": "newer@example.org"])
        #expect(try await bench.seen(uid)?["emailVerified"] == false)
    }

    @Test func updateOfNobody_orToAnothersValue_isRefused() async throws {
        let bench = try AccountBench()
        let google: JSONValue = ["providerId": "google.com", "rawId": "1099"]
        try await bench.administrate("accounts", ["localId": "ana", "email": "ana@example.org", "phoneNumber": "+3069"])
        try await bench.administrate("accounts:update", ["localId": "ana", "linkProviderUserInfo": google])
        try await bench.administrate("accounts", ["localId": "bo", "email": "bo@example.org"])
        let refused: [(JSONValue, String)] = [
            (["displayName": "x"], "MISSING_LOCAL_ID"), (["localId": "nobody", "displayName": "x"], "USER_NOT_FOUND"),
            (["localId": "nobody", "password": "correct horse"], "USER_NOT_FOUND"),
            (["localId": "bo", "email": "Ana@example.org"], "EMAIL_EXISTS"),
            (["localId": "bo", "phoneNumber": "+3069"], "PHONE_NUMBER_EXISTS"),
            (["localId": "bo", "linkProviderUserInfo": google], "FEDERATED_USER_ID_ALREADY_LINKED"),
        ]
        let before = try await bench.seen("bo")
        for (body, message) in refused {
            await #expect(throws: Refusal(message), "\(body)") { try await bench.administrate("accounts:update", body) }
        }
        #expect(try await bench.seen("bo") == before)
        try await bench.administrate("accounts:update", ["localId": "ana", "email": "ana@example.org", "linkProviderUserInfo": google])
    }

    @Test func passwordSetByAnAdministrator_endsSessions() async throws {
        let bench = try AccountBench()
        let (uid, session) = try await bench.newUser("ana@example.org")
        try await bench.administrate("accounts:update", ["localId": .string(uid), "password": "battery staple"])
        await #expect(throws: Refusal("TOKEN_EXPIRED")) { try await bench.refreshed(session) }
        await #expect(throws: Refusal.self) {
            try await bench.asClient("signInWithPassword", ["email": "ana@example.org", "password": "correct horse"])
        }
        try await bench.asClient("signInWithPassword", ["email": "ana@example.org", "password": "battery staple"])
    }

    @Test func administratorWithAnIDToken_actsAsThatUser() async throws {
        let bench = try AccountBench()
        let (uid, session) = try await bench.newUser("ana@example.org")
        try await bench.newUser("bo@example.org")
        let found = try await bench.exchange(
            .post, "\(AccountBench.v1)/accounts:lookup", [
                "idToken": session["idToken"] ?? .null
            ], authorization: "Bearer \(AccountBench.administrator)")
        #expect(found["users"]?.elements?.map { $0["localId"] } == [.string(uid)])
    }

    @Test func administrator_mayAskByTheClientsPaths() async throws {
        let bench = try AccountBench()
        for (create, lookup, update, delete) in [
            (
                "\(AccountBench.v1)/accounts:signUp", "\(AccountBench.v1)/accounts:lookup", "\(AccountBench.v1)/accounts:update",
                "\(AccountBench.v1)/accounts:delete"),
            ("\(AccountBench.legacy)/signupNewUser", "\(AccountBench.legacy)/getAccountInfo", "\(AccountBench.legacy)/setAccountInfo",
             "\(AccountBench.legacy)/deleteAccount"),
        ] {
            func ask(_ path: String, _ body: JSONValue) async throws -> JSONValue {
                try await bench.exchange(.post, path, body, authorization: "Bearer \(AccountBench.administrator)")
            }
            #expect(try await ask(create, ["localId": "ana", "targetProjectId": "demo-app"])["localId"] == "ana")
            #expect(try await ask(update, ["localId": "ana", "disableUser": true])["localId"] == "ana")
            #expect(try await ask(lookup, ["localId": ["ana"]])["users"]?.elements?.first?["disabled"] == true)
            #expect(try await ask(delete, ["localId": "ana"])["kind"] == "identitytoolkit#DeleteAccountResponse")
            // Clients are refused all of these.
            for (path, error) in [(lookup, "MISSING_ID_TOKEN"), (delete, "MISSING_ID_TOKEN"), (create, "UNEXPECTED_PARAMETER : User ID")] {
                await #expect(throws: Refusal(error)) { try await bench.exchange(.post, path + "?key=any", ["localId": "ana"]) }
            }
        }
    }

    // MARK: Roles

    @Test func check72_claims_areInTheTokensMadeAfter() async throws {
        let bench = try AccountBench()
        let (uid, session) = try await bench.newUser("ana@example.org")
        let id = JSONValue.string(uid)
        try await bench.administrate("accounts:update", ["localId": id, "customAttributes": #"{"role":"staff","n":[1,{"a":null}]}"#])
        #expect(try await bench.seen(uid)?["customAttributes"] == #"{"role":"staff","n":[1,{"a":null}]}"#)
        #expect(bench.claims(session)["role"] == nil)
        #expect(bench.claims(try await bench.refreshed(session))["role"] == "staff")
        #expect(bench.changes.all.map(\.kind) == [.claimsChanged])
        // Other fields keep the claims; equal claims are no change.
        try await bench.administrate("accounts:update", ["localId": id, "displayName": "Ana"])
        try await bench.administrate("accounts:update", ["localId": id, "customAttributes": #"{"role":"staff","n":[1,{"a":null}]}"#])
        #expect(bench.changes.all.count == 1)
        for (cleared, seen) in [("{}", "{}"), ("", nil), (.null, nil)] as [(JSONValue, JSONValue?)] {
            try await bench.administrate("accounts:update", ["localId": id, "customAttributes": #"{"role":"staff"}"#])
            try await bench.administrate("accounts:update", ["localId": id, "customAttributes": cleared])
            #expect(try await bench.seen(uid)?["customAttributes"] == seen)
            #expect(bench.claims(try await bench.refreshed(session))["role"] == nil)
        }
        // A client sees none of the claims, and can set none.
        #expect(try await bench.asClient(
            "lookup", ["idToken": session["idToken"] ?? .null])["users"]?.elements?.first?["customAttributes"] == nil)
    }

    @Test func check72_badClaims_areRefused() async throws {
        let bench = try AccountBench()
        try await bench.administrate("accounts", ["localId": "ana"])
        func set(_ claims: JSONValue) async throws {
            try await bench.administrate("accounts:update", ["localId": "ana", "customAttributes": claims])
        }
        for name in [
            "acr", "amr", "at_hash", "aud", "auth_time", "azp", "c_hash", "cnf", "exp", "firebase", "iat", "iss", "jti", "nbf", "nonce",
            "sub",
        ] {
            await #expect(throws: Refusal("FORBIDDEN_CLAIM : \(name)")) { try await set(.string(#"{"role":1,"\#(name)":1}"#)) }
        }
        for text in ["[1]", "1", #""x""#, "null", "{", #"{"a":1}x"#] {
            await #expect(throws: Refusal("INVALID_CLAIMS"), "\(text)") { try await set(.string(text)) }
        }
        func claims(_ length: Int) -> JSONValue { .string(#"{"a":""# + String(repeating: "x", count: length - 8) + #""}"#) }
        await #expect(throws: Refusal("CLAIMS_TOO_LARGE")) { try await set(claims(1001)) }
        #expect(try await bench.seen("ana")?["customAttributes"] == nil)
        try await set(claims(1000))
        #expect(try await bench.seen("ana")?["customAttributes"] == claims(1000))
    }

    // MARK: Live effects

    @Test func check73_revocation_endsEverySession() async throws {
        let bench = try AccountBench()
        let (uid, session) = try await bench.newUser("ana@example.org")
        let credential: JSONValue = ["email": "ana@example.org", "password": "correct horse"]
        let other = try await bench.asClient("signInWithPassword", credential)
        // In the same second, according to the clock of another machine that is ahead.
        try await bench.administrate("accounts:update", ["localId": .string(uid), "validSince": .int(bench.clock.seconds + 100)])
        #expect(bench.changes.all == [AccountChange(uid, .revoked)])
        for ended in [session, other] {
            await #expect(throws: Refusal("TOKEN_EXPIRED")) { try await bench.refreshed(ended) }
            await #expect(throws: Refusal("TOKEN_EXPIRED")) { try await bench.asClient("lookup", ["idToken": ended["idToken"] ?? .null]) }
        }
        let new = try await bench.asClient("signInWithPassword", credential)
        _ = try await bench.refreshed(new)
        try await bench.asClient("lookup", ["idToken": new["idToken"] ?? .null])
    }

    @Test func check74_disabledAccount_isOut_untilItIsEnabled() async throws {
        let bench = try AccountBench()
        let (uid, session) = try await bench.newUser("ana@example.org")
        let credential: JSONValue = ["email": "ana@example.org", "password": "correct horse"]
        try await bench.administrate("accounts:update", ["localId": .string(uid), "disableUser": true])
        #expect(bench.changes.all == [AccountChange(uid, .disabled)])
        #expect(try await bench.seen(uid)?["disabled"] == true)
        await #expect(throws: Refusal("USER_DISABLED")) { try await bench.refreshed(session) }
        await #expect(throws: Refusal("USER_DISABLED")) { try await bench.asClient("signInWithPassword", credential) }
        await #expect(throws: Refusal("USER_DISABLED")) { try await bench.asClient("lookup", ["idToken": session["idToken"] ?? .null]) }
        try await bench.administrate("accounts:update", ["localId": .string(uid), "disableUser": false])
        try await bench.asClient("signInWithPassword", credential)
        #expect(bench.changes.all.count == 1)
    }

    /// `{}` and no claims are equivalent for tokens and for connected clients.
    @Test func emptyClaims_areShown_andAreNoChange() async throws {
        let bench = try AccountBench()
        let (uid, _) = try await bench.newUser("ana@example.org")
        #expect(try await bench.seen(uid)?["customAttributes"] == nil)
        try await bench.administrate("accounts:update", ["localId": .string(uid), "customAttributes": "{}"])
        #expect(try await bench.seen(uid)?["customAttributes"] == "{}")
        #expect(bench.changes.all.isEmpty)
    }

    // MARK: Second factors

    private static let factors: JSONValue = [["phoneInfo": "+306900000000", "displayName": "Ana's"]]
    private static let noFactors = "OPERATION_NOT_ALLOWED : There are no second factors here; remove them from the account first"

    @Test func secondFactor_isRefused_whoeverSetsIt() async throws {
        let bench = try AccountBench()
        let (uid, session) = try await bench.newUser("ana@example.org")
        let before = try await bench.seen(uid)
        await #expect(throws: Refusal(Self.noFactors)) {
            try await bench.administrate(
                "accounts:update", ["localId": .string(uid), "displayName": "Ana", "mfa": ["enrollments": Self.factors]])
        }
        await #expect(throws: Refusal(Self.noFactors)) {
            try await bench.administrate("accounts", ["localId": "bo", "mfaInfo": Self.factors])
        }
        await #expect(throws: Refusal(Self.noFactors)) {
            try await bench.asClient("update", ["idToken": session["idToken"] ?? .null, "mfa": ["enrollments": Self.factors]])
        }
        await #expect(throws: Refusal(Self.noFactors)) {
            try await bench.asClient("signUp", ["email": "bo@example.org", "password": "correct horse", "mfaInfo": Self.factors])
        }
        #expect(try await bench.seen(uid) == before)
        #expect(try await bench.administrate("accounts:query", ["returnUserInfo": false])["recordsCount"] == "1")
    }

    @Test func noSecondFactor_mayBeSaid() async throws {
        let bench = try AccountBench()
        try await bench.administrate("accounts", ["localId": "ana", "mfaInfo": []])
        for none in [.object([]), ["enrollments": []], ["enrollments": .null], .null] as [JSONValue] {
            try await bench.administrate("accounts:update", ["localId": "ana", "displayName": "Ana", "mfa": none])
        }
        #expect(try await bench.seen("ana")?["displayName"] == "Ana")
    }

    // MARK: Deleting

    /// An ID token sent along does not select the account to change or delete.
    @Test func administrator_namesTheAccount_thatIsChangedOrDeleted() async throws {
        let bench = try AccountBench()
        let (uid, session) = try await bench.newUser("ana@example.org")
        try await bench.newUser("bo@example.org")
        for (verb, more) in [("delete", []), ("update", [.init("displayName", "Eve")])] as [(String, [JSONValue.Member])] {
            let body = JSONValue.object([.init("idToken", session["idToken"] ?? .null)] + more)
            for path in ["\(AccountBench.v1)/accounts:\(verb)", "\(AccountBench.v1)/projects/demo-app/accounts:\(verb)"] {
                await #expect(throws: Refusal("MISSING_LOCAL_ID"), "\(path)") {
                    try await bench.exchange(.post, path, body, authorization: "Bearer \(AccountBench.administrator)")
                }
            }
        }
        #expect(try await bench.seen(uid)?["displayName"] == nil)
        #expect(try await bench.administrate("accounts:query", ["returnUserInfo": false])["recordsCount"] == "2")
    }

    @Test func link_namesProviderAndIdentity() async throws {
        let bench = try AccountBench()
        try await bench.administrate("accounts", ["localId": "ana"])
        for (link, message) in [(["providerId": "google.com"], "MISSING_RAW_ID"), (["rawId": "1"], "MISSING_PROVIDER_ID")] as [(JSONValue, String)] {
            await #expect(throws: Refusal(message)) {
                try await bench.administrate("accounts:update", ["localId": "ana", "linkProviderUserInfo": link])
            }
        }
    }

    @Test func check71_deletedAccount_isGone() async throws {
        let bench = try AccountBench()
        let (uid, session) = try await bench.newUser("ana@example.org")
        await #expect(throws: Refusal("MISSING_LOCAL_ID")) { try await bench.administrate("accounts:delete") }
        #expect(
            try await bench.administrate("accounts:delete", ["localId": .string(uid)]) == ["kind": "identitytoolkit#DeleteAccountResponse"])
        #expect(bench.changes.all == [AccountChange(uid, .deleted)])
        #expect(try await bench.seen(uid) == nil)
        await #expect(throws: Refusal("USER_NOT_FOUND")) { try await bench.administrate("accounts:delete", ["localId": .string(uid)]) }
        await #expect(throws: Refusal("USER_NOT_FOUND")) { try await bench.refreshed(session) }
        // Its data in the database is still to be removed.
        #expect(await bench.service.pendingRemovals() == [uid])
    }

    @Test func check71_deletionOfMany_takesForceForEnabledOnes() async throws {
        let bench = try AccountBench { $0.changedAtOnce = 4 }
        for (id, isDisabled) in [("on", false), ("off", true), ("off2", true)] {
            try await bench.administrate("accounts", ["localId": .string(id), "disabled": .bool(isDisabled)])
        }
        let answer = try await bench.administrate("accounts:batchDelete", ["localIds": ["off", "nobody", "on", "off2"], "force": false])
        let errors = try #require(answer["errors"]?.elements)
        #expect(errors.map { $0["index"] } == [2] && errors.map { $0["localId"] } == ["on"])
        #expect(try #require(errors[0]["message"]?.string).hasPrefix("NOT_DISABLED : "))
        #expect(try await bench.administrate("accounts:query", ["returnUserInfo": false])["recordsCount"] == "1")
        #expect(bench.changes.all == [AccountChange("off", .deleted), AccountChange("off2", .deleted)])
        #expect(try await bench.administrate("accounts:batchDelete", ["localIds": ["on"], "force": true]) == [:])
        for ids in [[], ["a", "b", "c", "d", "e"]] as [JSONValue] {
            await #expect(throws: Refusal("LOCAL_ID_LIST_EXCEEDS_LIMIT : 1 to 4 accounts are deleted at once")) {
                try await bench.administrate("accounts:batchDelete", ["localIds": ids, "force": true])
            }
        }
    }

    // MARK: Links

    @Test func check54_link_isHandedToAnAdministrator_andNotMailed() async throws {
        let bench = try AccountBench { $0.hidesAccounts = true }
        let (uid, _) = try await bench.newUser("ana@example.org")
        let request: JSONValue = ["requestType": "VERIFY_EMAIL", "email": "ana@example.org", "returnOobLink": true]
        await #expect(throws: Refusal("INSUFFICIENT_PERMISSION")) { try await bench.asClient("sendOobCode", request) }
        let answer = try await bench.administrate("accounts:sendOobCode", request)
        let code = try #require(answer["oobCode"]?.string)
        #expect(try #require(answer["oobLink"]?.string).contains("oobCode=\(code)"))
        #expect(answer["email"] == "ana@example.org")
        try await bench.asClient("update", ["oobCode": .string(code)])
        #expect(try await bench.seen(uid)?["emailVerified"] == true)
        // An administrator gets the error for an unknown user.
        await #expect(throws: Refusal("EMAIL_NOT_FOUND")) {
            try await bench.administrate(
                "accounts:sendOobCode", ["requestType": "PASSWORD_RESET", "email": "no@example.org", "returnOobLink": true])
        }
        await #expect(throws: Refusal("USER_NOT_FOUND")) {
            try await bench.administrate(
                "accounts:sendOobCode", ["requestType": "VERIFY_EMAIL", "email": "no@example.org", "returnOobLink": true])
        }
    }

    // MARK: Session cookies

    @Test func sessionCookie_isATokenOfItsOwnIssuer_withItsOwnEnd() async throws {
        let bench = try AccountBench()
        let (uid, session) = try await bench.newUser("ana@example.org")
        let cookie = try #require(try await bench.sessionCookie(session["idToken"], seconds: "86400"))
        let claims = bench.claims(["idToken": cookie])
        #expect(
            claims["iss"] == "https://session.firebase.google.com/demo-app" && claims["aud"] == "demo-app" && claims["sub"] == .string(uid))
        #expect(claims["exp"] == .int(bench.clock.seconds + 86_400))
        await #expect(throws: Refusal("INVALID_ID_TOKEN")) { try await bench.asClient("lookup", ["idToken": cookie]) }
        for seconds in [299, 1_209_601] as [JSONValue] {
            await #expect(throws: Refusal("INVALID_DURATION")) { try await bench.sessionCookie(session["idToken"], seconds: seconds) }
        }
        await #expect(throws: Refusal("INVALID_ID_TOKEN")) { try await bench.sessionCookie(cookie, seconds: 300) }
    }
}
