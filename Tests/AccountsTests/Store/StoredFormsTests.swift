import Cryptography
import Foundation
import JSONTree
import Testing

@testable import Accounts
@testable import Tokens

/// Stored data of folders and app servers, as written when swift-crypto computed it. It is still readable, and the current output is the same byte
/// for byte.
struct StoredFormsTests {
    private static let password = "κωδικός"

    // MARK: Passwords

    private static let scrypt = "$scrypt$ln=5,r=8,p=3$gKV9OPKYi3t8MVD/CSiE4A$G+fB/p6QN2qLCQsbjuln9xe6AdIgLScz0+dUHHbES1s"
    /// With the key 0, 1, … 31.
    private static let peppered = "$scrypt$ln=5,r=8,p=3,keyid=k1$jqffv/GHw6uMWigfqRhK+g$F8KQtgN1IeLDWnIMpvNlQWh7OLZBeBsGexTjBGZsL5I"
    private static let imported = [
        "$pbkdf2-sha1$i=1000$cmFuZG9tc2FsdGlzMTZieQ$oIUZkl3I/YCc7piVVcsQN6OTPc8",
        "$pbkdf2-sha256$i=1000$cmFuZG9tc2FsdGlzMTZieQ$89jpSgh0nvLW4GaFWypvd/QD/qbmwnX5eOsSj4MyFrQ",
        "$pbkdf2-sha512$i=1000$cmFuZG9tc2FsdGlzMTZieQ$1A2y2aIQdPN9hBbmfM0sydyKUVCZtczoApnHT5Nz86UStVZdrFZpO8I"
            + "8lIJ5cZJoOGp9kfza2hsSyqz98Ew5IQ",
        "$firebase-scrypt$ln=8,r=8$cmFuZG9tc2FsdGlzMTZieQ$Bw$AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIj"
            + "JCUmJygpKissLS4vMDEyMzQ1Njc4OTo7PD0+Pw$oRkEE0XHZtdNb3MaH0t1D07yjBcDOIll3eaplbGqmpLXV8582Hb7HYqiaV6rI"
            + "UwMrrQN/FKHPJ8zKpZnfcLgOw",
    ]

    @Test func password_isRight_forHashesOfBefore() async throws {
        var settings = PasswordSettings.quick
        let bare = PasswordHasher(settings)
        settings.pepper = PasswordPepper(key: (0..<32).map { UInt8($0) }, keyID: "k1")
        let peppered = PasswordHasher(settings)
        for (hasher, stored) in [(bare, Self.scrypt), (peppered, Self.peppered)] {
            #expect(try await hasher.verify(Self.password, stored) == .right)
            #expect(try await hasher.verify(Self.password + " ", stored) == .wrong)
        }
        for stored in Self.imported {
            #expect(try await bare.verify(Self.password, stored) == .rightButOutdated, "\(stored)")
            #expect(try await bare.verify(Self.password + " ", stored) == .wrong)
        }
    }

    @Test func hash_isTheSame_fromTheSameSalt() throws {
        for text in [Self.scrypt] + Self.imported {
            let stored = try #require(PasswordHash(text))
            #expect(stored.derive(Array(Self.password.utf8), pepper: nil)?.copy == stored.expected)
        }
    }

    // MARK: Keys of ID tokens

    private struct OldKey {
        let algorithm: SignatureAlgorithm
        /// The column `private_key`, base64.
        let der: String
        /// The published key.
        let jwk: String
        /// A token signed with it, with the payload `{"sub":"ana"}`.
        let token: String
    }

    private static let keys = [
        OldKey(
            algorithm: .rs256,
            der: "MIIEvgIBADANBgkqhkiG9w0BAQEFAASCBKgwggSkAgEAAoIBAQDZqjD4T4BGeGawqVoXwQJo/88AGQkppSl4Qvm20xb9u54UcigE"
                + "T31ySyClg+5zUFWYA2aWpP92g60HYLebJQP4vacMqt18wkvJzFL6ORS4CzcLEj89xUGzu4+HHi3pEQ2eN+QT71zC0UJi/A1OoFob"
                + "n4oSYAgJx0NZET9yocjHGFRP8CXmPBvVu6w1fMPnd9F+aHzKDce4JJ/8GJSDw3vIhGkUeHVCRDe1G1EaneNg/C2Y2s8zEFLy2+N2"
                + "548Kxx0sSITNa0XYyXnRtHhTQthRrmgZ68ltL5QSW+CcEci4619x3EUMATozXzIyWY5fCpLBraScnx+aXa5hfPtQ8xhHAgMBAAEC"
                + "ggEAIDsn6jUXiRfeGO3S5e6SNUsf82NBrJWE6QZ95LkoT+U+2Mc4rr64lDqUuH2rSw8LxalHQSpom7uO3SdQuNwH1Qb8XA9XIdjB"
                + "kT280cmvDDu46F5I2BREEOHGtJre8IKycgnTr7IDmeOTwYWSUODExw9eSi9HMW98xQ0dSJO1X+mv4iqfnXpXVrosH7haESu++MZ6"
                + "RBicdIXiE+fmC9VNpEtcPG9/2i/nNMhYIA5RkKJyUHhf2ry5az7LTM9ktWj1V0MDWSIUv1JOsDamm0t24KKzk8a0UJ+sRDhoKU06"
                + "LegPduzQpP+xfgSnqpYmeUL8ose8hIEU4NEZ94e+/77h9QKBgQD3TcGNQ3wDiWY+Ta7P4iEaUqqSXTv2yPNHHGd1AnAcSXDgoeOu"
                + "+45cL2cVScrnRxnuf/apeGVliMQOqf5xdlQ70ZC5k+r1ySsJj5pZbN36+VAsM9jEarIiVUnOJLDGr1qZz7BCjtH/VbRZ/055gfeI"
                + "2iQ10xZjRpLDhbFOdKPK2wKBgQDhUZ+tgzA9M4ljQEFyxhlJe/n7FPCB4nSqPznWDvl1iK2q7lWdRwvsadiPiKNadjz3i4S1/uwv"
                + "qtljxk+FNCwcUek55WD6Hn7ZSaacC7t6KzRMUhCJmQMIdfJkua/RN/KT1E/e7zAWZ2CzNXz8lWOau+9UN3s4IQn7vO0LZ60GBQKB"
                + "gAIQaRQnwwo4hFzywwnDJmmU1Q2hr5Vwue8XApoMaikiR8noMAFO4jJMxvx7gDEL++Bsuv9RHO+LA6/npVMHHM7fAek6ndRtWGmd"
                + "BDnI2dV1bUDhMeb5yQDWW2ZYEg2mewgbnqn/jSsnaPjzU5FaD1naEEFOwLoVZbYyEHfKK2/PAoGBAJVCUvrISu5f84USDckQPbQW"
                + "MpUHXANOlmYpGBEbPlmDvzfaRlC3vchQnasHot7MMLrza2h8hM1W6kdUGV1uIEJqaIt3zfQiu3kJdxssEndto2lje50LBZ1XNMlQ"
                + "0I1R+JnBLV/LJxnQRZixuChCdgcMtBAf6LpX+JsQnh7OASpZAoGBAKUusV2s11Vi0tvTWKyHljeYS1AaUOOhUBc4QMtx1wNYJYb6"
                + "pCqO5eVB1RgpAq6MNmiE50DzOuYecLUkexg1VHHL56xdRbQqcPZ1P1B+xQtzRdf3dVITCA6q+Y5Oh3bHEJtrHxqWIfoGXxWhtO3P"
                + "MTX0BjxGAVzEvNTdFQ/CPia5",
            jwk: #"{"use":"sig","alg":"RS256","kid":"JgfjQ1jG4xXqfdil6VsqqiElYJ6f-bccB42srdBycLU","e":"AQAB","kty":"#
                + #""RSA","n":"2aow-E-ARnhmsKlaF8ECaP_PABkJKaUpeEL5ttMW_bueFHIoBE99cksgpYPuc1BVmANmlqT_doOtB2C3myUD-"#
                + #"L2nDKrdfMJLycxS-jkUuAs3CxI_PcVBs7uPhx4t6RENnjfkE-9cwtFCYvwNTqBaG5-KEmAICcdDWRE_cqHIxxhUT_Al5jwb1"#
                + #"busNXzD53fRfmh8yg3HuCSf_BiUg8N7yIRpFHh1QkQ3tRtRGp3jYPwtmNrPMxBS8tvjduePCscdLEiEzWtF2Ml50bR4U0LYU"#
                + #"a5oGevJbS-UElvgnBHIuOtfcdxFDAE6M18yMlmOXwqSwa2knJ8fml2uYXz7UPMYRw"}"#,
            token: "eyJhbGciOiJSUzI1NiIsImtpZCI6IkpnZmpRMWpHNHhYcWZkaWw2VnNxcWlFbFlKNmYtYmNjQjQyc3JkQnljTFUiLCJ0eXAiOiJK"
                + "V1QifQ.eyJzdWIiOiJhbmEifQ.ah4LUgNwwjq1tzGspKHlKH1YSNvgm1WNjMjw60TSY-dWrgb_jwaRDlLnZeBTGmHSagBhFwnrTK"
                + "S6PFmn7XzeBCmkVxChzONRXTfPcRW_bU_HxIFexG499RDJ91mAOieyLy0ZXjMdjv5J3jE1-cCxbQxf_LcCENjfJayF6LflzQSGS2"
                + "w5GCQQW8xckP7531dLa7OT8Ntnh0kzWER7DHSYhWuahoiznPcWexUfkXcrObTd3UUUNpihV2OzriD_3CYjL0o5tSq48mS0urJAkx"
                + "6Hi7jNUfc8sOqONb_WuvT_bhAO03QU_eLNHGDyNAQUU1c3K7KBVLKndr8ObOUq1P0HRw"),
        OldKey(
            algorithm: .es256,
            der: "MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgUWt+3LmDuLkymF+noPCLe89cikhRZCSw0Fvc45e/dtOhRANCAAR3"
                + "yFs+xlZ970okyTDQSU1aNbfLP7tuloMVtn148IhnO1nZTiDNJwglzt8d8wZLeSog/zSyJGTyXNX8HF17Yqp0",
            jwk: #"{"use":"sig","alg":"ES256","kid":"pooWZkteuSxSPVzUA9SOnVPlHFSyCgp1upzKltJgrwE","crv":"P-256","kt"#
                + #"y":"EC","x":"d8hbPsZWfe9KJMkw0ElNWjW3yz-7bpaDFbZ9ePCIZzs","y":"WdlOIM0nCCXO3x3zBkt5KiD_NLIkZPJc1"#
                + #"fwcXXtiqnQ"}"#,
            token: "eyJhbGciOiJFUzI1NiIsImtpZCI6InBvb1daa3RldVN4U1BWelVBOVNPblZQbEhGU3lDZ3AxdXB6S2x0Smdyd0UiLCJ0eXAiOiJK"
                + "V1QifQ.eyJzdWIiOiJhbmEifQ.mcPC1Rq1LVDWUoPh_yaiaX3xfVxdkOJdczuT6rtH4CsZNRCQCDQXOzvUboVk4IlQkjzQ38N_Xb"
                + "EsRyxYuisIwA"),
    ]

    private func stored(_ key: OldKey) throws -> StoredSigningKey {
        StoredSigningKey(algorithm: key.algorithm, privateKey: SecretBytes(Array(try #require(Data(base64Encoded: key.der)))), createdAt: 0)
    }

    /// Its name, its published form and the tokens that clients still have.
    @Test func key_isTheSame_readFromAFileOfBefore() throws {
        for old in Self.keys {
            let key = try SigningKey(try stored(old))
            #expect(String(decoding: key.jwk, as: UTF8.self) == old.jwk)
            let payload = try old.token.readCompact { token throws(TokenFault) in try token.payload(by: key.verifying) }
            #expect(payload == Array(#"{"sub":"ana"}"#.utf8))
            let token = try key.sign(payload)
            // ECDSA signatures have a random part.
            if old.algorithm == .rs256 { #expect(token == old.token) }
            #expect(token.tokenParts.dropLast() == old.token.tokenParts.dropLast())
            let verified = try token.readCompact { token throws(TokenFault) in try token.payload(by: key.verifying) }
            #expect(verified == payload)
        }
    }

    /// An older hub can read the output of this one.
    @Test func key_isWrittenAsBefore() throws {
        for old in Self.keys { #expect(Data(try PrivateKey(der: try stored(old).privateKey).der().copy).base64EncodedString() == old.der) }
        for algorithm in SignatureAlgorithm.allCases {
            let made = try StoredSigningKey.generate(algorithm, now: 0).privateKey.copy
            let old = try stored(try #require(Self.keys.first { $0.algorithm == algorithm })).privateKey.copy
            // The version and the algorithm of PKCS #8, between lengths; RSA integers are a byte longer if their first bit is set.
            let header = algorithm == .rs256 ? 4..<23 : 3..<36
            #expect(made[header].elementsEqual(old[header]) && abs(made.count - old.count) <= (algorithm == .rs256 ? 16 : 0))
        }
    }

    @Test func key_isRefused_underAnotherAlgorithm() throws {
        for old in Self.keys {
            let other: SignatureAlgorithm = old.algorithm == .rs256 ? .es256 : .rs256
            let stored = StoredSigningKey(algorithm: other, privateKey: try stored(old).privateKey, createdAt: 0)
            #expect(throws: CryptographyError.unsupportedKey) { try SigningKey(stored) }
        }
    }

    // MARK: Servers that sign custom tokens

    /// The public half of the RSA key above.
    private static let publicKey = """
        -----BEGIN PUBLIC KEY-----
        MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEA2aow+E+ARnhmsKlaF8EC
        aP/PABkJKaUpeEL5ttMW/bueFHIoBE99cksgpYPuc1BVmANmlqT/doOtB2C3myUD
        +L2nDKrdfMJLycxS+jkUuAs3CxI/PcVBs7uPhx4t6RENnjfkE+9cwtFCYvwNTqBa
        G5+KEmAICcdDWRE/cqHIxxhUT/Al5jwb1busNXzD53fRfmh8yg3HuCSf/BiUg8N7
        yIRpFHh1QkQ3tRtRGp3jYPwtmNrPMxBS8tvjduePCscdLEiEzWtF2Ml50bR4U0LY
        Ua5oGevJbS+UElvgnBHIuOtfcdxFDAE6M18yMlmOXwqSwa2knJ8fml2uYXz7UPMY
        RwIDAQAB
        -----END PUBLIC KEY-----
        """

    private static let publicKeyPKCS1 = """
        -----BEGIN RSA PUBLIC KEY-----
        MIIBCgKCAQEA2aow+E+ARnhmsKlaF8ECaP/PABkJKaUpeEL5ttMW/bueFHIoBE99
        cksgpYPuc1BVmANmlqT/doOtB2C3myUD+L2nDKrdfMJLycxS+jkUuAs3CxI/PcVB
        s7uPhx4t6RENnjfkE+9cwtFCYvwNTqBaG5+KEmAICcdDWRE/cqHIxxhUT/Al5jwb
        1busNXzD53fRfmh8yg3HuCSf/BiUg8N7yIRpFHh1QkQ3tRtRGp3jYPwtmNrPMxBS
        8tvjduePCscdLEiEzWtF2Ml50bR4U0LYUa5oGevJbS+UElvgnBHIuOtfcdxFDAE6
        M18yMlmOXwqSwa2knJ8fml2uYXz7UPMYRwIDAQAB
        -----END RSA PUBLIC KEY-----
        """

    @Test func issuer_isReadFromItsPublicKey_inBothForms() throws {
        for pem in [Self.publicKey, Self.publicKey + "\n", Self.publicKeyPKCS1] {
            let issuer = try CustomTokenIssuer(name: "server", publicKeys: [pem])
            #expect(issuer.keys.map(\.id) == ["JgfjQ1jG4xXqfdil6VsqqiElYJ6f-bccB42srdBycLU"])
        }
        for pem in ["", "no key", Self.publicKey.replacingOccurrences(of: "A", with: "B"), try PrivateKey.make(.p256).publicKey.pem()] {
            #expect(throws: CryptographyError.self) { try CustomTokenIssuer(name: "server", publicKeys: [pem]) }
        }
    }

    // MARK: Hashes of secrets

    @Test func rows_areFoundByTheSameHash() {
        #expect(Data(SecretHash.of("a secret")).base64EncodedString() == "mEylFiIAc0xZIUjxggtxBX8JhXPROGZrSGY+TjDNjTo=")
        #expect(Subject(.account, "ana@example.org").text == "a86b9260a115ceac89a9738af23696ce3")
    }
}
