import HTTPTypes
import Testing

@testable import Accounts

/// What clients are told of the service itself, and createAuthUri.
struct ServiceTests {
    private static let v1 = "identitytoolkit.googleapis.com/v1"
    private static let v2 = "identitytoolkit.googleapis.com/v2"

    @Test func small_answers_are_what_the_sdks_read() async throws {
        let bench = try AccountBench()
        let project = try await bench.ask("\(Self.v1)/projects", method: .get)
        #expect(project["projectId"]?.string != nil && project["authorizedDomains"]?.elements?.contains("localhost") == true)
        #expect(try await bench.ask("www.googleapis.com/identitytoolkit/v3/relyingparty/getProjectConfig", method: .get).text == project.text)
        let policy = try await bench.ask("\(Self.v2)/passwordPolicy", method: .get)
        #expect(policy["schemaVersion"] == 1 && policy["customStrengthOptions"]?["minPasswordLength"] == 6)
        #expect(try await bench.ask("\(Self.v2)/recaptchaConfig", method: .get).text == #"{"recaptchaEnforcementState":[]}"#)
        #expect(try await bench.ask("\(Self.v1)/recaptchaParams", method: .get)["recaptchaSiteKey"] == "none")
    }

    @Test func check38_keys_are_public_and_may_be_kept() async throws {
        let bench = try AccountBench()
        let keys = try await bench.ask(".well-known/jwks.json", method: .get, key: false)
        #expect(keys.status == 200 && keys.fields[.cacheControl] == "public, max-age=300")
        #expect(keys["keys"]?.elements?.count == 1)
        let document = try await bench.ask(".well-known/openid-configuration", method: .get, key: false)
        #expect(document["issuer"] == "https://securetoken.google.com/demo-app")
        #expect(document["jwks_uri"] == "https://hub.example.org/.well-known/jwks.json")
    }

    @Test func methods_of_an_address_are_told_unless_accounts_are_hidden() async throws {
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
        ("{}", "MISSING_IDENTIFIER"), (#"{"identifier":"a@x.org"}"#, "MISSING_CONTINUE_URI"), (#"{"identifier":"a","continueUri":"http://localhost"}"#, "INVALID_IDENTIFIER"),
        (#"{"identifier":"a@x.org","continueUri":"nowhere"}"#, "INVALID_CONTINUE_URI"),
    ]) func incomplete_questions_are_named(body: String, error: String) async throws {
        #expect(try await AccountBench().ask("\(Self.v1)/accounts:createAuthUri", raw: body).error == error)
    }

    @Test func events_are_written_down_without_secrets() async throws {
        let bench = try AccountBench()
        let made = try await bench.signUp("ana@x.org")
        _ = try await bench.signIn("ana@x.org", "wrong")
        _ = try await bench.signIn("ana@x.org")
        let uid = try #require(made["localId"]?.string)
        let rows = try await bench.service.stored { try $0.audit(of: uid, limit: 10).map { "\($0.event) \($0.peer ?? "")" } }
        #expect(rows == ["sign-in 192.0.2.7", "sign-in-failed 192.0.2.7", "sign-up 192.0.2.7"])
    }
}
