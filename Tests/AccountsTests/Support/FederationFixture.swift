import Foundation
import JSONTree
import Synchronization
import Testing
import TestSupport

@testable import Accounts
@testable import Tokens

/// Documents of other services, without a network.
final class FakeFetcher: KeyFetching {
    private struct State {
        var documents: [String: Result<FetchedDocument, KeyFetchFault>] = [:]
        var asked: [String] = []
        var held: [CheckedContinuation<Void, Never>]?
    }

    private let state = Mutex(State())

    func publish(_ url: String, _ text: String, maxAge: Int? = 3600) {
        set(url, .success(FetchedDocument(body: Array(text.utf8), maxAge: maxAge)))
    }

    func publish(_ url: String, keys: [SigningKey], maxAge: Int? = 3600) { publish(url, keySet(keys), maxAge: maxAge) }

    func fail(_ url: String) { set(url, .failure(.network("no route to host"))) }

    private func set(_ url: String, _ document: Result<FetchedDocument, KeyFetchFault>) { state.withLock { $0.documents[url] = document } }

    /// All requested URLs, in order.
    var asked: [String] { state.withLock { $0.asked } }

    /// Holds all fetches until `letGo`.
    func hold() { state.withLock { $0.held = [] } }

    func letGo() {
        let held = state.withLock { state in
            defer { state.held = nil }
            return state.held ?? []
        }
        for one in held { one.resume() }
    }

    func fetch(_ url: String) async throws(KeyFetchFault) -> FetchedDocument {
        await withCheckedContinuation { continuation in
            let waits = state.withLock { state in
                state.asked.append(url)
                state.held?.append(continuation)
                return state.held != nil
            }
            if !waits { continuation.resume() }
        }
        return try (state.withLock { $0.documents[url] } ?? .failure(.status(404))).get()
    }
}

func keySet(_ keys: [SigningKey]) -> String {
    "{\"keys\":[" + keys.map { String(decoding: $0.jwk, as: UTF8.self) }.joined(separator: ",") + "]}"
}

/// Claims by name.
typealias Claims = [String: JSONValue]

extension SigningKey {
    func sign(_ claims: Claims) throws -> String { try sign(JSONValue.object(claims.map { JSONValue.Member($0.key, $0.value) }).bytes) }
}

/// Identity providers with keys of their own.
struct FederationFixture {
    static let googleKeys = "https://www.googleapis.com/oauth2/v3/certs"
    static let appleKeys = "https://appleid.apple.com/auth/keys"

    let clock = FakeClock()
    let fetcher = FakeFetcher()
    let identities: FederatedIdentities

    init(
        isDev: Bool = false, providers: [IdentityProvider]? = nil, replayLimit: Int = 100,
        _ change: (inout KeyFetchSettings) -> Void = { _ in }
    ) {
        var settings = KeyFetchSettings()
        change(&settings)
        identities = FederatedIdentities(
            providers ?? [
                .google(clientIDs: ["web-client", "ios-client"]), .apple(clientIDs: ["org.example.app"]),
                .openID("oidc.city", issuer: "https://id.city.example", clientIDs: ["hub"], authoritativeDomains: ["city.example"]),
            ],
            isDev: isDev, replayLimit: replayLimit, fetcher: fetcher, settings: settings,
            logger: .silent,
            now: clock.now)
        fetcher.publish(Self.googleKeys, keys: [TokenKeys.rsa[0]])
        fetcher.publish(Self.appleKeys, keys: [TokenKeys.rsa[0]])
        fetcher.publish(
            "https://id.city.example/.well-known/openid-configuration",
            #"{"issuer":"https://id.city.example","jwks_uri":"https://id.city.example/k"}"#)
        fetcher.publish("https://id.city.example/k", keys: [TokenKeys.p256[0]])
    }

    var google: Claims {
        [
            "iss": "https://accounts.google.com", "aud": "web-client", "azp": "ios-client", "sub": "1099", "email": "ana@example.org",
            "email_verified": true,
            "name": "Ana B", "given_name": "Ana", "family_name": "B", "picture": "https://x/a.png", "iat": .int(clock.seconds),
            "exp": .int(clock.seconds + 3600),
        ]
    }

    var apple: Claims {
        [
            "iss": "https://appleid.apple.com", "aud": "org.example.app", "sub": "0012.ab", "email": "x@privaterelay.appleid.com",
            "email_verified": "true",
            "nonce": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", "iat": .int(clock.seconds),
            "exp": .int(clock.seconds + 600),
        ]
    }

    var city: Claims {
        [
            "iss": "https://id.city.example", "aud": "hub", "sub": "7", "email": "Staff@City.example", "email_verified": true,
            "iat": .int(clock.seconds),
            "exp": .int(clock.seconds + 600),
        ]
    }

    func verify(_ provider: String, _ token: String, nonce: String? = nil) async throws -> FederatedIdentity {
        try await identities.verify(provider: provider, idToken: token, nonce: nonce)
    }

    /// The code of the refusal.
    func refusal(_ provider: String, _ token: String, nonce: String? = nil) async -> String? {
        do throws(AccountError) {
            _ = try await identities.verify(provider: provider, idToken: token, nonce: nonce)
            return nil
        } catch {
            #expect(error.status == 400)
            #expect(error.message.components(separatedBy: " : ").count <= 2, "\(error.message)")
            return error.code
        }
    }

    /// The refusal of Google's claims after a change.
    func google(_ change: (inout Claims) -> Void) async throws -> String? {
        var claims = google
        change(&claims)
        return await refusal("google.com", try TokenKeys.rsa[0].sign(claims))
    }
}
