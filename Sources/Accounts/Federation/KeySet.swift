import Cryptography
import JSONTree

/// The keys of a JSON Web Key Set (RFC 7517 §5) that can check signatures here. Others in it are nobody's fault and left out.
struct KeySet {
    let keys: [VerifyingKey]

    /// - Parameter limit: keys that are looked at.
    /// - Throws: for what is no key set at all.
    init(_ bytes: [UInt8], limit: Int) throws(KeyFetchFault) {
        guard let set = try? JSONValue(bytes), let list = set["keys"]?.elements else { throw .content("the document is no key set") }
        keys = list.prefix(limit).compactMap(Self.key)
    }

    private static func key(_ value: JSONValue) -> VerifyingKey? {
        // A key without a name could not be asked for, and one for encryption signs nothing.
        guard let id = value["kid"]?.string, value["use"].map({ $0 == "sig" }) ?? true else { return nil }
        func bytes(_ name: String, _ lengths: ClosedRange<Int>) -> [UInt8]? {
            guard let bytes = value[name]?.string.flatMap({ Base64.decodeURL($0) }), lengths.contains(bytes.count) else { return nil }
            return bytes
        }
        let numbers: KeyNumbers
        switch value["kty"]?.string {
        case "RSA":
            // 2,048 to 8,192 bits: shorter ones are weak, longer ones only take time.
            guard let n = bytes("n", 256...1024), let e = bytes("e", 1...4) else { return nil }
            numbers = .rsa(modulus: n, exponent: e)
        case "EC" where value["crv"] == "P-256":
            guard let x = bytes("x", 32...32), let y = bytes("y", 32...32) else { return nil }
            numbers = .p256(x: x, y: y)
        default: return nil
        }
        guard let key = (try? PublicKey(numbers)).map({ VerifyingKey($0, id: id) }) else { return nil }
        return value["alg"].map { $0.string == key.algorithm.rawValue } ?? true ? key : nil
    }
}

/// Where an issuer's keys are.
public enum KeyLocation: Sendable, Hashable {
    /// The URL of a JSON Web Key Set.
    case keySet(String)
    /// OpenID Connect Discovery: the issuer's `/.well-known/openid-configuration` says where.
    case discovery(issuer: String)
}
