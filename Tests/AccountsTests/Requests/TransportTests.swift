import GRDB
import HTTPTypes
import JSONTree
import Testing

@testable import Accounts

@Suite(.timeLimit(.minutes(30))) struct TransportTests {
    private static let lookup = "identitytoolkit.googleapis.com/v1/accounts:lookup"

    @Test(arguments: [
        ("accounts:signUp", "signupNewUser"), ("accounts:signInWithPassword", "verifyPassword"), ("accounts:lookup", "getAccountInfo"),
        ("accounts:update", "setAccountInfo"), ("accounts:delete", "deleteAccount"), ("accounts:sendOobCode", "getOobConfirmationCode"),
        ("accounts:resetPassword", "resetPassword"), ("accounts:signInWithEmailLink", "emailLinkSignin"),
    ]) func check1_bothNames_areTheSame(name: String, legacy: String) async throws {
        let bench = try AccountBench()
        for body: JSONValue in [
            [:], ["email": "not.mail", "password": "x", "oobCode": "x", "requestType": 1], ["idToken": "x", "requestType": 4],
        ] {
            if name == "accounts:signUp", body == .object([]) { continue }
            let replies = [
                try await bench.ask("identitytoolkit.googleapis.com/v1/\(name)", body),
                try await bench.ask("identitytoolkit.googleapis.com/v1/" + name.replacing(":", with: "%3A"), body),
                try await bench.ask("www.googleapis.com/identitytoolkit/v3/relyingparty/\(legacy)", body),
            ]
            #expect(Set(replies.map(\.text)).count == 1)
            #expect(replies[0].status == 400 && replies[0].error != nil)
        }
    }

    @Test func check2_requestWithoutKey_isRefused() async throws {
        let reply = try await AccountBench().ask(Self.lookup, key: false)
        #expect(reply.status == 403)
        #expect(reply.error == "The request is missing a valid API key.")
        #expect(reply.body?["error"]?["status"] == "PERMISSION_DENIED")
        #expect(reply.body?["error"]?["errors"]?.elements?.first?["reason"] == "forbidden")
    }

    @Test func check3_key_comesInQueryOrField() async throws {
        let bench = try AccountBench()
        let field = try #require(HTTPField.Name("x-goog-api-key"))
        #expect(try await bench.ask(Self.lookup, key: false, fields: [field: "k"]).error == "MISSING_ID_TOKEN")
        #expect(try await bench.ask(Self.lookup + "?key=k", key: false).error == "MISSING_ID_TOKEN")
        #expect(try await bench.ask(Self.lookup + "?key=", key: false).status == 403)
    }

    @Test func check4And5_owner_isAnAdministrator_ofDevelopmentHubsOnly() async throws {
        for isDev in [true, false] {
            let bench = try AccountBench { $0.isDev = isDev }
            #expect(try await bench.ask(Self.lookup, key: false, fields: [.authorization: "Basic x"]).status == 403)
            let nonsense = try await bench.ask(Self.lookup, fields: [.authorization: "Bearer nonsense"])
            #expect(nonsense.status == 401 && nonsense.body?["error"]?["status"] == "UNAUTHENTICATED")
            for owner in ["bEArEr OWNER", "Bearer owner", "Bearer ya29.x"] {
                #expect(try await bench.ask(Self.lookup, key: false, fields: [.authorization: owner]).status == (isDev ? 400 : 401))
            }
            #expect(
                try await bench.ask(Self.lookup, key: false, fields: [.authorization: "Bearer \(AccountBench.administrator)"]).status == 400
            )
        }
    }

    @Test func check7_requestTypesAndNames_comeInAllSpellings() async throws {
        let bench = try AccountBench()
        var replies: [String] = []
        for body in [
            #"{"request_type":"PASSWORD_RESET","email":"a@x.org"}"#, #"{"requestType":1,"email":"a@x.org"}"#,
            #"{"requestType":"PASSWORD_RESET","email":"a@x.org"}"#,
        ] {
            let reply = try await bench.ask("identitytoolkit.googleapis.com/v1/accounts:sendOobCode", raw: body)
            #expect(reply.error == "EMAIL_NOT_FOUND")
            replies.append(reply.text)
        }
        #expect(Set(replies).count == 1)
    }

    @Test func check8_unknownMembers_areIgnored() async throws {
        let reply = try await AccountBench().call(
            "signUp",
            [
                "captchaResponse": "x", "clientType": "CLIENT_TYPE_WEB", "tenantId": .null, "instanceId": "i",
                "recaptchaVersion": "RECAPTCHA_ENTERPRISE",
                "whatever": ["a": [1, .null]], "return_secure_token": true,
            ])
        #expect(reply.status == 200)
    }

    @Test(
        arguments: ["{", "[]", "7", "{\"a\":}", "{\"email\":\"a\\u0000\"}"]
    ) func check9_malformedBody_isAnInvalidArgument(body: String) async throws {
        let reply = try await AccountBench().ask(Self.lookup, raw: body)
        #expect(reply.status == 400)
        #expect(reply.error?.hasPrefix("Invalid JSON payload received") == true)
        #expect(reply.body?["error"]?["status"] == "INVALID_ARGUMENT")
    }

    @Test func check10_everyError_hasTheContractsShape() async throws {
        let bench = try AccountBench()
        let replies = [
            try await bench.call("lookup"), try await bench.ask(Self.lookup, key: false), try await bench.ask(
                "identitytoolkit.googleapis.com/v1/nothing"),
            try await bench.ask("identitytoolkit.googleapis.com/v2/accounts:revokeToken"), try await bench.ask(Self.lookup, raw: "{"),
            try await bench.ask(Self.lookup, method: .get), try await bench.ask(Self.lookup, fields: [.authorization: "Bearer x"]),
        ]
        #expect(replies.map(\.status) == [400, 403, 404, 501, 400, 405, 401])
        for reply in replies {
            #expect(reply.fields[.contentType]?.hasPrefix("application/json") == true)
            #expect(reply.body?["error"]?["code"] == .int(Int64(reply.status)))
            #expect(reply.error?.isEmpty == false)
            let first = try #require(reply.body?["error"]?["errors"]?.elements?.first?.members)
            #expect(!first.isEmpty && first.allSatisfy { $0.value.string != nil })
        }
        #expect(replies[3].body?["error"]?["status"] == "NOT_IMPLEMENTED")
    }

    @Test func check11And12_answers_holdNoNull_andTimesAreStrings() async throws {
        let bench = try AccountBench()
        let made = try await bench.signUp("ana@x.org")
        let replies = [
            made, try await bench.signUp(), try await bench.signIn("ana@x.org"),
            try await bench.call("lookup", ["idToken": made["idToken"] ?? .null]),
            try await bench.call(
                "update",
                ["idToken": made["idToken"] ?? .null, "displayName": .null]), try await bench.refresh(made["refreshToken"]?.string),
        ]
        for reply in replies {
            #expect(reply.status == 200)
            #expect(!reply.text.contains("null"))
            for name in ["needConfirmation", "errorMessage", "mfaPendingCredential"] { #expect(!reply.text.contains(name)) }
            #expect(reply.fields[.cacheControl] == "no-store")
            for name in ["expiresIn", "expires_in"] { if let value = reply[name] { #expect(value == "3600") } }
        }
        let user = try await bench.user(made)
        for name in ["createdAt", "lastLoginAt", "validSince"] {
            let text = try #require(user[name]?.string)
            #expect(!text.isEmpty && text.allSatisfy(\.isNumber))
        }
        #expect(user["lastRefreshAt"] == "2026-09-21T14:13:20.000Z")
    }

    @Test func check13_failingStore_signsNobodyOut() async throws {
        let bench = try AccountBench()
        let made = try await bench.signUp("ana@x.org")
        try await bench.service.breakStore()
        for reply in [
            try await bench.call("lookup", ["idToken": made["idToken"] ?? .null]), try await bench.refresh(made["refreshToken"]?.string),
        ] {
            #expect(reply.status == 503)
            #expect(reply.body == nil)
        }
        let signIn = try await bench.signIn("ana@x.org")
        #expect(signIn.status == 500 && signIn.body?["error"]?["status"] == "INTERNAL")
    }

    @Test func client_namesNoProject() async throws {
        let reply = try await AccountBench().call("lookup", ["targetProjectId": "p"])
        #expect(reply.error == "INSUFFICIENT_PERMISSION : Only authenticated requests can specify target_project_id.")
    }

    @Test func bodyOfAClient_hasALimit() async throws {
        let bench = try AccountBench { $0.bodyBytes = 100 }
        func body(_ bytes: Int) -> String { #"{"x":""# + String(repeating: "a", count: bytes - 8) + "\"}" }
        #expect(try await bench.ask(Self.lookup, raw: body(100)).status == 400)
        #expect(try await bench.ask(Self.lookup, raw: body(101)).status == 413)
    }
}

extension AccountService {
    /// Simulates a failed disk.
    fileprivate func breakStore() throws { try store.database.write { try $0.execute(sql: "ALTER TABLE account RENAME TO gone") } }
}
