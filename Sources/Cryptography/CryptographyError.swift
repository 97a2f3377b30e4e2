internal import COpenSSL

/// What cannot be done, and why.
public enum CryptographyError: Error, Sendable, CustomStringConvertible {
    /// Not the form that a key should have, or parts that do not belong together.
    case malformedKey
    /// A key of another kind than RSA, or on another curve than P-256.
    case unsupportedKey
    /// RSA below 2,048 or above 8,192 bits, or an exponent that is not odd and from 3 to 2³³.
    case keyOutOfBounds
    /// libcrypto did not do it: parameters that it does not take, or no memory.
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
