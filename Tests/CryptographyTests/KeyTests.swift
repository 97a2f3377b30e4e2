import Foundation
import Testing

@testable import Cryptography

/// Keys that are refused, and forms of keys, created with OpenSSL's command line.
private enum Samples {
    /// RSA of 1,024 bits: PKCS #1, SubjectPublicKeyInfo.
    static let weakPrivate =
        "MIICXAIBAAKBgQDAVbdiBkZRWhyAvSr21IqZWAtB7BRb6iE86thxYRWMJLeRyLkXrzvER/+BDAfr4IZvRU9v/9rHNsiOkUGYoFip"
        + "h7pnkpe71egbczvniuLhv/TE+xCf+LvGRoqdqL3pVYuVfUn44CZiCeoN4+NJmnjY6TffK9OWaSUGgg6fSl1oKwIDAQABAoGAGYbG"
        + "0fG3P3DQO53fp+bJhlSTGeq1QQWv55/bniCedX0iB+0185jEO+a6WGw6WOnxra7rPhgc9zekIpfQtusBGTQNMv1/k+m6EV2TSXcz"
        + "ITFnUzwLtESqB8GPKHepSzJNdmb0nTs8M2B1bISLnl29QnKMtRxq8YEg0EElOH6zOEECQQDf/TbqWdpWb39N8Q3Z2XJ1y4nXgn9p"
        + "G2VAkPnZCvMR+TEY+fGDH/m+oB2AWCz7y7SROUvOsakAzIOO51Aw9F/7AkEA29JoywOBRozTuVEAHZCTPW5gp2IWbPJdRKN2SQZn"
        + "8UKrXqG6BTdsVhikGhO1ZB4YwMwjm0qa0bQBJ9o1JHwxkQJAJZeCuuwfl7gYvoUBVRmIezqQxMmTBpnhcWejdwi+aLrQwadZIC+i"
        + "o5qNuPeTfSLgCCt8jJEGkyq/vaEWtVCeNwJBAM19VBjzndWlsAZ8ge8hR4MVu6S9PNl7d1TCucBqDKCsAibkaFCYDt4tCrqV0etV"
        + "dy5DpsV0aGXAL5Rhl2wT7QECQCO23qBzM5IjNYu2RJx094Y7SFFNI7O6rNbVK3Y8NZjxP7sDy7sHrDA/axbS7oTSZjebMt6JoCmL"
        + "yu9zCW/dDXE="
    static let weakPublic =
        "MIGfMA0GCSqGSIb3DQEBAQUAA4GNADCBiQKBgQDAVbdiBkZRWhyAvSr21IqZWAtB7BRb6iE86thxYRWMJLeRyLkXrzvER/+BDAfr"
        + "4IZvRU9v/9rHNsiOkUGYoFiph7pnkpe71egbczvniuLhv/TE+xCf+LvGRoqdqL3pVYuVfUn44CZiCeoN4+NJmnjY6TffK9OWaSUG"
        + "gg6fSl1oKwIDAQAB"
    /// RSA only for signatures with RSASSA-PSS.
    static let pssPublic =
        "MIIBIDALBgkqhkiG9w0BAQoDggEPADCCAQoCggEBALJi20DCBDBygJFjjRk9L7NndQlMxbOVUOnwKmvYBX29EzBBLYPcWCIGzuba"
        + "TmXAXyuAjLtJ0KvuBfA2a3oXRIscscKXgzaz216PERPYv2RDowVCocc8AzMA4n7UyTIcUEetbR5emx1FJHvQc5KfLajPG6Vv7/EB"
        + "1nw2VrD6jNkV1MgXZAmaO3kizhdMGmIdXtAh3WAuuswD/grw3C+37fhEhj2+oG0N7NqkKiNHn+FK5/QCDDU/Kiv+vzpH6wkv7/JZ"
        + "GfeU2MxiMWW5vOz6S7AiW3j5GlfRGDQJZHel8OFXx9gk8i5byT0GhOcF7n1J+WsDx4wti9i26IcwAvKtX/sCAwEAAQ=="
    /// On P-384: SEC 1, SubjectPublicKeyInfo.
    static let p384Private =
        "MIGkAgEBBDBSfwP4C35hSwmBi4VCOx04F58ku0TVY1uoysi9DlmF7aVCfMPE1mQ8CAF0APMr6LKgBwYFK4EEACKhZANiAAT8fZk2"
        + "5QbqTC+948bFtQd6h1uQ6ZxqpGDzTwqBOZ7EobkUwi4bZOoygoNLEyxusj0cEGW9dZxiTxxbw0K2GPo+1EPHaL7xEyI0izbAeeKS"
        + "277rxPqBKQM2SFltxzeL2J0="
    static let p384Public =
        "MHYwEAYHKoZIzj0CAQYFK4EEACIDYgAE/H2ZNuUG6kwvvePGxbUHeodbkOmcaqRg808KgTmexKG5FMIuG2TqMoKDSxMsbrI9HBBl"
        + "vXWcYk8cW8NCthj6PtRDx2i+8RMiNIs2wHniktu+68T6gSkDNkhZbcc3i9id"
    /// Ed25519: PKCS #8, SubjectPublicKeyInfo.
    static let ed25519Private = "MC4CAQAwBQYDK2VwBCIEIN4cYBfmmSx4mAeDVAxnXzclf9y+EHMslif6a/Z3mYlH"
    static let ed25519Public = "MCowBQYDK2VwAyEATysQWWDzc2KYfFibOkdaQ4ZeAsPTQ4tz79Y+tpncGq0="
    /// RFC 7515's keys in other forms: SEC 1, and both kinds of points.
    static let p256SEC1 =
        "MHcCAQEEII6bEJ5xkJi/mASH3x9dd+nLKWBuvtImO19XwhPfhPSyoAoGCCqGSM49AwEHoUQDQgAEf83OJ3D2xF1Bg8vub9tLe1gH"
        + "MzV76e8Tus9uPHvRVEXH8UTNG72bfocs3+257rn0s2ldbqkLJK2KRiMohYjlrQ=="
    static let p256Public =
        "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEf83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEXH8UTNG72bfocs3+257rn0"
        + "s2ldbqkLJK2KRiMohYjlrQ=="
    static let p256Compressed = "MDkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDIgADf83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU="
}

struct KeyTests {
    private static let rsaDER = base64(RFC7515.rsaDER), p256DER = base64(RFC7515.p256DER)

    private func privateFault(_ der: [UInt8]) -> CryptographyError? {
        do { _ = try PrivateKey(der: SecretBytes(der)) } catch { return error }
        return nil
    }

    private func publicFault(_ numbers: KeyNumbers) -> CryptographyError? {
        do { _ = try PublicKey(numbers) } catch { return error }
        return nil
    }

    private func pemFault(_ pem: String) -> CryptographyError? {
        do { _ = try PublicKey(pem: pem) } catch { return error }
        return nil
    }

    // MARK: Private keys

    @Test func privateKey_isWrittenAsItWasRead() throws {
        for der in [Self.rsaDER, Self.p256DER] { #expect(try PrivateKey(der: SecretBytes(der)).der().copy == der) }
        for kind in KeyKind.allCases {
            let made = try PrivateKey.make(kind)
            let read = try PrivateKey(der: made.der())
            #expect(read.kind == kind && read.publicKey.numbers == made.publicKey.numbers)
            #expect(try made.publicKey.isSignature(read.sign("text".utf8), of: "text".utf8))
        }
    }

    /// The inner key of PKCS #8, alone.
    @Test func privateKey_isRead_inItsOlderForms() throws {
        let pkcs1 = Array(Self.rsaDER.dropFirst(26))
        #expect(try PrivateKey(der: SecretBytes(pkcs1)).publicKey.numbers == RFC7515.rsaNumbers)
        #expect(try PrivateKey(der: SecretBytes(base64(Samples.p256SEC1))).publicKey.numbers == RFC7515.p256Numbers)
    }

    @Test func privateKey_isRefused_ofAnotherKind() {
        #expect(privateFault(base64(Samples.weakPrivate)) == .keyOutOfBounds)
        #expect(privateFault(base64(Samples.p384Private)) == .unsupportedKey)
        #expect(privateFault(base64(Samples.ed25519Private)) == .unsupportedKey)
    }

    @Test func privateKey_isRefused_malformed() {
        for der in [Self.rsaDER, Self.p256DER] {
            for text in [[], [0], Array(der.dropLast()), der + [0], Array(der.dropFirst()), [UInt8](repeating: 0x30, count: der.count)] {
                #expect(privateFault(text) == .malformedKey)
            }
        }
        #expect(privateFault(base64(Samples.p256Public)) == .malformedKey)
        #expect(privateFault(Array(pem("PRIVATE KEY", Self.rsaDER).utf8)) == .malformedKey)
    }

    /// The private number of one key with the point of another.
    @Test func privateKey_isRefused_withAnotherPublicHalf() throws {
        let other = try PrivateKey.make(.p256).der().copy
        #expect(privateFault(Array(Self.p256DER.prefix(68)) + Array(other.suffix(from: 68))) == .malformedKey)
    }

    /// With one byte changed, the key is refused or signs as before: the file holds more than a signature needs.
    @Test(arguments: KeyKind.allCases) func privateKey_isNeverAnother_whenDamaged(kind: KeyKind) throws {
        let (der, numbers) = kind == .rsa ? (Self.rsaDER, RFC7515.rsaNumbers) : (Self.p256DER, RFC7515.p256Numbers)
        var refused = 0
        for at in stride(from: 0, to: der.count, by: kind == .rsa ? 5 : 1) {
            var damaged = der
            damaged[at] ^= 0x10
            guard let key = try? PrivateKey(der: SecretBytes(damaged)) else {
                refused += 1
                continue
            }
            #expect(try key.publicKey.isSignature(key.sign("text".utf8), of: "text".utf8))
            if key.publicKey.numbers == numbers { #expect(try PublicKey(numbers).isSignature(key.sign("text".utf8), of: "text".utf8)) }
        }
        #expect(refused > der.count / 20)
    }

    // MARK: Public keys

    @Test func publicKey_isTheSame_inAllItsForms() throws {
        let rsa = try PublicKey(RFC7515.rsaNumbers)
        let p256 = try PublicKey(RFC7515.p256Numbers)
        #expect(try p256.der() == base64(Samples.p256Public))
        for key in [rsa, p256] { #expect(try PublicKey(pem: pem("PUBLIC KEY", key.der())).numbers == key.numbers) }
        // The contained PKCS #1 key, after 24 bytes.
        #expect(try PublicKey(pem: pem("RSA PUBLIC KEY", Array(rsa.der().dropFirst(24)))).numbers == RFC7515.rsaNumbers)
        #expect(try PublicKey(pem: pem("PUBLIC KEY", base64(Samples.p256Compressed))).numbers == RFC7515.p256Numbers)
        // CRLF lines, and text around it (RFC 7468 §2).
        let text = try pem("PUBLIC KEY", p256.der())
        #expect(try PublicKey(pem: text.split(separator: "\n").joined(separator: "\r\n") + "\r\n").numbers == RFC7515.p256Numbers)
        #expect(try PublicKey(pem: "Our key:\n" + text + "\n").numbers == RFC7515.p256Numbers)
    }

    @Test func publicKey_isRefused_ofAnotherKind() {
        #expect(pemFault(pem("PUBLIC KEY", base64(Samples.weakPublic))) == .keyOutOfBounds)
        #expect(pemFault(pem("PUBLIC KEY", base64(Samples.pssPublic))) == .unsupportedKey)
        #expect(pemFault(pem("PUBLIC KEY", base64(Samples.p384Public))) == .unsupportedKey)
        #expect(pemFault(pem("PUBLIC KEY", base64(Samples.ed25519Public))) == .unsupportedKey)
    }

    @Test func publicKey_isRefused_malformed() throws {
        let der = base64(Samples.p256Public)
        let good = pem("PUBLIC KEY", der)
        for text in [
            "", "\u{0}", "no key", "-----BEGIN PUBLIC KEY-----", "-----BEGIN PUBLIC KEY-----\n-----END PUBLIC KEY-----\n",
            good.replacingOccurrences(of: "END PUBLIC", with: "END PRIVATE"), String(good.dropLast(60)),
            good.replacingOccurrences(of: "MFk", with: "M*k"),
            pem("PUBLIC KEY", der + [0]), pem("PUBLIC KEY", Array(der.dropLast())), pem("PUBLIC KEY", []), pem("RSA PUBLIC KEY", der),
            pem("CERTIFICATE", der), pem("PRIVATE KEY", Self.p256DER), pem("PUBLIC KEY", Self.p256DER),
            pem("RSA PRIVATE KEY", Array(Self.rsaDER.dropFirst(26))),
        ] { #expect(pemFault(text) == .malformedKey, "\(text)") }
    }

    @Test func p256_isRefused_whenNoPointOfTheCurve() {
        guard case .p256(let x, let y) = RFC7515.p256Numbers else { return }
        let (zero, ones) = ([UInt8](repeating: 0, count: 32), [UInt8](repeating: 0xff, count: 32))
        for (x, y) in [(y, x), (x, zero), (zero, zero), (ones, y), (x, ones), (x, Array(y.dropLast())), ([0] + x, y), ([], [])] {
            #expect(publicFault(.p256(x: x, y: y)) == .malformedKey)
        }
    }

    @Test func rsa_isTaken_fromBothSidesOfItsBounds() throws {
        /// An odd number of this many bits.
        func number(_ bits: Int) -> [UInt8] {
            var bytes = [UInt8](repeating: 0xff, count: (bits + 7) / 8)
            if bits % 8 != 0 { bytes[0] = 1 << UInt8(bits % 8) - 1 }
            return bytes
        }
        for bits in [2048, 2049, 3072, 8192] { #expect(publicFault(.rsa(modulus: number(bits), exponent: [3])) == nil, "\(bits) bits") }
        for bits in [1024, 2047, 8193] {
            #expect(publicFault(.rsa(modulus: number(bits), exponent: [3])) == .keyOutOfBounds, "\(bits) bits")
        }
        for exponent in [[3], [1, 0, 1], [0, 0, 3], [1, 0xff, 0xff, 0xff, 0xff]] as [[UInt8]] {
            #expect(publicFault(.rsa(modulus: number(2048), exponent: exponent)) == nil, "\(exponent)")
        }
        for exponent in [[1], [2], [4], [1, 0, 0], [3, 0xff, 0xff, 0xff, 0xff]] as [[UInt8]] {
            #expect(publicFault(.rsa(modulus: number(2048), exponent: exponent)) == .keyOutOfBounds, "\(exponent)")
        }
        #expect(publicFault(.rsa(modulus: number(2048).dropLast() + [0xfe], exponent: [3])) == .keyOutOfBounds)
        for (modulus, exponent) in [([], [3]), (number(2048), []), ([], []), ([0], [0])] as [([UInt8], [UInt8])] {
            #expect(publicFault(.rsa(modulus: modulus, exponent: exponent)) != nil)
        }
        // Leading zeros are not part of a number.
        #expect(try PublicKey(.rsa(modulus: [0, 0] + number(2048), exponent: [0, 3])).numbers == .rsa(modulus: number(2048), exponent: [3]))
    }
}
