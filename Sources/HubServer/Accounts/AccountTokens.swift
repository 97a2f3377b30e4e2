import Accounts
import HubEngine
import Tokens

/// Verifies signed tokens with the account service: its own tokens, and those of the issuers it is configured to trust.
struct AccountTokens: TokenVerifier {
    let accounts: AccountService
    /// See `ServerLimits.tokenLeewaySeconds`.
    let leewaySeconds: Int

    func remembered(_ token: String) -> Identity? {
        accounts.remembered(token, leeway: leewaySeconds).map { Identity(auth: $0.auth, expires: $0.expires) }
    }

    func verify(_ token: String, _ done: @escaping @Sendable (Result<Identity, Failure>) -> Void) {
        accounts.verify(token, leeway: leewaySeconds) { result in
            done(result.map { Identity(auth: $0.auth, expires: $0.expires) }.mapError(Failure.init))
        }
    }
}

extension Failure {
    /// Faults that a fresh token would fix have one status, all others another (contract §2.4).
    init(_ fault: TokenFault) {
        switch fault {
        case .expired, .revoked, .superseded, .disabled, .noAccount: self = Credentials.expiredToken
        case .unavailable, .keysUnavailable: self.init(.unavailable, "The token cannot be checked at the moment. Try again later.")
        case .malformed, .algorithm, .unknownKey, .signature, .issuer, .audience, .subject, .notYetValid: self = Credentials.badToken
        }
    }
}
