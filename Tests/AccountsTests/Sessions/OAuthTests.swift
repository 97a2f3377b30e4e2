import HTTPTypes
import JSONTree
import Testing

@testable import Accounts

/// OAuth 2 for an operator's own programs (accounts contract §12).
@Suite(.timeLimit(.minutes(30))) struct OAuthTests {
    private func bench(password: Bool = true, _ configure: (inout AccountSettings) -> Void = { _ in }) throws -> AccountBench {
        try AccountBench {
            $0.allowsPasswordGrant = password
            configure(&$0)
        }
    }

    private func form(
        _ bench: AccountBench, _ text: String, _ path: String = ".oauth/token", type: String = "application/x-www-form-urlencoded",
        fields: HTTPFields = [:]
    ) async throws -> Reply {
        var fields = fields
        fields[.contentType] = type
        return try await bench.ask(path, key: false, fields: fields, raw: text)
    }

    /// `400 invalid_grant`
    private func fault(_ reply: Reply) -> String { "\(reply.status) \(reply["error"]?.string ?? "-")" }

    @Test(arguments: [".oauth/token", "oauth2/token"]) func check78_passwordAndRefreshGrants_answerLikeOAuth(path: String) async throws {
        let bench = try bench()
        let made = try await bench.signUp("ana@x.org")
        let granted = try await form(bench, "grant_type=password&username=Ana%40x.org&password=correct+horse", path)
        #expect(granted.status == 200 && granted["token_type"] == "Bearer" && granted["expires_in"] == 3600, "\(granted.text)")
        #expect(granted.fields[.cacheControl] == "no-store" && granted.fields[.pragma] == "no-cache")
        #expect(Reply.claims(granted["access_token"])["sub"] == made["localId"])
        #expect(granted["scope"] == nil && granted["id_token"] == nil)
        let token = try #require(granted["refresh_token"]?.string)
        let again = try await form(bench, "grant_type=refresh_token&refresh_token=\(token)&client_id=cli&scope=openid", path)
        #expect(
            again.status == 200 && again["refresh_token"]?.string?.isEmpty == false && again["scope"] == "openid"
            && again["id_token"] == again["access_token"])
    }

    @Test func check78_errors_areThoseOfRFC6749() async throws {
        let bench = try bench()
        _ = try await bench.signUp("ana@x.org")
        let good = "grant_type=password&username=ana@x.org&password=correct%20horse"
        for (text, expected) in [
            (good, "200 -"), ("grant_type=password&username=ana@x.org&password=wrong", "400 invalid_grant"),
            ("grant_type=password&username=nobody@x.org&password=wrong", "400 invalid_grant"),
            ("grant_type=refresh_token&refresh_token=garbage", "400 invalid_grant"),
            ("grant_type=authorization_code&code=x", "400 unsupported_grant_type"), ("", "400 invalid_request"),
            ("grant_type=", "400 invalid_request"),
            ("grant_type=password&username=ana@x.org", "400 invalid_request"), (good + "&grant_type=password", "400 invalid_request"),
            (good + "&unknown=1&unknown=2", "400 invalid_request"), (good + "&unknown=1", "200 -"),
            (good + "&scope=admin", "400 invalid_scope"),
            ("grant_type=%FF", "400 invalid_request"),
        ] {
            let reply = try await form(bench, text)
            #expect(fault(reply) == expected, "\(text)")
            guard reply.status != 200 else { continue }
            #expect(reply["error_description"]?.string?.isEmpty == false && reply.fields[.cacheControl] == "no-store")
            #expect(reply["error"]?.members == nil, "not the identity endpoints' shape")
        }
        #expect(fault(try await form(bench, "", ".oauth/token?grant_type=password&username=a&password=b")) == "400 invalid_request")
        #expect(fault(try await form(bench, "{}", type: "application/json")) == "400 invalid_request")
        let basic = try await form(bench, good, fields: [.authorization: "Basic YTpi"])
        #expect(fault(basic) == "401 invalid_client" && basic.fields[.wwwAuthenticate] != nil)
    }

    @Test func check78_unknownAndWrong_lookTheSame() async throws {
        let bench = try bench()
        _ = try await bench.signUp("ana@x.org")
        let (unknown, wrong) = (
            try await form(bench, "grant_type=password&username=nobody&password=wrong"), try await form(
                bench, "grant_type=password&username=ana@x.org&password=wrong")
        )
        #expect(unknown.text == wrong.text && unknown.status == 400)
    }

    @Test func passwordGrant_isOffByDefault() async throws {
        let bench = try AccountBench()
        let made = try await bench.signUp("ana@x.org")
        #expect(
            fault(try await form(bench, "grant_type=password&username=ana@x.org&password=correct%20horse")) == "400 unsupported_grant_type")
        let token = try #require(made["refreshToken"]?.string)
        #expect(try await form(bench, "grant_type=refresh_token&refresh_token=\(token)").status == 200)
        #expect(
            try await bench.ask(".well-known/openid-configuration", method: .get, key: false)["grant_types_supported"] == ["refresh_token"])
    }

    @Test func alias_signsInLikeTheAddress() async throws {
        let bench = try bench()
        let made = try await bench.signUp("ana@x.org")
        try await bench.change(made) { $0.alias = "ana.k" }
        for name in ["ana.k", "Ana.K"] {
            let granted = try await form(bench, "grant_type=password&username=\(name)&password=correct%20horse")
            #expect(granted.status == 200 && Reply.claims(granted["access_token"])["sub"] == made["localId"])
        }
        #expect(fault(try await form(bench, "grant_type=password&username=ana&password=correct%20horse")) == "400 invalid_grant")
    }

    @Test func throttledAndDisabledAccounts_areRefused() async throws {
        let bench = try bench { $0.throttle.isOn = true }
        let made = try await bench.signUp("ana@x.org")
        try await bench.change(made) { $0.isDisabled = true }
        let good = "grant_type=password&username=ana@x.org&password=correct%20horse"
        #expect(try await form(bench, good)["error_description"] == "The account is disabled.")
        try await bench.change(made) { $0.isDisabled = false }
        for _ in 0..<6 { _ = try await form(bench, "grant_type=password&username=ana@x.org&password=wrong") }
        let throttled = try await form(bench, good)
        #expect(fault(throttled) == "400 invalid_grant" && throttled["error_description"]?.string?.contains("Too many") == true)
    }

    @Test func check79_revocation_endsThatSessionOnly() async throws {
        let bench = try bench()
        let (one, two, three) = (
            try await bench.signUp("ana@x.org"), try await bench.signIn("ana@x.org"), try await bench.signIn("ana@x.org"))
        func refreshed(_ reply: Reply) async throws -> String {
            let made = try await bench.refresh(reply["refreshToken"]?.string)
            return made.error ?? "ok"
        }
        let revoked = try await form(bench, "token=\(one["refreshToken"]?.string ?? "")&token_type_hint=refresh_token", ".oauth/revoke")
        #expect(revoked.status == 200 && revoked.text.isEmpty)
        #expect(try await refreshed(one) == "TOKEN_EXPIRED")
        #expect(try await refreshed(two) == "ok")
        #expect(try await bench.call("lookup", ["idToken": one["idToken"] ?? .null]).error == "TOKEN_EXPIRED")
        let session = try #require(one.claims["sid"]?.string)
        let uid = try #require(one["localId"]?.string)
        #expect(bench.changes.all.last == AccountChange(uid, .sessionEnded(session)))
        #expect(
            try await form(bench, "token=\(two["idToken"]?.string ?? "")", "oauth2/revoke").status == 200,
            "an ID token names its session, too")
        #expect(try await refreshed(two) == "TOKEN_EXPIRED")
        #expect(try await refreshed(three) == "ok")
        for unknown in ["token=garbage", "token=\(one["refreshToken"]?.string ?? "")"] {
            #expect(try await form(bench, unknown, ".oauth/revoke").status == 200)
        }
        #expect(fault(try await form(bench, "", ".oauth/revoke")) == "400 invalid_request")
    }

    @Test func check38_keysAndDiscovery_arePublished() async throws {
        let bench = try bench()
        let made = try await bench.signUp()
        let keys = try await bench.ask(".well-known/jwks.json", method: .get, key: false)
        #expect(keys.status == 200 && keys.fields[.cacheControl] == "public, max-age=300")
        let first = try #require(made["idToken"]?.string?.split(separator: ".").first)
        let header = try JSONValue(try #require(Base64.decodeURL(first)))
        #expect(keys["keys"]?.elements?.contains { $0["kid"] == header["kid"] && $0["alg"] == "ES256" && $0["use"] == "sig"
            && $0["d"] == nil } == true)
        let found = try await bench.ask(".well-known/openid-configuration", method: .get, key: false)
        #expect(found["issuer"] == made.claims["iss"] && found["jwks_uri"] == "https://hub.example.org/.well-known/jwks.json")
        #expect(
            found["token_endpoint"] == "https://hub.example.org/.oauth/token"
            && found["grant_types_supported"] == ["password", "refresh_token"])
        #expect(found["id_token_signing_alg_values_supported"] == ["ES256"])
    }
}
