import Cryptography
import Foundation
import JSONTree
import Testing
import TestSupport

@testable import Accounts
@testable import Tokens

/// ID tokens as issued and published (accounts contract §5.1, §5.2).
@Suite(.timeLimit(.minutes(30))) struct IDTokenTests {
    private func keys(_ keys: SigningKey..., clock: FakeClock = FakeClock()) throws -> SigningKeys {
        try SigningKeys(keys, lifetimeSeconds: 3900, now: clock.now)
    }

    /// Verified as by a third party: with the published key set only.
    @Test(arguments: SignatureAlgorithm.allCases)
    func check27_idToken_verifiesWithThePublishedKeys(_ algorithm: SignatureAlgorithm) throws {
        let key = algorithm == .rs256 ? TokenKeys.rsa[0] : TokenKeys.p256[0]
        let keys = try keys(key)
        var claims = IdentityClaims(
            uid: "u1", provider: "password", sessionID: "s1", authTime: 1_790_000_000, issuedAt: 1_790_000_100, expires: 1_790_003_700)
        claims.email = "ana@example.org"
        let token = try keys.sign(claims.payload(project: "demo-app"))
        #expect(token.tokenParts.count == 3)
        let header = try token.tokenJSON(0)
        #expect(header["alg"]?.string == algorithm.rawValue && header["typ"]?.string == "JWT")

        let set = try JSONValue(keys.jwks)
        let published = try #require(set["keys"]?.elements?.first { $0["kid"] == header["kid"] })
        #expect(published["alg"]?.string == algorithm.rawValue && published["use"]?.string == "sig")
        func number(_ name: String) throws -> [UInt8] {
            let text = try #require(published[name]?.string)
            return try #require(Base64.decodeURL(text))
        }
        let signed = token.utf8.prefix(upTo: try #require(token.utf8.lastIndex(of: UInt8(ascii: "."))))
        let signature = try #require(Base64.decodeURL(token.tokenParts[2]))
        let thumbprinted: String
        switch algorithm {
        case .rs256:
            #expect(published["kty"]?.string == "RSA" && published["e"]?.string == "AQAB")
            let key = try PublicKey(.rsa(modulus: try number("n"), exponent: try number("e")))
            #expect(key.isSignature(signature, of: signed))
            thumbprinted = #"{"e":"AQAB","kty":"RSA","n":"\#(try #require(published["n"]?.string))"}"#
        case .es256:
            #expect(published["kty"]?.string == "EC" && published["crv"]?.string == "P-256")
            let key = try PublicKey(.p256(x: try number("x"), y: try number("y")))
            #expect(key.isSignature(signature, of: signed))
            thumbprinted =
                #"{"crv":"P-256","kty":"EC","x":"\#(try #require(published["x"]?.string))","y":"\#(try #require(published["y"]?.string))"}"#
        }
        #expect(header["kid"]?.string == Base64.encodeURL(HashFunction.sha256.hash(thumbprinted.utf8)))

        let payload = try token.tokenJSON(1)
        #expect(payload["iss"] == "https://securetoken.google.com/demo-app" && payload["aud"] == "demo-app")
        #expect(payload["sub"] == "u1" && payload["user_id"] == "u1" && payload["sid"] == "s1")
        #expect(payload["iat"] == 1_790_000_100 && payload["exp"] == 1_790_003_700 && payload["auth_time"] == 1_790_000_000)
        #expect(payload["email"] == "ana@example.org" && payload["email_verified"] == false)
        #expect(payload["provider_id"] == nil && payload["name"] == nil && payload["picture"] == nil && payload["phone_number"] == nil)
        #expect(payload["firebase"] == ["identities": ["email": ["ana@example.org"]], "sign_in_provider": "password"])
    }

    /// The thumbprint of RFC 7638's own example key.
    @Test func keyID_isTheThumbprintOfRFC7638() throws {
        let n = "0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6tSoc_BJECPebWKRXjBZCiFV4n3oknjhMstn6"
            + "4tZ_2W-5JsGY4Hc5n9yBXArwl93lqt7_RN5w6Cf0h4QyQ5v-65YGjQR0_FDW2QvzqY368QQMicAtaSqzs8KJZgnYb9c7d0zgdAZHzu6qMQvRL5"
            + "hajrn1n91CbOpbISD08qNLyrdkt-bFTWhAI4vMQFh6WeZu0fM4lFd2NcRwr3XPksINHaQ-G_xBniIqbw0Ls1jF44-csFCur-kEgU8awapJzKnq"
            + "DKgw"
        let key = try PublicKey(.rsa(modulus: try #require(Base64.decodeURL(n)), exponent: [1, 0, 1]))
        #expect(VerifyingKey(key).id == "NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs")
    }

    @Test func guest_hasNoAddress_andNoIdentities() throws {
        let claims = IdentityClaims(uid: "g", provider: "anonymous", sessionID: "s", authTime: 1, issuedAt: 1, expires: 2)
        let payload = try JSONValue(claims.payload(project: "p"))
        #expect(payload["provider_id"] == "anonymous" && payload["email"] == nil && payload["email_verified"] == nil)
        #expect(payload["firebase"] == ["identities": .object([]), "sign_in_provider": "anonymous"])
    }

    @Test func customClaims_replaceNameAndPicture_andNothingThatTheServiceVouchesFor() throws {
        var claims = IdentityClaims(uid: "u", provider: "custom", sessionID: "s", authTime: 1, issuedAt: 1, expires: 2)
        claims.name = "Ana"
        claims.picture = "https://x/a.png"
        claims.identities = [("google.com", "1099")]
        // Written to the store by an older version, or by hand: reserved names are dropped as well.
        claims.accountClaims = try #require(CustomClaims(stored: #"""
            {"name":"Staff","role":"staff","level":1,"email":"x@y","email_verified":true,"user_id":"root","sub":"root","exp":9,
             "firebase":{},
             "provider_id":"anonymous","phone_number":"+1","sid":"other","auth_time":0,"list":[1,{"a":null}]}
            """#))
        claims.sessionClaims = try #require(CustomClaims(stored: #"{"level":2,"deep":{"x":"é\"\\"}}"#))
        let payload = try JSONValue(claims.payload(project: "p"))
        #expect(payload["name"] == "Staff" && payload["picture"] == "https://x/a.png")
        #expect(payload["role"] == "staff" && payload["level"] == 2)
        #expect(payload["list"] == [1, ["a": .null]] && payload["deep"] == ["x": "é\"\\"])
        #expect(
            payload["email"] == nil && payload["email_verified"] == nil && payload["phone_number"] == nil && payload["provider_id"] == nil)
        #expect(
            payload["user_id"] == "u" && payload["sub"] == "u" && payload["sid"] == "s" && payload["exp"] == 2 && payload["auth_time"] == 1)
        #expect(payload["firebase"] == ["identities": ["google.com": ["1099"]], "sign_in_provider": "custom"])
        let names = payload.members?.map(\.name) ?? []
        #expect(names.count == Set(names).count, "a name twice: \(names)")
    }

    @Test func customClaims_areRefused_byNameFormAndLength() throws {
        #expect(try CustomClaims(json: #"{"role":"staff"}"#, length: 1000).json == #"{"role":"staff"}"#)
        #expect(try CustomClaims(json: "{}", length: 1000).isEmpty)
        for name in [
            "acr", "amr", "at_hash", "aud", "auth_time", "azp", "c_hash", "cnf", "exp", "firebase", "iat", "iss", "jti", "nbf", "nonce",
            "sub",
        ] {
            #expect(throws: AccountError("FORBIDDEN_CLAIM", name)) { try CustomClaims(json: #"{"a":1,"\#(name)":1}"#, length: 1000) }
        }
        for text in [
            "", "[]", "1", "null", #"{"a":1"#, #"{"a":1}x"#, #"{"a":}"#,
            "{\"a\":" + String(repeating: "[", count: 40) + String(repeating: "]", count: 40) + "}",
        ] {
            #expect(throws: AccountError("INVALID_CLAIMS")) { try CustomClaims(json: text, length: 1000) }
        }
        let longest = #"{"a":""# + String(repeating: "é", count: 992) + #""}"#
        #expect(longest.count == 1000)
        #expect(throws: Never.self) { try CustomClaims(json: longest, length: 1000) }
        #expect(throws: AccountError("CLAIMS_TOO_LARGE")) { try CustomClaims(json: longest, length: 999) }
        #expect(try CustomClaims(json: #"{"a":1,"b":2,"a":3}"#, length: 1000).json == #"{"b":2,"a":3}"#)
    }
}
