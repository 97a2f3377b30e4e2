public import Tokens

/// A service that users may sign in with: where its keys are, and what its ID tokens must say (accounts contract §7.2).
public struct IdentityProvider: Sendable, Hashable {
    /// `google.com`, `apple.com`, `oidc.x`: what the SDKs send as `providerId`.
    public var id: String
    /// Accepted values of `iss`.
    public var issuers: [String]
    public var keys: KeyLocation
    public var algorithms: Set<SignatureAlgorithm>
    /// Our own names at the provider, one for each kind of app: accepted values of `aud`, and of `azp`.
    public var clientIDs: [String]
    /// Whether token and request must both have a nonce. Otherwise they must both have one, or neither.
    public var needsNonce: Bool
    /// Whether the token may hold the request's nonce itself, as web flows of OpenID Connect have it, and not only its SHA-256. Then
    /// a thief of the token also has its nonce.
    public var acceptsPlainNonce: Bool
    /// Only accounts of this organisation (claim `hd`); Google.
    public var hostedDomain: String?
    /// Domains whose addresses are the provider's own, so that it can say whose they are.
    public var authoritativeDomains: [String]

    /// Google, for its web, iOS and Android client ids.
    public static func google(clientIDs: [String], hostedDomain: String? = nil) -> IdentityProvider {
        IdentityProvider(
            id: "google.com", issuers: ["https://accounts.google.com", "accounts.google.com"],
            keys: .keySet("https://www.googleapis.com/oauth2/v3/certs"), algorithms: [.rs256], clientIDs: clientIDs, needsNonce: false,
            acceptsPlainNonce: false, hostedDomain: hostedDomain, authoritativeDomains: ["gmail.com"])
    }

    /// Apple, for bundle ids and services ids.
    public static func apple(clientIDs: [String]) -> IdentityProvider {
        IdentityProvider(
            id: "apple.com", issuers: ["https://appleid.apple.com"], keys: .keySet("https://appleid.apple.com/auth/keys"),
            algorithms: [.rs256],
            clientIDs: clientIDs, needsNonce: true, acceptsPlainNonce: false, hostedDomain: nil,
            authoritativeDomains: ["privaterelay.appleid.com", "icloud.com", "me.com", "mac.com"])
    }

    /// Any other that speaks OpenID Connect.
    /// - Parameters:
    ///   - id: `oidc.` and a name.
    ///   - keys: nil asks the issuer's discovery document.
    public static func openID(
        _ id: String, issuer: String, clientIDs: [String], keys: KeyLocation? = nil, algorithms: Set<SignatureAlgorithm> = [.rs256, .es256],
        needsNonce: Bool = false, acceptsPlainNonce: Bool = true, authoritativeDomains: [String] = []
    ) -> IdentityProvider {
        IdentityProvider(
            id: id, issuers: [issuer], keys: keys ?? .discovery(issuer: issuer), algorithms: algorithms, clientIDs: clientIDs,
            needsNonce: needsNonce,
            acceptsPlainNonce: acceptsPlainNonce, hostedDomain: nil, authoritativeDomains: authoritativeDomains)
    }
}
