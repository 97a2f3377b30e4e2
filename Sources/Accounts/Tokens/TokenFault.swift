/// Why a token is not accepted.
public enum TokenFault: Error, Sendable, Hashable {
    /// Not three parts of base64url with JSON objects in the first two, or too long.
    case malformed
    /// Signed by another algorithm than the key's, or not at all.
    case algorithm
    /// By a key that is not, or no longer, one of the issuer's.
    case unknownKey
    /// The keys of its issuer are out of reach and none are held.
    case keysUnavailable
    /// The signature is another's, or the content was changed.
    case signature
    /// By somebody whom nobody trusts.
    case issuer
    /// Meant for somebody else.
    case audience
    /// For nobody, or for a name that is none.
    case subject
    /// Its time is over, or it does not say when that is.
    case expired
    /// Issued in the future.
    case notYetValid
    /// Issued before the account's tokens were revoked, or its session is over.
    case revoked
    /// The account is disabled.
    case disabled
    /// There is no such account, or no more.
    case noAccount
    /// The store could not be asked.
    case unavailable

    /// The error of the account endpoints for an ID token like that (accounts contract §3.2, §5.2).
    public var idTokenError: AccountError {
        switch self {
        case .revoked: AccountError("TOKEN_EXPIRED")
        case .disabled: AccountError("USER_DISABLED")
        case .noAccount: AccountError("USER_NOT_FOUND")
        default: AccountError("INVALID_ID_TOKEN")
        }
    }

    /// What is wrong, for error texts and logs; holds nothing of the token.
    public var text: String {
        switch self {
        case .malformed: "it is not a signed token"
        case .algorithm: "it is signed by an algorithm that is not accepted here"
        case .unknownKey: "it is signed by an unknown key"
        case .keysUnavailable: "the keys of its issuer cannot be fetched"
        case .signature: "its signature does not fit"
        case .issuer: "its issuer (iss) is not trusted here"
        case .audience: "it is meant for another audience (aud)"
        case .subject: "it names no subject (sub) of 1 to 128 characters"
        case .expired: "its time (exp) is over"
        case .notYetValid: "it is issued in the future (iat, auth_time)"
        case .revoked: "it is revoked"
        case .disabled: "its account is disabled"
        case .noAccount: "its account is gone"
        case .unavailable: "the account store does not answer"
        }
    }
}
