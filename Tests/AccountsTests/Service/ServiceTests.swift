import Cryptography
import HTTPTypes
import JSONTree
import Testing
import TestSupport

@testable import Accounts
@testable import Tokens

/// Client-visible settings of the service, and createAuthUri.
@Suite(.timeLimit(.minutes(30))) struct ServiceTests {
    private static let v1 = "identitytoolkit.googleapis.com/v1"
    private static let v2 = "identitytoolkit.googleapis.com/v2"

    @Test func smallAnswers_areThoseThatTheSDKsRead() async throws {
        let bench = try AccountBench { $0.continueHosts = ["localhost"] }
        let project = try await bench.ask("\(Self.v1)/projects", method: .get)
        #expect(project["projectId"]?.string != nil && project["authorizedDomains"]?.elements?.contains("localhost") == true)
        #expect(
            try await bench.ask("www.googleapis.com/identitytoolkit/v3/relyingparty/getProjectConfig", method: .get).text == project.text)
        let policy = try await bench.ask("\(Self.v2)/passwordPolicy", method: .get)
        #expect(policy["schemaVersion"] == 1 && policy["customStrengthOptions"]?["minPasswordLength"] == 6)
        #expect(try await bench.ask("\(Self.v2)/recaptchaConfig", method: .get).text == #"{"recaptchaEnforcementState":[]}"#)
        #expect(try await bench.ask("\(Self.v1)/recaptchaParams", method: .get)["recaptchaSiteKey"] == "none")
    }

    /// `validatePassword` of the SDKs counts UTF-16 units, and signing up accepts the same passwords.
    @Test(arguments: [("😀😀😀", true), ("😀😀a", false), ("é", false)]) func passwords_areCountedAsThePolicySays(
        password: String, isTaken: Bool
    ) async throws {
        let bench = try AccountBench()
        let reply = try await bench.call("signUp", ["email": "ana@x.org", "password": .string(password)])
        #expect(reply.error == (isTaken ? nil : "WEAK_PASSWORD : Password should be at least 6 characters"))
    }

    @Test func longestPassword_isThatOfThePolicy() async throws {
        let bench = try AccountBench()
        let policy = try await bench.ask("\(Self.v2)/passwordPolicy", method: .get)
        let most = Int(try #require(policy["customStrengthOptions"]?["maxPasswordLength"]?.int))
        for (i, letter) in ["ab", "éa"].enumerated() {
            let longest = String(repeating: letter, count: most / 2)
            #expect(try await bench.call("signUp", ["email": .string("a\(i)@x.org"), "password": .string(longest)]).status == 200)
            let reply = try await bench.call("signUp", ["email": .string("b\(i)@x.org"), "password": .string(longest + "x")])
            #expect(reply.error == "WEAK_PASSWORD : Password should be at most 4096 characters")
        }
    }

    @Test func check38_keys_arePublic_andMayBeKept() async throws {
        let bench = try AccountBench()
        let keys = try await bench.ask(".well-known/jwks.json", method: .get, key: false)
        #expect(keys.status == 200 && keys.fields[.cacheControl] == "public, max-age=300")
        #expect(keys["keys"]?.elements?.count == 1)
        let document = try await bench.ask(".well-known/openid-configuration", method: .get, key: false)
        #expect(document["issuer"] == "https://securetoken.google.com/demo-app")
        #expect(document["jwks_uri"] == "https://hub.example.org/.well-known/jwks.json")
    }

    @Test func methodsOfAnAddress_areReported_unlessAccountsAreHidden() async throws {
        let body: JSONValue = ["identifier": "ANA@x.org", "continueUri": "http://localhost"]
        let open = try AccountBench()
        let made = try await open.signUp("ana@x.org")
        try await open.change(made) { $0.providers = [LinkedProvider(id: "google.com", rawID: "1099")] }
        let reply = try await open.call("createAuthUri", body)
        #expect(reply["kind"] == "identitytoolkit#CreateAuthUriResponse" && reply["registered"] == true)
        #expect(reply["signinMethods"] == ["password", "google.com"] && reply["allProviders"] == ["password", "google.com"])
        #expect(reply["sessionId"]?.string?.utf8.count == 27)
        let unknown = try await open.call("createAuthUri", ["identifier": "bob@x.org", "continueUri": "http://localhost", "sessionId": "s"])
        #expect(unknown["registered"] == false && unknown["sessionId"] == "s")
        let hidden = try AccountBench { $0.hidesAccounts = true }
        _ = try await hidden.signUp("ana@x.org")
        #expect(try await hidden.call("createAuthUri", body).body?.members?.map(\.name) == ["kind", "sessionId"])
    }

    @Test(arguments: [
        ("{}", "MISSING_IDENTIFIER"), (#"{"identifier":"a@x.org"}"#, "MISSING_CONTINUE_URI"),
        (#"{"identifier":"a","continueUri":"http://localhost"}"#, "INVALID_IDENTIFIER"),
        (#"{"identifier":"a@x.org","continueUri":"nowhere"}"#, "INVALID_CONTINUE_URI"),
    ]) func incompleteQuestions_areNamed(body: String, error: String) async throws {
        #expect(try await AccountBench().ask("\(Self.v1)/accounts:createAuthUri", raw: body).error == error)
    }

    @Test func events_areRecorded_withoutSecrets() async throws {
        let bench = try AccountBench()
        let made = try await bench.signUp("ana@x.org")
        _ = try await bench.signIn("ana@x.org", "wrong")
        _ = try await bench.signIn("ana@x.org")
        let uid = try #require(made["localId"]?.string)
        let rows = try await bench.service.stored { try $0.audit(of: uid, limit: 10).map { "\($0.event) \($0.peer ?? "")" } }
        #expect(rows == ["sign-in 192.0.2.7", "sign-in-failed 192.0.2.7", "sign-up 192.0.2.7"])
    }

    // MARK: Custom tokens

    private static let stored: StoredSigningKey = {
        do { return try StoredSigningKey.generate(.rs256, now: 0) } catch { fatalError("\(error)") }
    }()

    private static let publicKey: String = {
        do { return try PrivateKey(der: stored.privateKey).publicKey.pem() } catch { fatalError("\(error)") }
    }()

    private static let issuer = "server@demo-app.iam.gserviceaccount.com"

    private func token(_ bench: AccountBench, _ change: (inout [String: JSONValue]) -> Void = { _ in }) throws -> String {
        var claims: [String: JSONValue] = [
            "iss": .string(Self.issuer), "sub": .string(Self.issuer), "aud": .string(CustomTokens.audience), "uid": "chosen/uid",
            "iat": .int(bench.clock.seconds), "exp": .int(bench.clock.seconds + 3600), "claims": ["role": "guide"],
        ]
        change(&claims)
        return try SigningKey(Self.stored).sign(
            JSONValue.object(claims.sorted { $0.key < $1.key }.map { JSONValue.Member($0.key, $0.value) }).bytes)
    }

    private func benchWithIssuer(isDev: Bool = false) throws -> AccountBench {
        let key = try CustomTokenIssuer(name: Self.issuer, publicKeys: [Self.publicKey])
        return try AccountBench {
            $0.isDev = isDev
            $0.customTokenIssuers = [key]
        }
    }

    @Test func check76_customToken_signsInUnderItsUID_withClaimsOfThatSession() async throws {
        let bench = try benchWithIssuer()
        let first = try await bench.call("signInWithCustomToken", ["token": .string(try token(bench))])
        #expect(first["kind"] == "identitytoolkit#VerifyCustomTokenResponse" && first["isNewUser"] == true, "\(first.text)")
        #expect(first.claims["sub"] == "chosen/uid" && first.claims["role"] == "guide")
        #expect(first.claims["firebase"]?["sign_in_provider"] == "custom")
        let refreshed = try await bench.refresh(first["refreshToken"]?.string)
        #expect(Reply.claims(refreshed["id_token"])["role"] == "guide")
        let second = try await bench.call("signInWithCustomToken", ["token": .string(try token(bench) { $0["claims"] = nil })])
        #expect(second["isNewUser"] == false && second.claims["sub"] == "chosen/uid" && second.claims["role"] == nil)
        #expect(try await bench.user(second)["customAuth"] == true)
    }

    @Test func check76_otherCustomTokens_areRefused() async throws {
        let bench = try benchWithIssuer()
        let cases: [(String, String)] = [
            (try token(bench) { $0["aud"] = "x" }, "INVALID_CUSTOM_TOKEN"),
            (try token(bench) { $0["exp"] = .int(bench.clock.seconds) }, "INVALID_CUSTOM_TOKEN"),
            (try token(bench) { $0["claims"] = ["sub": "x"] }, "FORBIDDEN_CLAIM"),
            (try token(bench) { $0["uid"] = nil }, "MISSING_IDENTIFIER"),
            (#"{"uid":"x"}"#, "INVALID_CUSTOM_TOKEN"), (compact(#"{"alg":"none"}"#, #"{"uid":"x"}"#), "INVALID_CUSTOM_TOKEN"),
            ("", "MISSING_CUSTOM_TOKEN"),
        ]
        for (token, error) in cases {
            let reply = try await bench.call("signInWithCustomToken", ["token": .string(token)])
            #expect(reply.status == 400 && reply.error?.hasPrefix(error) == true, "\(reply.text)")
        }
        #expect(try await bench.service.stored { try $0.accounts(after: "", limit: 10) }.isEmpty)
        let dev = try benchWithIssuer(isDev: true)
        #expect(try await dev.call("signInWithCustomToken", ["token": #"{"uid":"x"}"#])["localId"] == "x")
    }
}
