internal import COpenSSL

/// Why a cryptographic operation failed.
public enum CryptographyError: Error, Sendable, CustomStringConvertible {
    /// The wrong format for a key, or parts that do not match.
    case malformedKey
    /// A key other than RSA or P-256.
    case unsupportedKey
    /// RSA below 2,048 or above 8,192 bits, or with an exponent that is even or not within 3 to 2³³.
    case keyOutOfBounds
    /// libcrypto refused: unsupported parameters, or out of memory.
    case refused

    public var description: String {
        switch self {
        case .malformedKey: "it is no key, or a damaged one"
        case .unsupportedKey: "it is a key neither of RSA nor on P-256"
        case .keyOutOfBounds: "an RSA key must have from 2,048 to 8,192 bits and an odd exponent from 3 to 2^33"
        case .refused: "OpenSSL refused"
        }
    }

    init(fault: Int32) {
        self =
            switch Int(fault) {
            case VIGLA_KEY_UNSUPPORTED: .unsupportedKey
            case VIGLA_KEY_OUT_OF_BOUNDS: .keyOutOfBounds
            default: .malformedKey
            }
    }
}
