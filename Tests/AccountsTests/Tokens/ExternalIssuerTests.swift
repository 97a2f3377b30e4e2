import JSONTree
import Testing
import TestSupport

@testable import Accounts
@testable import Tokens

/// Apps that keep their identity provider and use only the database.
@Suite(.timeLimit(.minutes(30))) struct ExternalIssuerTests {
    private static let issuer = "https://id.example"
    private static let url = "https://id.example/keys"
    let clock = FakeClock()
    let fetcher = FakeFetcher()
    let service: AccountService

    init() throws {
        var settings = AccountSettings()
        settings.project = "demo-app"
        settings.signingAlgorithm = .es256
        settings.externalIssuers = [
            ExternalIssuer(issuer: Self.issuer, audiences: ["app", "app-staging"], keys: .keySet(Self.url), algorithms: [.es256]),
            ExternalIssuer(issuer: "https://other.example", audiences: ["app"]),
        ]
        service = try AccountService(
            settings, folder: nil, fetcher: fetcher, logger: .silent, scheduler: clock.scheduler)
        fetcher.publish(Self.url, keys: [TokenKeys.p256[0], TokenKeys.rsa[0]])
    }

    private var claims: Claims {
        [
            "iss": .string(Self.issuer), "aud": "app", "sub": "u-7", "iat": .int(clock.seconds), "exp": .int(clock.seconds + 600),
            "role": "staff",
        ]
    }

    private func verify(_ token: String) async -> Result<VerifiedToken, TokenFault> {
        await withCheckedContinuation { continuation in service.verify(token, leeway: 0) { continuation.resume(returning: $0) } }
    }

    private func fault(_ key: SigningKey = TokenKeys.p256[0], _ change: (inout Claims) -> Void = { _ in }) async throws -> TokenFault? {
        var claims = claims
        change(&claims)
        if case .failure(let fault) = await verify(try key.sign(claims)) { return fault }
        return nil
    }

    @Test func tokenOfAConfiguredIssuer_isSomebodyForTheRules() async throws {
        let token = try TokenKeys.p256[0].sign(claims)
        for _ in 0..<2 {
            let found = try await verify(token).get()
            #expect(
                found.uid == "u-7" && !found.isOwn && found.sessionID == nil && found.issuer == Self.issuer && found.provider == "custom")
            #expect(found.auth.child("uid") == "u-7" && found.auth.child("provider") == "custom" && found.claims.child("role") == "staff")
            #expect(found.expires == clock.seconds + 600)
        }
        var google = claims
        google["firebase"] = ["sign_in_provider": "google.com"]
        google["sid"] = "s"
        let found = try await verify(try TokenKeys.p256[0].sign(google)).get()
        #expect(found.provider == "google.com" && found.sessionID == nil)
    }

    @Test func noIssuer_isTheHubItselfForTheRules() async throws {
        var claims = claims
        claims["firebase"] = ["sign_in_provider": "hub"]
        let found = try await verify(try TokenKeys.p256[0].sign(claims)).get()
        #expect(found.provider == "custom" && found.auth.child("provider") == "custom")
    }

    @Test func heldKeys_answerAtOnce() async throws {
        let first = try TokenKeys.p256[0].sign(claims)
        _ = try await verify(first).get()
        var other = claims
        other["sub"] = "u-8"
        // The closure has run when the call returns, which is impossible if a key had to be fetched.
        nonisolated(unsafe) var uid: String?
        service.verify(try TokenKeys.p256[0].sign(other), leeway: 0) { uid = try? $0.get().uid }
        #expect(uid == "u-8")
    }

    @Test func tokenThatDoesNotFit_isRefused() async throws {
        #expect(try await fault() == nil)
        #expect(try await fault { $0["aud"] = "app-staging" } == nil)
        #expect(try await fault { $0["aud"] = ["app"] } == nil)
        #expect(try await fault { $0["aud"] = "other" } == .audience)
        #expect(try await fault { $0["exp"] = .int(clock.seconds) } == .expired)
        #expect(try await fault { $0["exp"] = nil } == .expired)
        #expect(try await fault { $0["iat"] = .int(clock.seconds + 61) } == .notYetValid)
        #expect(try await fault { $0["sub"] = nil } == .subject)
        #expect(try await fault { $0["sub"] = .string(String(repeating: "a", count: 129)) } == .subject)
        // Listed in the key set, but not configured for this issuer.
        #expect(try await fault(TokenKeys.rsa[0]) == .algorithm)
        #expect(try await fault(TokenKeys.p256[1]) == .unknownKey)
        // Unknown issuers, or issuers whose keys are out of reach.
        #expect(try await fault { $0["iss"] = "https://evil.example" } == .unknownKey)
        #expect(try await fault { $0["iss"] = "https://other.example" } == .keysUnavailable)
        let good = try TokenKeys.p256[0].sign(claims)
        #expect(await verify(
            good.tokenParts[0] + "." + Base64.encodeURL(#"{"iss":"\#(Self.issuer)"}"#.utf8) + "." + good.tokenParts[2]).fault == .signature)
        #expect(await verify(compact(#"{"alg":"none"}"#, #"{"iss":"\#(Self.issuer)"}"#)).fault == .algorithm)
    }

    @Test func anotherIssuersToken_isNoAccounts() async throws {
        // The issuer claims to be this hub: signed with the issuer's own key, the token is refused.
        #expect(try await fault { $0["iss"] = "https://securetoken.google.com/demo-app" } == .unknownKey)
        let token = try TokenKeys.p256[0].sign(claims)
        #expect(throws: TokenFault.unknownKey) { try service.tokens.check(token, leeway: 0) }
        // Conversely, a token signed with this hub's key is refused in the issuer's name.
        let own = try service.tokens.keys.sign(JSONValue.object(claims.map { JSONValue.Member($0.key, $0.value) }).bytes)
        #expect(await verify(own).fault != nil)
    }

    @Test func rememberedToken_isCheckedAgain_whenItsKeysArePastTheirAge() async throws {
        fetcher.publish(Self.url, keys: [TokenKeys.p256[0]], maxAge: 100)
        let token = try TokenKeys.p256[0].sign(claims)
        _ = try await verify(token).get()
        fetcher.publish(Self.url, keys: [TokenKeys.p256[1]], maxAge: 100)
        clock.advance(seconds: 99)
        #expect(await verify(token).fault == nil)
        clock.advance(seconds: 1)
        #expect(await verify(token).fault == .unknownKey)
        #expect(fetcher.asked.count == 2)
    }

    @Test func rememberedToken_endsWithItsTime() async throws {
        let token = try TokenKeys.p256[0].sign(claims)
        _ = try await verify(token).get()
        clock.advance(seconds: 600)
        #expect(await verify(token).fault == .expired)
    }
}

extension Result where Failure == TokenFault {
    var fault: TokenFault? { if case .failure(let fault) = self { fault } else { nil } }
}
