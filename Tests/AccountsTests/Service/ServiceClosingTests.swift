import HTTPTypes
import JSONTree
import Testing
import TestSupport

@testable import Accounts
@testable import Tokens

/// A service closes during requests: those that wait elsewhere find no store afterwards, and report that.
@Suite(.timeLimit(.minutes(30))) struct ServiceClosingTests {
    private func isRefused(_ reply: Reply) -> Bool { reply.status == 503 && reply.body == nil && reply.fields[.retryAfter] == "1" }

    @Test func requests_areRefusedWithoutAConclusion_whenTheStoreIsClosed() async throws {
        let bench = try AccountBench()
        let made = try await bench.signUp("ana@x.org")
        try await bench.service.close()
        try await bench.service.close()
        let replies = [
            try await bench.call(
                "lookup", ["idToken": made["idToken"] ?? .null]
            ), try await bench.signIn("ana@x.org"), try await bench.refresh(made["refreshToken"]?.string),
            try await bench.administer("sendOobCode", ["requestType": "PASSWORD_RESET", "email": "ana@x.org"]),
            try await bench.ask(".account/action?mode=resetPassword&oobCode=abc&apiKey=any", method: .get),
            try await bench.ask(".oauth/token", raw: "grant_type=password&username=ana@x.org&password=x", peer: "192.0.2.8"),
        ]
        #expect(replies.map(\.status) == Array(repeating: 503, count: replies.count))
        for reply in replies { #expect(isRefused(reply), "\(reply.text)") }
        await bench.service.sweep()
        await bench.service.removalDone("x")
        #expect(await bench.service.pendingRemovals() == [])
        let token = try #require(made["idToken"]?.string)
        bench.service.tokens.forgetAll()
        let result = await withCheckedContinuation { done in bench.service.verify(token, leeway: 0) { done.resume(returning: $0) } }
        guard case .failure(.unavailable) = result else { return #expect(Bool(false), "\(result)") }
    }

    /// The keys of the other service arrive after the close.
    @Test func signIns_areRefused_thatWaitForKeysWhileTheStoreCloses() async throws {
        let fetcher = FakeFetcher()
        fetcher.publish(FederationFixture.googleKeys, keys: [TokenKeys.rsa[0]])
        fetcher.hold()
        let bench = try AccountBench(fetcher: fetcher) { $0.identityProviders = [.google(clientIDs: [TestProvider.clientID])] }
        let token = try TestProvider.token(bench)
        let body: JSONValue = [
            "requestUri": "http://localhost", "returnSecureToken": true, "postBody": .string("id_token=\(token)&providerId=google.com"),
        ]
        let replies = try await withThrowingTaskGroup(of: Reply.self) { group in
            for _ in 0..<20 { group.addTask { try await bench.call("signInWithIdp", body) } }
            #expect(await becomes { !fetcher.asked.isEmpty })
            try await bench.service.close()
            fetcher.letGo()
            return try await group.reduce(into: [Reply]()) { $0.append($1) }
        }
        #expect(replies.count == 20 && replies.allSatisfy { isRefused($0) }, "\(replies.map(\.text))")
    }

    /// Fifty sign-ins in progress, closed after some of them; two hundred times.
    @Test func everySignIn_isAnsweredOrRefused_whenTheServiceClosesUnderThem() async throws {
        var settings = PasswordSettings.quick
        settings.workers = 2
        let passwords = settings
        let hash = try await PasswordHasher(passwords).hash("correct horse")
        var answered = (done: 0, refused: 0)
        for round in 0..<200 {
            let bench = try AccountBench { $0.passwords = passwords }
            try await bench.service.add(hash)
            let replies = try await withThrowingTaskGroup(of: Reply.self) { group in
                for _ in 0..<50 { group.addTask { try await bench.signIn("ana@x.org") } }
                var replies: [Reply] = []
                // All are started at once; this many are answered before the close.
                for _ in 0..<round % 50 { if let reply = try await group.next() { replies.append(reply) } }
                try await bench.service.close()
                for try await reply in group { replies.append(reply) }
                return replies
            }
            answered.done += replies.count { $0.status == 200 }
            answered.refused += replies.count { isRefused($0) }
        }
        #expect(answered.done + answered.refused == 10_000 && answered.done > 1_000 && answered.refused > 0, "\(answered)")
    }
}

extension AccountService {
    /// Adds an account with this password hash.
    fileprivate func add(_ hash: String) throws {
        try store.transaction { transaction in
            var account = Account(id: "ana", createdAt: now())
            account.email = "ana@x.org"
            account.passwordHash = hash
            try transaction.save(account)
        }
    }
}
