import Foundation
import JSONTree
import Testing
import TestSupport

@testable import Accounts
@testable import Tokens

/// Which claims of other services' ID tokens are trusted (accounts contract §7.2).
@Suite(.timeLimit(.minutes(30))) struct FederatedIdentityTests {
    @Test func check60_googleToken_saysWhoItIs() async throws {
        let fixture = FederationFixture()
        let identity = try await fixture.verify("google.com", try TokenKeys.rsa[0].sign(fixture.google))
        #expect(
            identity.provider == "google.com" && identity.subject == "1099" && identity.federatedID == "https://accounts.google.com/1099")
        #expect(identity.email == "ana@example.org" && identity.isEmailVerified && !identity.isAuthoritative)
        #expect(
            identity.name == "Ana B" && identity.givenName == "Ana" && identity.familyName == "B" && identity.picture == "https://x/a.png")
        let raw = try JSONValue(Array(identity.rawUserInfo.utf8))
        #expect(raw == [
            "id": "1099", "name": "Ana B", "given_name": "Ana", "family_name": "B", "email": "ana@example.org",
            "picture": "https://x/a.png",
            "verified_email": true,
        ])
        // The issuer's other spelling, no address, no authorized party.
        #expect(try await fixture.google { $0["iss"] = "accounts.google.com" } == nil)
        #expect(try await fixture.google { $0["azp"] = nil } == nil)
        var bare = fixture.google
        for name in ["email", "email_verified", "name", "given_name", "family_name", "picture"] { bare[name] = nil }
        let guest = try await fixture.verify("google.com", try TokenKeys.rsa[0].sign(bare))
        #expect(guest.email == nil && !guest.isEmailVerified && !guest.isAuthoritative && guest.name == nil)
    }

    @Test func check62_tokenThatGoogleDidNotSignForUs_isRefused() async throws {
        let fixture = FederationFixture()
        let refused = "INVALID_IDP_RESPONSE"
        #expect(try await fixture.google { _ in } == nil)
        #expect(try await fixture.google { $0["aud"] = "other-client" } == refused)
        #expect(try await fixture.google { $0["aud"] = nil } == refused)
        #expect(try await fixture.google { $0["azp"] = "other-client" } == refused)
        #expect(try await fixture.google { $0["aud"] = ["web-client", "ios-client"] } == nil)
        #expect(try await fixture.google { ($0["aud"], $0["azp"]) = (["web-client", "evil"], nil) } == refused)
        #expect(try await fixture.google { $0["iss"] = "https://accounts.google.com.evil.example" } == refused)
        #expect(try await fixture.google { $0["iss"] = nil } == refused)
        #expect(try await fixture.google { $0["exp"] = .int(fixture.clock.seconds) } == refused)
        #expect(try await fixture.google { $0["exp"] = nil } == refused)
        #expect(try await fixture.google { $0["iat"] = .int(fixture.clock.seconds + 60) } == nil)
        #expect(try await fixture.google { $0["iat"] = .int(fixture.clock.seconds + 61) } == refused)
        #expect(try await fixture.google { $0["sub"] = nil } == refused)
        #expect(try await fixture.google { $0["sub"] = "" } == refused)
        #expect(try await fixture.google { $0["sub"] = 1099 } == refused)
        #expect(try await fixture.google { $0["sub"] = .string(String(repeating: "1", count: 255)) } == nil)
        #expect(try await fixture.google { $0["sub"] = .string(String(repeating: "1", count: 256)) } == refused)

        let good = try TokenKeys.rsa[0].sign(fixture.google)
        let (parts, payload) = (good.tokenParts, String(decoding: try #require(Base64.decodeURL(good.tokenParts[1])), as: UTF8.self))
        let kid = TokenKeys.rsa[0].verifying.id
        // Unsigned, signed with a shared secret, by an unknown key, or by another issuer's key.
        #expect(await fixture.refusal("google.com", compact(#"{"alg":"none","kid":"\#(kid)"}"#, payload)) == refused)
        #expect(await fixture.refusal("google.com", "\(parts[0]).\(parts[1]).") == refused)
        #expect(await fixture.refusal("google.com", payload) == refused)
        let head = "\(Base64.encodeURL(#"{"alg":"HS256","kid":"\#(kid)"}"#.utf8)).\(parts[1])"
        let mac = hmac(head, key: TokenKeys.rsa[0].jwk)
        #expect(await fixture.refusal("google.com", "\(head).\(Base64.encodeURL(mac))") == refused)
        #expect(await fixture.refusal("google.com", try TokenKeys.rsa[1].sign(fixture.google)) == refused)
        let other = try TokenKeys.rsa[1].sign(fixture.google).tokenParts[2]
        #expect(await fixture.refusal("google.com", "\(parts[0]).\(parts[1]).\(other)") == refused)
        // A key and an algorithm that are valid elsewhere: Google signs with RS256 only.
        fixture.fetcher.publish(FederationFixture.googleKeys, keys: [TokenKeys.rsa[0], TokenKeys.p256[0]])
        fixture.clock.advance(seconds: 3601)
        #expect(await fixture.refusal("google.com", try TokenKeys.p256[0].sign(fixture.google)) == refused)
        // A token of one provider is invalid for another.
        #expect(await fixture.refusal("oidc.city", try TokenKeys.rsa[0].sign(fixture.google)) == refused)
        #expect(await fixture.refusal("google.com", try TokenKeys.rsa[0].sign(fixture.google)) == nil)
        for text in ["", ".", "..", "a.b.c", "{", "\u{0}", String(repeating: "x", count: 100_000)] {
            #expect(await fixture.refusal("google.com", text) == refused)
        }
        #expect(await fixture.refusal("github.com", good) == "OPERATION_NOT_ALLOWED")
    }

    @Test func check63_nonce_isInBothOrInNeither() async throws {
        let fixture = FederationFixture()
        let wrong = "MISSING_OR_INVALID_NONCE"
        let sha256OfTest = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
        var count = 0
        /// Every call creates a different token.
        func refusal(_ provider: String, _ key: SigningKey, _ claims: Claims, claim: String?, nonce: String?) async throws -> String? {
            count += 1
            var claims = claims
            claims["nonce"] = claim.map(JSONValue.string)
            claims["jti"] = .int(Int64(count))
            return await fixture.refusal(provider, try key.sign(claims), nonce: nonce)
        }
        let (google, apple, city) = (fixture.google, fixture.apple, fixture.city)
        #expect(try await refusal("google.com", TokenKeys.rsa[0], google, claim: sha256OfTest, nonce: "test") == nil)
        #expect(try await refusal("google.com", TokenKeys.rsa[0], google, claim: sha256OfTest, nonce: "Test") == wrong)
        #expect(try await refusal("google.com", TokenKeys.rsa[0], google, claim: sha256OfTest.uppercased(), nonce: "test") == wrong)
        #expect(try await refusal("google.com", TokenKeys.rsa[0], google, claim: sha256OfTest, nonce: nil) == wrong)
        #expect(try await refusal("google.com", TokenKeys.rsa[0], google, claim: sha256OfTest, nonce: "") == wrong)
        #expect(try await refusal("google.com", TokenKeys.rsa[0], google, claim: nil, nonce: "test") == wrong)
        #expect(try await refusal("google.com", TokenKeys.rsa[0], google, claim: nil, nonce: nil) == nil)
        // The thief of a token could read this nonce in it.
        #expect(try await refusal("google.com", TokenKeys.rsa[0], google, claim: sha256OfTest, nonce: sha256OfTest) == wrong)
        #expect(try await refusal("google.com", TokenKeys.rsa[0], google, claim: "test", nonce: "test") == wrong)
        // Apple always hashes the nonce; a web provider sends it unchanged.
        #expect(try await refusal("apple.com", TokenKeys.rsa[0], apple, claim: sha256OfTest, nonce: "test") == nil)
        #expect(try await refusal("apple.com", TokenKeys.rsa[0], apple, claim: nil, nonce: nil) == wrong)
        #expect(try await refusal("apple.com", TokenKeys.rsa[0], apple, claim: "test", nonce: "test") == wrong)
        #expect(try await refusal("oidc.city", TokenKeys.p256[0], city, claim: "test", nonce: "test") == nil)
        #expect(try await refusal("oidc.city", TokenKeys.p256[0], city, claim: sha256OfTest, nonce: "test") == nil)
        #expect(try await refusal("oidc.city", TokenKeys.p256[0], city, claim: "test", nonce: "tesT") == wrong)
    }

    @Test func tokenWithANonce_countsOnce_unlessItIsGivenBack() async throws {
        let fixture = FederationFixture()
        let token = try TokenKeys.rsa[0].sign(fixture.apple)
        let identity = try await fixture.verify("apple.com", token, nonce: "test")
        #expect(await fixture.refusal("apple.com", token, nonce: "test") == "MISSING_OR_INVALID_NONCE")
        await fixture.identities.release(identity)
        #expect(await fixture.refusal("apple.com", token, nonce: "test") == nil)
        #expect(await fixture.refusal("apple.com", token, nonce: "test") == "MISSING_OR_INVALID_NONCE")
        // The other valid form of an ECDSA signature counts as the same token.
        var city = fixture.city
        city["nonce"] = "n"
        let signed = try TokenKeys.p256[0].sign(city)
        #expect(await fixture.refusal("oidc.city", signed, nonce: "n") == nil)
        #expect(await fixture.refusal("oidc.city", try Self.mirrored(signed), nonce: "n") == "MISSING_OR_INVALID_NONCE")
        // Without a nonce no token is remembered.
        let plain = try TokenKeys.rsa[0].sign(fixture.google)
        #expect(await fixture.refusal("google.com", plain) == nil)
        #expect(await fixture.refusal("google.com", plain) == nil)
    }

    /// (r, n − s) for (r, s).
    private static func mirrored(_ token: String) throws -> String {
        let order = try #require(Base64.decodeURL("_____wAAAAD__________7zm-q2nF56E87nKwvxjJVE"))
        var signature = try #require(Base64.decodeURL(token.tokenParts[2]))
        var borrow = 0
        for i in (0..<32).reversed() {
            let digit = Int(order[i]) - Int(signature[32 + i]) - borrow
            borrow = digit < 0 ? 1 : 0
            signature[32 + i] = UInt8(truncatingIfNeeded: digit)
        }
        return token.tokenParts[0] + "." + token.tokenParts[1] + "." + Base64.encodeURL(signature)
    }

    @Test(arguments: [2, 5]) func replayMemory_holdsAsManyAsItMay(_ limit: Int) {
        var memory = ReplayMemory(limit: limit)
        func use(_ key: UInt8, until end: Int64, now: Int64) -> Bool { memory.use([key], until: end, now: now) }
        for i in 0..<UInt8(limit) { #expect(use(i, until: 100 + Int64(i), now: 0)) }
        for i in 0..<UInt8(limit) { #expect(!use(i, until: 100 + Int64(i), now: 99)) }
        // One more: the entry that expires first makes room.
        #expect(use(99, until: 500, now: 99))
        #expect(memory.count <= limit)
        #expect(!use(99, until: 500, now: 499))
        #expect(use(0, until: 500, now: 99))
        // Expired entries no longer count.
        #expect(use(99, until: 900, now: 500))
    }

    @Test func provider_isTheAuthorityForItsOwnAddressesOnly() async throws {
        let fixture = FederationFixture(providers: [
            .google(clientIDs: ["web-client", "ios-client"]), .apple(clientIDs: ["org.example.app"]),
            .openID("oidc.city", issuer: "https://id.city.example", clientIDs: ["hub"], authoritativeDomains: ["city.example"]),
        ])
        func google(_ email: String, verified: JSONValue = true, hd: String? = nil) async throws -> Bool {
            var claims = fixture.google
            (claims["email"], claims["email_verified"], claims["hd"]) = (.string(email), verified, hd.map(JSONValue.string))
            let identity = try await fixture.verify("google.com", try TokenKeys.rsa[0].sign(claims))
            #expect(identity.isEmailVerified == (verified == true))
            return identity.isAuthoritative
        }
        #expect(try await google("ana@gmail.com"))
        #expect(try await google("Ana@GMail.com"))
        #expect(try await !google("ana@gmail.com", verified: false))
        #expect(try await !google("ana@gmail.com", verified: 1))
        #expect(try await !google("ana@notgmail.com"))
        #expect(try await !google("ana@gmail.com.evil.example"))
        #expect(try await google("ana@school.example", hd: "school.example"))
        #expect(try await !google("ana@school.example", verified: false, hd: "school.example"))
        // The organisation vouches for another one's domain.
        #expect(try await !google("ana@example.org", hd: "school.example"))
        #expect(try await fixture.verify("apple.com", try TokenKeys.rsa[0].sign(fixture.apple), nonce: "test").isAuthoritative)
        var apple = fixture.apple
        apple["email"] = "ana@example.org"
        let identity = try await fixture.verify("apple.com", try TokenKeys.rsa[0].sign(apple), nonce: "test")
        #expect(identity.isEmailVerified && !identity.isAuthoritative)
        #expect(try await fixture.verify("oidc.city", try TokenKeys.p256[0].sign(fixture.city)).isAuthoritative)
    }

    @Test func organisation_isRequired_whereOneIsConfigured() async throws {
        let fixture = FederationFixture(providers: [.google(clientIDs: ["web-client", "ios-client"], hostedDomain: "school.example")])
        #expect(try await fixture.google { $0["hd"] = "school.example" } == nil)
        #expect(try await fixture.google { $0["hd"] = "School.Example" } == nil)
        #expect(try await fixture.google { _ in } == "INVALID_IDP_RESPONSE")
        #expect(try await fixture.google { $0["hd"] = "other.example" } == "INVALID_IDP_RESPONSE")
    }

    @Test func developmentHub_takesUnsignedTokens_andStillChecksSignedOnes() async throws {
        let fixture = FederationFixture(isDev: true)
        let json = #"{"sub":"abc","email":"foo@example.com","email_verified":true}"#
        for token in [json, " \n" + json, compact(#"{"alg":"none"}"#, json)] {
            let identity = try await fixture.verify("google.com", token, nonce: "any")
            #expect(identity.subject == "abc" && identity.email == "foo@example.com" && identity.isEmailVerified)
        }
        #expect(try await fixture.verify("github.com", json).federatedID == "abc")
        #expect(await fixture.refusal("google.com", #"{"email":"foo@example.com"}"#) == "INVALID_IDP_RESPONSE")
        #expect(await fixture.refusal("google.com", "{nonsense") == "INVALID_IDP_RESPONSE")
        #expect(await fixture.refusal("google.com", try TokenKeys.rsa[1].sign(fixture.google)) == "INVALID_IDP_RESPONSE")
        #expect(await fixture.refusal("google.com", compact(#"{"alg":"RS256","kid":"x"}"#, json)) == "INVALID_IDP_RESPONSE")
    }
}
