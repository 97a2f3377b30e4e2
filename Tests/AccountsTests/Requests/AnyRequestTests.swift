import HTTPTypes
import JSONTree
import Testing
import TestSupport

@testable import Accounts

/// Requests of every shape to every route: the service answers each, and never with an internal error.
@Suite(.timeLimit(.minutes(30))) struct AnyRequestTests {
    private static let names = [
        "email", "password", "idToken", "oobCode", "newPassword", "requestType", "returnOobLink", "continueUrl", "displayName", "photo_url",
        "deleteAttribute",
        "deleteProvider", "validSince", "localId", "customAttributes", "postBody", "requestUri", "token", "identifier", "continueUri",
        "newEmail", "grantType",
        "refreshToken", "autoCreate", "returnIdpCredential", "users", "localIds", "disableUser", "phoneNumber", "federatedUserId",
        "maxResults",
    ]

    private static func value(_ random: inout SeededRandom, _ known: [JSONValue]) -> JSONValue {
        let values: [JSONValue] = [
            .null, true, false, 0, 1, -7, .int(.max), .double(1e300), "", "a@x.org", "A@X.ORG", "not.mail", "1", "PASSWORD_RESET",
            "VERIFY_EMAIL", "EMAIL_SIGNIN",
            "VERIFY_AND_CHANGE_EMAIL", "refresh_token", "http://localhost/#&%=%zz", "id_token=x&providerId=google.com", "{}", "{\"a\":1}",
            [], ["a", .null],
            [["b": "c"]], ["d": ["e": .null]], ["EMAIL", 2, "PASSWORD"], ["password"], .string(String(repeating: "é", count: 3000)),
            "correct horse", "\u{1F468}\u{200D}",
        ]
        let all = values + known
        return all[Int(random.next() % UInt64(all.count))]
    }

    @Test(arguments: 1...4) func everyRequest_isAnswered(seed: UInt64) async throws {
        var random = SeededRandom(seed)
        let bench = try AccountBench { $0.isDev = seed % 2 == 0 }
        let made = try await bench.signUp("a@x.org")
        let known = [made["idToken"], made["refreshToken"], made["localId"]].compactMap(\.self)
        let routes = AccountRoutes.all
        for _ in 0..<600 {
            let route = routes[Int(random.next() % UInt64(routes.count))]
            guard let path = route.paths.randomElement(using: &random) else { continue }
            var body: [JSONValue.Member] = []
            for _ in 0..<random.next() % 5 {
                body.append(.init(Self.names[Int(random.next() % UInt64(Self.names.count))], Self.value(&random, known)))
            }
            var fields = HTTPFields()
            if random.next() % 3 == 0 { fields[.authorization] = "Bearer \(AccountBench.administrator)" }
            if random.next() % 4 == 0 { fields[.contentType] = "application/x-www-form-urlencoded" }
            var text = JSONValue.object(body).json
            if random.next() % 8 == 0 { text = String(text.dropLast(Int(random.next() % 6))) }
            let reply = try await bench.ask(path.replacing("{p}", with: "demo-app"), method: route.method, fields: fields, raw: text)
            #expect(reply.status < 500 || reply.status == 501, "\(path) \(text.prefix(300)) → \(reply.text.prefix(300))")
            if reply.status >= 400, reply.fields[.contentType]?.hasPrefix("application/json") == true {
                #expect(reply.body?.members?.isEmpty == false, "\(path) \(text.prefix(300))")
            }
        }
    }
}
