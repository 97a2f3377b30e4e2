import Accounts
import HubEngine
import Tokens

/// Has the accounts check signed tokens: their own, and those of the issuers they were told to trust.
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
    /// What a fresh token would mend is one status, and what none would another (contract §2.4).
    init(_ fault: TokenFault) {
        switch fault {
        case .expired, .revoked, .disabled, .noAccount: self = Credentials.expiredToken
        case .unavailable, .keysUnavailable: self.init(.unavailable, "The token cannot be checked at the moment. Try again later.")
        case .malformed, .algorithm, .unknownKey, .signature, .issuer, .audience, .subject, .notYetValid: self = Credentials.badToken
        }
    }
}
