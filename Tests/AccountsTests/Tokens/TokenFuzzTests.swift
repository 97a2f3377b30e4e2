import Foundation
import JSONTree
import Testing
import TestSupport

@testable import Accounts
@testable import Tokens

/// Tokens and key sets of any shape: only the exact text of a signed token is accepted, and no input ends the process. See `FuzzLoop` for long runs.
@Suite(.timeLimit(.fuzzing)) struct TokenFuzzTests {
    /// Runs `body` over seeds.
    private func fuzz(_ name: String, _ count: Int, _ body: (inout SeededRandom) -> String?) {
        FuzzLoop(name, count: count).run { seed in
            var random = SeededRandom(seed)
            return body(&random)
        }
    }

    private static let alphabet = Array("ABCxyz019-_.+/= {}\"\\\u{0}é".utf8)

    private static func mutated(_ text: String, _ random: inout SeededRandom) -> String {
        var bytes = Array(text.utf8)
        for _ in 0...random.below(3) {
            let at = random.below(bytes.count + 1)
            switch random.below(6) {
            case 0 where at < bytes.count: bytes[at] = random.pick(alphabet)
            case 1: bytes.insert(random.pick(alphabet), at: at)
            case 2 where at < bytes.count: bytes.removeSubrange(at..<min(bytes.count, at + 1 + random.below(40)))
            case 3 where at < bytes.count: bytes[at] ^= 1 << UInt8(random.below(8))
            case 4: bytes.insert(contentsOf: bytes.prefix(random.below(60)), at: at)
            default: bytes = Array(bytes.prefix(at))
            }
        }
        return String(decoding: bytes, as: UTF8.self)
    }

    @Test func fuzz_signedToken_isAcceptedInItsExactTextOnly() throws {
        let clock = FakeClock()
        let all = [TokenKeys.p256[0], TokenKeys.rsa[0], TokenKeys.p256[1], TokenKeys.rsa[1]]
        let retired = try (0..<3).map { _ in
            let stored = try StoredSigningKey.generate(.es256, now: 0)
            return try SigningKey(
                StoredSigningKey(algorithm: stored.algorithm, privateKey: stored.privateKey, createdAt: 0, retiredAt: clock.now()))
        }
        // One key signs, older ones verify, and two are unknown.
        let keys = try SigningKeys([all[1]] + retired, lifetimeSeconds: 3600, now: clock.now)
        let tokens = IdentityTokens(keys: keys, project: "p", externals: [], limit: 100, now: clock.now)
        let payload = IdentityClaims(
            uid: "ana", provider: "password", sessionID: "s", authTime: clock.seconds, issuedAt: clock.seconds,
            expires: clock.seconds + 3600
        ).payload(project: "p")
        let good = try [all[1].sign(payload)] + retired.map { try $0.sign(payload) }
        let foreign = try [all[0], all[3]].map { try $0.sign(payload) }
        for token in good { #expect(throws: Never.self) { try tokens.check(token, leeway: 0) } }
        tokens.remember(good[0], try tokens.check(good[0], leeway: 0))
        let text = String(decoding: payload, as: UTF8.self)
        let kids = (all + retired).map(\.verifying.id) + ["", "x"]
        let algorithms = ["none", "None", "HS256", "HS512", "RS256", "RS512", "PS256", "ES256", "ES384", "EdDSA", ""]
        let publicKeys = (all + retired).map(\.jwk) + [keys.jwks]

        fuzz("tokens", 1500) { random in
            let input: String
            switch random.below(6) {
            case 0: input = Self.mutated(random.pick(good), &random)
            case 1:
                // Parts of different tokens.
                let parts = (0..<3).map { random.pick(good + foreign).tokenParts[$0] }
                input = parts.joined(separator: ".")
            case 2:
                // Another header over a valid signature, or a public key used as a secret.
                let header =
                    #"{"alg":"\#(random.pick(algorithms))","kid":"\#(random.pick(kids))"\#(random.below(4) == 0 ? #","crit":["x"]"# : "")}"#
                let head = Base64.encodeURL(header.utf8) + "." + Base64.encodeURL(text.utf8)
                let mac = hmac(head, key: random.pick(publicKeys))
                input = head + "." + random.pick([Base64.encodeURL(mac), random.pick(good).tokenParts[2], "", "AA"])
            case 3:
                let changed = Self.mutated(text, &random)
                input = random.pick(good).tokenParts[0] + "." + Base64.encodeURL(changed.utf8) + "." + random.pick(good).tokenParts[2]
            case 4: input = random.pick(foreign)
            default: input = String(decoding: (0..<random.below(200)).map { _ in random.pick(Self.alphabet) }, as: UTF8.self)
            }
            if tokens.remembered(input, leeway: 0) != nil, Text(input) != Text(good[0]) { return "remembered \(input)" }
            guard (try? tokens.check(input, leeway: 0)) != nil else { return nil }
            return good.contains { Text($0) == Text(input) } ? nil : "accepted \(input)"
        }
    }

    @Test func fuzz_contentOfAnyShape_isReadOrRefused() throws {
        let clock = FakeClock()
        let keys = try SigningKeys([TokenKeys.p256[0]], lifetimeSeconds: 3600, now: clock.now)
        let tokens = IdentityTokens(keys: keys, project: "p", externals: [], limit: 100, now: clock.now)
        let good = String(
            decoding: IdentityClaims(
                uid: "ana", provider: "password", sessionID: "s", authTime: clock.seconds, issuedAt: clock.seconds,
                expires: clock.seconds + 3600
            ).payload(project: "p"), as: UTF8.self)
        let custom = CustomTokens(issuers: [], project: "p", isDev: true, claimsLength: 1000)
        fuzz("claims", 1000) { random in
            let text = Self.mutated(good, &random)
            guard let token = try? keys.sign(Array(text.utf8)) else { return "cannot be signed" }
            if let found = try? tokens.check(token, leeway: 0), found.uid.isEmpty || found.uid.utf8.count > 512
                || found.expires <= clock.seconds {
                return "accepted \(text)"
            }
            _ = try? custom.verify(text, now: clock.seconds)
            _ = CustomClaims(stored: text)
            return nil
        }
    }

    @Test func fuzz_keySetOfAnyShape_isReadOrRefused() {
        let sets = [keySet([TokenKeys.rsa[0], TokenKeys.p256[0]]), #"{"keys":[{"kty":"RSA","kid":"a","n":"","e":""}]}"#, "{}", ""]
        fuzz("key sets", 600) { random in
            let text = Self.mutated(random.pick(sets), &random)
            guard let set = try? KeySet(Array(text.utf8), limit: 8) else { return nil }
            // Any decoded key can be used without a crash.
            for key in set.keys where ([1, 2, 3] as [UInt8]).withUnsafeBytes(
                { key.isSignature([UInt8](repeating: 7, count: 256), of: $0) }) { return "signature by chance" }
            return set.keys.count <= 8 ? nil : "too many keys"
        }
    }
}
