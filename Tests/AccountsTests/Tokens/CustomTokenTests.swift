import Cryptography
import Foundation
import JSONTree
import Testing

@testable import Accounts
@testable import Tokens

/// Tokens with which servers of the app sign a user in (accounts contract §5.6).
@Suite(.timeLimit(.minutes(30))) struct CustomTokenTests {
    private static let issuer = "server@demo-app.iam.gserviceaccount.com"
    private static let now: Int64 = 1_790_000_000
    private static let key = Result { try PrivateKey.make(.rsa) }

    private var claims: Claims {
        [
            "iss": .string(Self.issuer), "sub": .string(Self.issuer), "aud": .string(CustomTokens.audience), "uid": "some/uid",
            "iat": .int(Self.now),
            "exp": .int(Self.now + 3600), "claims": ["role": "staff"],
        ]
    }

    private func tokens(isDev: Bool = false) throws -> CustomTokens {
        let keys = [try PrivateKey.make(.rsa).publicKey.pem(), try Self.key.get().publicKey.pem()]
        return CustomTokens(
            issuers: [try CustomTokenIssuer(name: Self.issuer, publicKeys: keys)], project: "demo-app", isDev: isDev, claimsLength: 1000)
    }

    /// Signed as by the admin SDKs: without a key id.
    private func sign(_ claims: Claims, header: String = #"{"alg":"RS256","typ":"JWT"}"#) throws -> String {
        let payload = JSONValue.object(claims.map { JSONValue.Member($0.key, $0.value) }).bytes
        let head = Base64.encodeURL(header.utf8) + "." + Base64.encodeURL(payload)
        return head + "." + Base64.encodeURL(try Self.key.get().sign(head.utf8))
    }

    @Test func check76_tokenOfAConfiguredServer_signsInItsUID() throws {
        let tokens = try tokens()
        let found = try tokens.verify(try sign(claims), now: Self.now)
        #expect(found.uid == "some/uid" && found.claims.json == #"{"role":"staff"}"#)
        var bare = claims
        (bare["claims"], bare["uid"], bare["user_id"]) = (nil, nil, "old-name")
        #expect(try tokens.verify(try sign(bare), now: Self.now) == CustomToken(uid: "old-name", claims: .none))
        bare["claims"] = .null
        bare["tenant_id"] = .null
        #expect(try tokens.verify(try sign(bare), now: Self.now + 3599) == CustomToken(uid: "old-name", claims: .none))
    }

    @Test func check76_tokenThatDoesNotFit_isRefused() throws {
        let tokens = try tokens()
        func code(_ change: (inout Claims) -> Void) throws -> String? {
            var claims = claims
            change(&claims)
            return refusal(tokens, try sign(claims))
        }
        let invalid = "INVALID_CUSTOM_TOKEN"
        #expect(try code { _ in } == nil)
        #expect(try code { $0["aud"] = "demo-app" } == invalid)
        #expect(try code { $0["aud"] = nil } == invalid)
        #expect(try code { $0["exp"] = .int(Self.now) } == invalid)
        #expect(try code { $0["exp"] = nil } == invalid)
        #expect(try code { $0["exp"] = .int(Self.now + 3601) } == invalid)
        #expect(try code { $0["exp"] = .int(.max) } == invalid)
        #expect(try code { ($0["iat"], $0["exp"]) = (.int(.min), .int(Self.now + 3600)) } == invalid)
        #expect(try code { ($0["iat"], $0["exp"]) = (.int(Self.now + 60), .int(Self.now + 3660)) } == nil)
        #expect(try code { ($0["iat"], $0["exp"]) = (.int(Self.now + 61), .int(Self.now + 3661)) } == invalid)
        #expect(try code { $0["iat"] = nil } == invalid)
        #expect(try code { $0["sub"] = "else@demo-app.iam.gserviceaccount.com" } == invalid)
        #expect(try code { ($0["iss"], $0["sub"]) = (
            "else@demo-app.iam.gserviceaccount.com", "else@demo-app.iam.gserviceaccount.com") } == invalid)
        #expect(try code { ($0["iss"], $0["sub"]) = (
            "x@other-app.iam.gserviceaccount.com", "x@other-app.iam.gserviceaccount.com") } == "CREDENTIAL_MISMATCH")
        #expect(try code { $0["uid"] = nil } == "MISSING_IDENTIFIER")
        #expect(try code { $0["uid"] = "" } == "MISSING_IDENTIFIER")
        #expect(try code { $0["uid"] = 7 } == "MISSING_IDENTIFIER")
        #expect(try code { $0["uid"] = .string(String(repeating: "u", count: 128)) } == nil)
        #expect(try code { $0["uid"] = .string(String(repeating: "u", count: 129)) } == invalid)
        #expect(try code { $0["tenant_id"] = "t" } == invalid)
        #expect(try code { $0["claims"] = "role" } == "INVALID_CLAIMS")
        #expect(try code { $0["claims"] = [] } == "INVALID_CLAIMS")
        #expect(try code { $0["claims"] = ["sub": "root"] } == "FORBIDDEN_CLAIM")
        #expect(try code { $0["claims"] = ["a": .string(String(repeating: "x", count: 1000))] } == "CLAIMS_TOO_LARGE")
    }

    @Test func check76_tokenWithoutAGoodSignature_isRefused_exceptUnderDev() throws {
        let (live, dev) = (try tokens(), try tokens(isDev: true))
        let good = try sign(claims)
        let payload = String(decoding: try #require(Base64.decodeURL(good.tokenParts[1])), as: UTF8.self)
        let unsigned = compact(#"{"alg":"none","typ":"JWT"}"#, payload)
        let invalid = "INVALID_CUSTOM_TOKEN"
        for token in [unsigned, payload, #"{"uid":"root"}"#] {
            #expect(refusal(live, token) == invalid)
            #expect(refusal(dev, token) == nil)
        }
        var late = claims
        late["exp"] = .int(Self.now)
        #expect(
            refusal(dev, compact(#"{"alg":"none"}"#, JSONValue.object(late.map { JSONValue.Member($0.key, $0.value) }).json)) == invalid)
        for tokens in [live, dev] {
            #expect(refusal(tokens, "") == "MISSING_CUSTOM_TOKEN")
            #expect(refusal(tokens, good) == nil)
            #expect(refusal(tokens, good.tokenParts[0] + "." + good.tokenParts[1] + ".") == invalid)
            #expect(refusal(tokens, good.tokenParts[0] + "." + Base64.encodeURL(
                payload.replacingOccurrences(of: "some", with: "root").utf8) + "." + good.tokenParts[2]) == invalid)
            #expect(refusal(tokens, try sign(claims, header: #"{"alg":"RS512"}"#)) == invalid)
            #expect(refusal(tokens, try sign(claims, header: #"{"alg":"none"}"#)) == invalid)
            let head = Base64.encodeURL(#"{"alg":"HS256"}"#.utf8) + "." + good.tokenParts[1]
            let secret = try Self.key.get().publicKey.pem()
            #expect(refusal(tokens, head + "." + Base64.encodeURL(hmac(head, key: secret.utf8))) == invalid)
            for nonsense in ["a", "a.b.c", "{", "{}x", "..", "\u{0}"] { #expect(refusal(tokens, nonsense) == invalid) }
        }
        #expect(refusal(dev, #"{"claims":{}}"#) == "MISSING_IDENTIFIER")
    }

    private func refusal(_ tokens: CustomTokens, _ token: String) -> String? {
        do throws(AccountError) {
            _ = try tokens.verify(token, now: Self.now)
            return nil
        } catch {
            #expect(error.message.components(separatedBy: " : ").count <= 2)
            return error.code
        }
    }
}
