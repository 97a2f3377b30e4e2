import Cryptography
import Foundation
import JSONTree
import Testing
import TestSupport

@testable import Accounts
@testable import Tokens

/// Which texts are accepted as ID tokens (accounts contract §5.2).
@Suite(.timeLimit(.minutes(30))) struct TokenVerificationTests {
    @Test(arguments: SignatureAlgorithm.allCases)
    func tokenOfASignedInAccount_isAccepted(_ algorithm: SignatureAlgorithm) async throws {
        let fixture = try TokenFixture { $0.signingAlgorithm = algorithm }
        try await fixture.signIn("ana")
        let token = try fixture.token("ana")
        for _ in 0..<2 {
            let found = try await fixture.verify(token).get()
            #expect(found.uid == "ana" && found.sessionID == "s-ana" && found.provider == "password" && found.isOwn)
            #expect(found.issuedAt == fixture.clock.seconds && found.expires == found.issuedAt + 3600 && found.authTime == found.issuedAt)
            #expect(found.auth.child("uid") == "ana" && found.auth.child("provider") == "password")
            #expect(found.auth.child("token").child("firebase").child("sign_in_provider") == "password")
        }
    }

    @Test func check28_tokenThatThisServiceDidNotSign_isRefused() async throws {
        let fixture = try TokenFixture { $0.signingAlgorithm = .rs256 }
        try await fixture.signIn("ana")
        let good = try fixture.token("ana")
        #expect(await fixture.fault(good) == nil)
        let parts = good.tokenParts
        let payload = String(decoding: try #require(Base64.decodeURL(parts[1])), as: UTF8.self)
        let kid = fixture.service.signingKeyID

        // No signature, or the algorithm "none".
        #expect(await fixture.fault(compact(#"{"alg":"none","typ":"JWT"}"#, payload)) == .algorithm)
        #expect(await fixture.fault(compact(#"{"alg":"None","kid":"\#(kid)"}"#, payload, Array("x".utf8))) == .algorithm)
        #expect(await fixture.fault("\(parts[0]).\(parts[1]).") == .signature)
        #expect(await fixture.fault("\(parts[0]).\(parts[1])") == .malformed)
        // Another user's name with the same signature.
        let changed = payload.replacingOccurrences(of: "ana", with: "bob")
        #expect(await fixture.fault("\(parts[0]).\(Base64.encodeURL(changed.utf8)).\(parts[2])") == .signature)
        // A MAC with the public key as the shared secret, in each of its forms.
        let jwks = fixture.service.jwks
        let n = try #require(try JSONValue(jwks)["keys"]?.elements?.first?["n"]?.string)
        let publicKey = try PublicKey(.rsa(modulus: try #require(Base64.decodeURL(n)), exponent: [1, 0, 1]))
        // The contained PKCS #1 key, after 24 bytes.
        let pkcs1 = Data(try publicKey.der().dropFirst(24)).base64EncodedString(options: .lineLength64Characters)
        let secrets: [[UInt8]] = [
            Array(try publicKey.pem().utf8), try publicKey.der(),
            Array("-----BEGIN RSA PUBLIC KEY-----\n\(pkcs1)\n-----END RSA PUBLIC KEY-----\n".utf8),
            try #require(Base64.decodeURL(n)), jwks, [],
        ]
        for secret in secrets {
            let head = "\(Base64.encodeURL(#"{"alg":"HS256","kid":"\#(kid)","typ":"JWT"}"#.utf8)).\(parts[1])"
            let mac = hmac(head, key: secret)
            #expect(await fixture.fault("\(head).\(Base64.encodeURL(mac))") == .algorithm)
            // The same with the hub's own header.
            let ours = "\(parts[0]).\(parts[1])"
            let other = hmac(ours, key: secret)
            #expect(await fixture.fault("\(ours).\(Base64.encodeURL(other))") == .signature)
        }
        // Another key, with its own id and with the hub's.
        let stranger = try SigningKeys([TokenKeys.rsa[0]], lifetimeSeconds: 1, now: fixture.clock.now)
        let foreign = try stranger.sign(Array(payload.utf8))
        #expect(await fixture.fault(foreign) == .unknownKey)
        #expect(await fixture.fault("\(parts[0]).\(foreign.tokenParts[1]).\(foreign.tokenParts[2])") == .signature)
        // A known algorithm, but not that key's.
        #expect(await fixture.fault(compact(#"{"alg":"ES256","kid":"\#(kid)"}"#, payload, [UInt8](repeating: 1, count: 64))) == .algorithm)
        // Without a key id, or with a critical extension.
        #expect(await fixture.fault(compact(#"{"alg":"RS256"}"#, payload, [1])) == .unknownKey)
        #expect(await fixture.fault(compact(#"{"alg":"RS256","kid":"\#(kid)","crit":["b64"],"b64":false}"#, payload, [1])) == .malformed)
        for fault in [TokenFault.algorithm, .malformed, .signature, .unknownKey, .audience, .issuer, .expired, .notYetValid, .subject] {
            #expect(fault.idTokenError == AccountError("INVALID_ID_TOKEN"))
        }
    }

    /// Each token is signed properly; only its claims are wrong.
    @Test func claimsThatDoNotFit_areRefused_whoeverSignedThem() async throws {
        let fixture = try TokenFixture()
        try await fixture.signIn("ana")
        let now = fixture.clock.seconds
        func fault(_ change: (inout [String: JSONValue]) -> Void) async throws -> TokenFault? {
            var claims: [String: JSONValue] = [
                "iss": "https://securetoken.google.com/demo-app", "aud": "demo-app", "sub": "ana", "user_id": "ana", "iat": .int(now),
                "auth_time": .int(now),
                "exp": .int(now + 3600), "sid": "s-ana", "firebase": ["sign_in_provider": "password"],
            ]
            change(&claims)
            let payload = JSONValue.object(claims.map { .init($0.key, $0.value) }).bytes
            return await fixture.fault(try fixture.service.tokens.keys.sign(payload))
        }
        #expect(try await fault { _ in } == nil)
        #expect(try await fault { $0["aud"] = "other-app" } == .audience)
        #expect(try await fault { $0["aud"] = nil } == .audience)
        #expect(try await fault { $0["aud"] = ["demo-app", "other-app"] } == .audience)
        #expect(try await fault { $0["aud"] = 1 } == .audience)
        #expect(try await fault { $0["iss"] = "https://securetoken.google.com/other-app" } == .issuer)
        #expect(try await fault { $0["iss"] = "https://securetoken.google.com/demo-app/" } == .issuer)
        #expect(try await fault { $0["iss"] = nil } == .issuer)
        #expect(try await fault { $0["exp"] = .int(now) } == .expired)
        #expect(try await fault { $0["exp"] = .int(now + 1) } == nil)
        #expect(try await fault { $0["exp"] = nil } == .expired)
        #expect(try await fault { $0["exp"] = "9999999999" } == .expired)
        #expect(try await fault { $0["exp"] = .int(.max) } == .expired)
        #expect(try await fault { $0["exp"] = .double(1e300) } == .expired)
        // Signed by this hub, so its clock was ahead: the user stays signed in while the session lives.
        #expect(try await fault { ($0["iat"], $0["exp"]) = (.int(now + 86_400), .int(now + 90_000)) } == nil)
        #expect(try await fault { ($0["iat"], $0["exp"]) = (.int(now + 86_400), .int(now + 90_001)) } == .expired)
        #expect(try await fault { $0["auth_time"] = .int(now + 61) } == nil)
        #expect(try await fault { $0["nbf"] = .int(now + 60) } == nil)
        #expect(try await fault { $0["nbf"] = .int(now + 61) } == .notYetValid)
        #expect(try await fault { $0["iat"] = "soon" } == .notYetValid)
        #expect(try await fault { $0["sub"] = nil } == .subject)
        #expect(try await fault { $0["sub"] = "" } == .subject)
        #expect(try await fault { $0["sub"] = 7 } == .subject)
        #expect(try await fault { $0["sub"] = .string(String(repeating: "é", count: 128)) } == .noAccount)
        #expect(try await fault { $0["sub"] = .string(String(repeating: "a", count: 129)) } == .subject)
        // A session of another user, or none.
        #expect(try await fault { $0["sid"] = nil } == .revoked)
        #expect(try await fault { $0["sid"] = "s-bob" } == .revoked)
    }

    @Test func token_hasALongestText() async throws {
        let fixture = try TokenFixture()
        try await fixture.signIn("ana")
        let claims = String(decoding: fixture.claims("ana").payload(project: "demo-app"), as: UTF8.self).dropLast()
        func token(_ filling: Int) throws -> String {
            try fixture.service.tokens.keys.sign(Array((claims + #","x":""# + String(repeating: "x", count: filling) + "\"}").utf8))
        }
        // Three bytes of content are four letters.
        let filling = 3 + (CompactToken.maxBytes - (try token(0).utf8.count)) * 3 / 4
        let around = try (filling - 8...filling).map(token)
        #expect(around.contains { $0.utf8.count > CompactToken.maxBytes } && around.contains { $0.utf8.count <= CompactToken.maxBytes })
        for token in around { #expect(await fixture.fault(token) == (token.utf8.count > CompactToken.maxBytes ? .malformed : nil)) }
    }

    @Test func leeway_countsFromTheEnd_eachTimeAgain() async throws {
        let fixture = try TokenFixture()
        try await fixture.signIn("ana")
        let token = try fixture.token("ana")
        #expect(await fixture.fault(token) == nil)
        fixture.clock.advance(seconds: 3600)
        #expect(await fixture.fault(token, leeway: 0) == .expired)
        #expect(await fixture.fault(token, leeway: 300) == nil)
        #expect(await fixture.fault(token, leeway: 0) == .expired)
        fixture.clock.advance(seconds: 299)
        #expect(await fixture.fault(token, leeway: 300) == nil)
        fixture.clock.advance(seconds: 1)
        #expect(await fixture.fault(token, leeway: 300) == .expired)
    }

    @Test func check35_tokenOlderThanTheRevocation_isRefusedAtOnce() async throws {
        let fixture = try TokenFixture()
        try await fixture.signIn("ana")
        try await fixture.signIn("bob")
        let (before, other) = (try fixture.token("ana"), try fixture.token("bob"))
        #expect(await fixture.fault(before) == nil)
        #expect(await fixture.fault(other) == nil)
        fixture.clock.advance(seconds: 5)
        let now = fixture.clock.seconds
        try await fixture.change("ana") { $0.validSince = now }
        #expect(await fixture.fault(before) == .revoked)
        #expect(TokenFault.revoked.idTokenError == AccountError("TOKEN_EXPIRED"))
        #expect(await fixture.fault(try fixture.token("ana")) == nil)
        #expect(await fixture.fault(other) == nil)
    }

    @Test func token_endsWithItsSession_itsAccount_andItsOwner() async throws {
        let fixture = try TokenFixture()
        for uid in ["ana", "bob", "eve"] { try await fixture.signIn(uid) }
        let (ana, bob, eve) = (try fixture.token("ana"), try fixture.token("bob"), try fixture.token("eve"))
        for token in [ana, bob, eve] { #expect(await fixture.fault(token) == nil) }
        try await fixture.service.step { service in
            _ = try service.store.transaction { try $0.endSession("s-ana") }
            service.announce(AccountChange("ana", .sessionEnded("s-ana")))
        }
        #expect(await fixture.fault(ana) == .revoked)
        try await fixture.change("bob") { $0.isDisabled = true }
        #expect(await fixture.fault(bob) == .disabled)
        try await fixture.service.step { service in
            _ = try service.store.transaction { try $0.deleteAccount("eve", at: 0) }
            service.announce(AccountChange("eve", .deleted))
        }
        #expect(await fixture.fault(eve) == .noAccount)
    }
}
