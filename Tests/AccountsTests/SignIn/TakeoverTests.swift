import HTTPTypes
import JSONTree
import Testing
import TestSupport

@testable import Accounts
@testable import Mail

/// Attempts to take over another user's account, step by step. `ana` owns `ana@gmail.com`; the other users attack her.
@Suite(.timeLimit(.minutes(30))) struct TakeoverTests {
    private let ana = "ana@gmail.com"
    private let evil = "evil@a.org"

    private func bench(hides: Bool = true, _ configure: (inout AccountSettings) -> Void = { _ in }) throws -> AccountBench {
        try AccountBench(fetcher: TestProvider()) {
            $0.identityProviders = [.google(clientIDs: [TestProvider.clientID])]
            $0.hidesAccounts = hides
            $0.recoverCodeSeconds = 14 * 86_400
            configure(&$0)
        }
    }

    // MARK: Actions

    /// An account whose address was proven.
    private func signUpProven(_ bench: AccountBench, _ email: String, _ password: String = "correct horse") async throws -> Reply {
        let made = try await bench.signUp(email, password)
        #expect(try await bench.call("update", ["oobCode": .string(try await bench.code("VERIFY_EMAIL", email))])["emailVerified"] == true)
        return made
    }

    private func update(_ bench: AccountBench, _ signedIn: Reply, _ name: String, _ value: JSONValue) async throws -> Reply {
        try await bench.call("update", .object([.init("idToken", signedIn["idToken"] ?? .null), .init(name, value)]))
    }

    private func link(_ bench: AccountBench, _ signedIn: Reply, _ email: String, _ password: String) async throws -> Reply {
        try await bench.call("signUp", ["idToken": signedIn["idToken"] ?? .null, "email": .string(email), "password": .string(password)])
    }

    private func apply(_ bench: AccountBench, _ code: String) async throws -> Reply {
        try await bench.call("update", ["oobCode": .string(code)])
    }

    /// Moves an account to an address that its user proves.
    private func move(_ bench: AccountBench, from former: String, to email: String) async throws {
        let reply = try await apply(bench, try await bench.code("VERIFY_AND_CHANGE_EMAIL", former, newEmail: email))
        #expect(reply["email"] == .string(email), "\(reply.text)")
    }

    private func google(
        _ bench: AccountBench, _ signedIn: Reply? = nil, _ change: (inout [String: JSONValue]) -> Void = { _ in }
    ) async throws -> Reply {
        let body = "id_token=\(try TestProvider.token(bench, change))&providerId=google.com"
        var members: [JSONValue.Member] = [.init("requestUri", "http://localhost"), .init("postBody", .string(body))]
        members.add("idToken", signedIn?["idToken"])
        return try await bench.call("signInWithIdp", .object(members))
    }

    /// The ways to prove an address. Returns the sign-in.
    enum Proof: CaseIterable { case reset, link, google }

    private func prove(_ bench: AccountBench, _ email: String, _ proof: Proof) async throws -> Reply {
        let reply: Reply
        switch proof {
        case .reset:
            let code = try await bench.code("PASSWORD_RESET", email)
            #expect(try await bench.call("resetPassword", ["oobCode": .string(code), "newPassword": "hers alone"]).status == 200)
            reply = try await bench.signIn(email, "hers alone")
        case .link: reply = try await bench.call(
            "signInWithEmailLink", ["email": .string(email), "oobCode": .string(try await bench.code("EMAIL_SIGNIN", email))])
        case .google: reply = try await google(bench) { $0["email"] = .string(email) }
        }
        #expect(reply.status == 200, "\(reply.text)")
        return reply
    }

    private func account(_ bench: AccountBench, _ reply: Reply) async throws -> Account {
        let uid = try #require(reply["localId"]?.string)
        return try #require(try await bench.service.stored { try $0.account(.id(uid)) })
    }

    private func waysBack(_ bench: AccountBench, _ reply: Reply) async throws -> [String] {
        let uid = try #require(reply["localId"]?.string)
        return try await bench.service.stored { try $0.codes(of: uid) }.filter { $0.kind == .recoverEmail }.map(\.email)
    }

    // MARK: An account prepared for its victim

    @Test func squatter_writesNobodysAddress_intoAnAccountOfAnother() async throws {
        let bench = try bench()
        let made = try await signUpProven(bench, evil)
        #expect(try await link(bench, made, ana, "evil horse").error == "OPERATION_NOT_ALLOWED")
        #expect(try await update(bench, made, "email", .string(ana)).error == "OPERATION_NOT_ALLOWED")
        // The squatter may use their own address, and a guest may take a first one.
        #expect(try await link(bench, made, evil, "evil horse 2").status == 200)
        let guest = try await bench.signUp()
        #expect(try await link(bench, guest, "bob@x.org", "correct horse").status == 200)
    }

    /// Without protection the address can be set. Its owner gets the account, and the squatter can no longer undo that.
    @Test(
        arguments: Proof.allCases, [true, false]
    ) func squatter_hasNoWayBack_onceTheOwnerCame(proof: Proof, byLink: Bool) async throws {
        let bench = try bench(hides: false)
        let made = try await signUpProven(bench, evil, "evil horse")
        try await bench.change(made) {
            $0.phoneNumber = "+3069"
            $0.providers = [LinkedProvider(id: "apple.com", rawID: "7")]
        }
        let squatting = byLink ? try await link(bench, made, ana, "evil horse") : try await update(bench, made, "email", .string(ana))
        #expect(squatting.status == 200)
        let message = await bench.mailbox.next()
        #expect(message.kind == .recoverEmail && message.to.text == evil)

        let owner = try await prove(bench, ana, proof)
        #expect(try await apply(bench, try #require(message.code)).error == "INVALID_OOB_CODE")
        #expect(try await bench.signIn(ana, "evil horse").error == "INVALID_PASSWORD")
        #expect(try await bench.refresh(squatting["refreshToken"]?.string).error == "TOKEN_EXPIRED")
        let account = try await account(bench, owner)
        #expect(account.email == ana && account.isEmailVerified && account.phoneNumber == nil && account.initialEmail == nil)
        #expect(account.providers.map(\.id) == (proof == .google ? ["google.com"] : []))
        // A later change by her reveals nothing to the squatter either.
        try await move(bench, from: ana, to: "ana@new.org")
        #expect(try await waysBack(bench, owner) == [ana])
    }

    @Test func squatter_doesNotKeepAnAccount_byClearingItsAddressFirst() async throws {
        let bench = try bench()
        let made = try await signUpProven(bench, evil, "evil horse")
        let cleared = try await update(bench, made, "deleteAttribute", ["EMAIL"])
        #expect(cleared.status == 200 && cleared["email"] == nil)
        // While the squatter could undo the change, no other user's address is accepted.
        #expect(try await link(bench, cleared, ana, "evil horse").error == "OPERATION_NOT_ALLOWED")
        let linked = try await google(bench, cleared) { $0["email_verified"] = false }
        #expect(linked.status == 200 && linked["email"] == nil, "\(linked.text)")
        // It is accepted once the undo has expired, and nothing leads back.
        bench.clock.advance(seconds: 14 * 86_400)
        let fresh = try await bench.refresh(linked["refreshToken"]?.string)
        let body: JSONValue = ["idToken": fresh["id_token"] ?? .null, "email": .string(ana), "password": "evil horse"]
        #expect(try await bench.call("signUp", body).status == 200)
        let owner = try await prove(bench, ana, .link)
        #expect(try await account(bench, owner).providers.isEmpty)
        #expect(try await waysBack(bench, owner).isEmpty)
    }

    // MARK: An address that has another owner now

    @Test func formerOwnerOfARecycledAddress_isOut() async throws {
        let bench = try bench()
        let former = try await google(bench)
        let withPassword = try await link(bench, former, ana, "former horse")
        #expect(withPassword.status == 200, "\(withPassword.text)")
        try await bench.change(former) { $0.phoneNumber = "+3069" }
        let owner = try await google(bench) { $0["sub"] = "2000" }
        #expect(owner["localId"] == former["localId"] && owner["emailRecycled"] == true)
        #expect(try await bench.refresh(withPassword["refreshToken"]?.string).error == "TOKEN_EXPIRED")
        #expect(try await bench.call("lookup", ["idToken": withPassword["idToken"] ?? .null]).error == "TOKEN_EXPIRED")
        #expect(try await bench.signIn(ana, "former horse").error == "INVALID_LOGIN_CREDENTIALS")
        let account = try await account(bench, owner)
        #expect(account.providers.map(\.rawID) == ["2000"] && account.phoneNumber == nil)
    }

    // MARK: A stolen token

    @Test func stolenToken_linksNoService_andMakesNoSignInRecent() async throws {
        let bench = try bench { $0.recentLoginSeconds = 300 }
        let owner = try await signUpProven(bench, "ana@x.org")
        bench.clock.advance(seconds: 200)
        // A recent sign-in may link it, but the sign-in time stays the owner's.
        let linked = try await google(bench, owner)
        #expect(linked.status == 200 && linked.claims["auth_time"] == owner.claims["auth_time"] && linked.claims["auth_time"] != nil)
        bench.clock.advance(seconds: 101)
        #expect(try await update(bench, linked, "password", "evil horse").error == "CREDENTIAL_TOO_OLD_LOGIN_AGAIN")
        let other = try await signUpProven(bench, "bob@x.org")
        bench.clock.advance(seconds: 301)
        #expect(try await google(bench, other) { $0["sub"] = "evil" }.error == "CREDENTIAL_TOO_OLD_LOGIN_AGAIN")
        #expect(try await account(bench, other).providers.isEmpty)
        // Guests cannot prove their identity.
        let guest = try await bench.signUp()
        bench.clock.advance(seconds: 301)
        #expect(try await google(bench, guest) {
            $0["sub"] = "guest"
            $0["email"] = "guest@gmail.com"
        }.status == 200)
    }

    @Test(
        arguments: ["deleteAttribute", "deleteProvider"]
    ) func thiefWhoClearsTheAddressFirst_isUndoneAllTheSame(how: String) async throws {
        let bench = try bench()
        let owner = try await signUpProven(bench, ana)
        let cleared = try await update(bench, owner, how, [how == "deleteProvider" ? "password" : "EMAIL"])
        #expect(cleared.status == 200 && cleared["email"] == nil, "\(cleared.text)")
        let message = await bench.mailbox.next()
        #expect(message.kind == .recoverEmail && message.to.text == ana && message.text.contains("from \(ana) to none"))
        // An unproven address is not accepted: reclaiming it would let the thief end the undo.
        #expect(try await link(bench, cleared, "thief@x.org", "evil horse").error == "OPERATION_NOT_ALLOWED")
        let code = try await bench.code("EMAIL_SIGNIN", "thief@x.org")
        let body: JSONValue = ["idToken": cleared["idToken"] ?? .null, "email": "thief@x.org", "oobCode": .string(code)]
        #expect(try await bench.call("signInWithEmailLink", body).status == 200)
        let back = try await apply(bench, try #require(message.code))
        #expect(back["localId"] == owner["localId"] && back["email"] == .string(ana))
    }

    @Test func thief_keepsNothing_onceTheOwnerIsBack() async throws {
        let bench = try bench()
        let owner = try await signUpProven(bench, ana)
        try await move(bench, from: ana, to: "thief@x.org")
        let message = await bench.mailbox.next()
        let thief = try await bench.signIn("thief@x.org")
        let set = try await update(bench, thief, "password", "evil horse")
        let linked = try await google(bench, set) {
            $0["sub"] = "evil"
            $0["email"] = "evil@gmail.com"
        }
        #expect(linked.status == 200)
        try await bench.change(owner) { $0.phoneNumber = "+3069" }

        #expect(try await apply(bench, try #require(message.code))["email"] == .string(ana))
        #expect(try await bench.signIn(ana, "evil horse").error == "INVALID_LOGIN_CREDENTIALS")
        #expect(try await bench.refresh(linked["refreshToken"]?.string).error == "TOKEN_EXPIRED")
        let account = try await account(bench, owner)
        #expect(account.passwordHash == nil && account.providers.isEmpty && account.phoneNumber == nil && account.email == ana)
        // The thief's own identity belongs to no account now: it signs in to another one.
        let later = try await google(bench) {
            $0["sub"] = "evil"
            $0["email"] = "evil@gmail.com"
        }
        #expect(later["isNewUser"] == true && later["localId"] != owner["localId"])
        // A mail gives her a password of her own.
        let reset = await bench.mailbox.next()
        #expect(reset.kind == .resetPassword && reset.to.text == ana)
        #expect(
            try await bench.call("resetPassword", ["oobCode": .string(try #require(reset.code)), "newPassword": "hers alone"]).status == 200
        )
        #expect(try await bench.signIn(ana, "hers alone")["localId"] == owner["localId"])
    }

    @Test func thief_doesNotEndTheOwnersWayBack_byOneOfTheirOwn() async throws {
        let bench = try bench()
        let owner = try await signUpProven(bench, ana)
        try await move(bench, from: ana, to: "thief@x.org")
        let message = await bench.mailbox.next()
        bench.clock.advance(seconds: 60)
        try await move(bench, from: "thief@x.org", to: "thief2@x.org")
        let thiefs = await bench.mailbox.next()
        #expect(thiefs.to.text == "thief@x.org")
        #expect(try await apply(bench, try #require(thiefs.code))["email"] == "thief@x.org")
        #expect(try await waysBack(bench, owner) == [ana])
        // Her undo ends everything that came after it.
        bench.clock.advance(seconds: 60)
        try await move(bench, from: "thief@x.org", to: "thief3@x.org")
        #expect(try await apply(bench, try #require(message.code))["email"] == .string(ana))
        #expect(try await waysBack(bench, owner).isEmpty)
        #expect(try await account(bench, owner).email == ana)
    }

    // MARK: Recipients of mail

    @Test func wayBack_goesToTheAddressProvenLast() async throws {
        let bench = try bench()
        // Mistyped at the beginning: a stranger's address.
        let owner = try await bench.signUp("stranger@x.org")
        try await move(bench, from: "stranger@x.org", to: ana)
        #expect(try await waysBack(bench, owner).isEmpty)
        try await move(bench, from: ana, to: "ana@new.org")
        #expect(try await waysBack(bench, owner) == [ana])
        let message = await bench.mailbox.next()
        #expect(message.kind == .recoverEmail && message.to.text == ana)
    }

    @Test func address_typedBySomebodyElse_getsNoMail() async throws {
        let bench = try bench(hides: false)
        var signedIn = try await bench.signUp("victim@x.org")
        for i in 0..<5 {
            signedIn = try await update(bench, signedIn, "email", .string("other\(i)@x.org"))
            signedIn = try await update(bench, signedIn, "email", "victim@x.org")
        }
        signedIn = try await update(bench, signedIn, "deleteAttribute", ["EMAIL"])
        #expect(signedIn.status == 200)
        // Messages arrive in order: this one is the first.
        _ = try await bench.signUp(ana)
        _ = try await bench.call("sendOobCode", ["requestType": "PASSWORD_RESET", "email": .string(ana)])
        #expect(await bench.mailbox.next().to.text == ana)
        #expect(bench.mailbox.count == 0)
    }

    /// Without any proof, as in the test suites of the stock SDKs.
    @Test func check42_developmentHub_hasAWayBackToAnyFirstAddress() async throws {
        let bench = try bench(hides: false) { $0.isDev = true }
        let made = try await bench.signUp("ana@x.org")
        _ = try await update(bench, made, "email", "new@x.org")
        #expect(try await waysBack(bench, made) == ["ana@x.org"])
    }

    // MARK: Information in answers, and names that look alike

    @Test(arguments: [true, false]) func unprovenClaimToAnAddress_learnsNothingOfItsAccount(hides: Bool) async throws {
        let bench = try bench(hides: hides)
        let made = try await signUpProven(bench, ana)
        let reply = try await google(bench) { $0["email_verified"] = false }
        #expect(reply["needConfirmation"] == true && reply["email"] == .string(ana) && reply["idToken"] == nil)
        #expect(reply["localId"] == (hides ? nil : made["localId"]) && reply["verifiedProvider"] == (hides ? nil : ["password"]))
    }

    @Test func names_haveNoControlCharacters() async throws {
        let bench = try bench { $0.isDev = true }
        // SQLite would end the id at U+0000, where the other id ends.
        _ = try await google(bench)
        for sub in ["1099\u{0}", "1099\u{0}2", "\u{7}", "a\u{85}"] {
            let reply = try await google(bench) {
                $0["sub"] = .string(sub)
                $0["email"] = nil
            }
            #expect(reply.error?.hasPrefix("INVALID_IDP_RESPONSE : ") == true, "\(reply.text)")
            let custom = try await bench.call(
                "signInWithCustomToken", ["token": .string(JSONValue.object([.init("uid", .string(sub))]).json)])
            #expect(custom.error?.hasPrefix("INVALID_CUSTOM_TOKEN : ") == true, "\(custom.text)")
            let made = try await bench.ask(
                "identitytoolkit.googleapis.com/v1/projects/demo-app/accounts", ["localId": .string(sub)], key: false,
                fields: [.authorization: "Bearer \(AccountBench.administrator)"])
            // U+0000 appears in no body at all.
            let isRead = !sub.contains("\u{0}")
            #expect(made.status == 400 && made.error == (
                isRead ? "INVALID_LOCAL_ID : It has no control characters" : "Invalid JSON payload received. No text may hold U+0000."))
        }
        #expect(try await bench.call("signInWithCustomToken", ["token": #"{"uid":"Άνα@x/1"}"#]).status == 200)
    }

    @Test func oneVisibleCharacter_isNotAnyNumberOfBytes() async throws {
        let bench = try bench()
        let made = try await bench.signUp("ana@x.org")
        let long = "a" + String(repeating: "\u{301}", count: 256)
        #expect(long.count == 1)
        #expect(try await update(bench, made, "displayName", .string(long)).status == 400)
        let linked = try await google(bench) { $0["name"] = .string(long) }
        #expect(linked["displayName"]?.string?.unicodeScalars.count == 256)
    }

    // MARK: Notifications to connections

    @Test func lossOfAnIdentityOrAProof_isAnnounced() async throws {
        let bench = try bench()
        let made = try await google(bench)
        let uid = try #require(made["localId"]?.string)
        let project = "identitytoolkit.googleapis.com/v1/projects/demo-app/accounts:update"
        func administer(_ name: String, _ value: JSONValue) async throws {
            let body: JSONValue = .object([.init("localId", .string(uid)), .init(name, value)])
            let reply = try await bench.ask(project, body, key: false, fields: [.authorization: "Bearer \(AccountBench.administrator)"])
            #expect(reply.status == 200, "\(reply.text)")
        }
        bench.changes.removeAll()
        try await administer("emailVerified", true)
        #expect(bench.changes.all.isEmpty)
        try await administer("emailVerified", false)
        #expect(bench.changes.all == [AccountChange(uid, .claimsChanged)])
        try await administer("deleteProvider", ["google.com"])
        #expect(bench.changes.all == [AccountChange(uid, .claimsChanged), AccountChange(uid, .claimsChanged)])
    }
}
