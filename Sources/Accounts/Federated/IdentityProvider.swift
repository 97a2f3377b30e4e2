import JSONTree
public import Tokens

/// A service that users may sign in with: the location of its keys, and the required claims of its ID tokens (accounts contract §7.2).
public struct IdentityProvider: Sendable, Hashable {
    /// `google.com`, `apple.com`, `oidc.x`: the `providerId` that the SDKs send.
    public var id: String
    /// Accepted values of `iss`.
    public var issuers: [String]
    public var keys: KeyLocation
    public var algorithms: Set<SignatureAlgorithm>
    /// Our client ids at the provider, one for each kind of app: accepted values of `aud` and `azp`.
    public var clientIDs: [String]
    /// Whether token and request must both have a nonce. Otherwise both or neither must have one.
    public var needsNonce: Bool
    /// Whether the token may contain the request's nonce in clear, as in web flows of OpenID Connect, and not only its SHA-256. Then a thief of
    /// the token also has its nonce.
    public var acceptsPlainNonce: Bool
    /// Accepts only accounts of this organisation (claim `hd`); Google only.
    public var hostedDomain: String?
    /// Domains whose addresses belong to the provider, so that it is authoritative for them. In lower case; subdomains are not included.
    public var authoritativeDomains: [String]

    private static let googleDomains = ["gmail.com"]
    private static let appleDomains = ["privaterelay.appleid.com", "icloud.com", "me.com", "mac.com"]

    /// Whether a lower-case text can be the domain of an address: at least two labels (RFC 1123 §2.1).
    public static func isDomain(_ text: String) -> Bool {
        let labels = text.utf8.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        return labels.count > 1 && text.utf8.count <= 253
            && labels.allSatisfy { label in
                1...63 ~= label.count && label.first != UInt8(ascii: "-") && label.last != UInt8(ascii: "-")
                    && label.allSatisfy { 0x61...0x7A ~= $0 || 0x30...0x39 ~= $0 || $0 == UInt8(ascii: "-") }
            }
    }

    /// The built-in provider that owns a domain's addresses; nil for any other domain.
    public static func owner(ofDomain domain: String) -> String? {
        googleDomains.contains(domain) ? "google.com" : appleDomains.contains(domain) ? "apple.com" : nil
    }

    /// Google, with its web, iOS and Android client ids.
    public static func google(clientIDs: [String], hostedDomain: String? = nil) -> IdentityProvider {
        IdentityProvider(
            id: "google.com", issuers: ["https://accounts.google.com", "accounts.google.com"],
            keys: .keySet("https://www.googleapis.com/oauth2/v3/certs"), algorithms: [.rs256], clientIDs: clientIDs, needsNonce: false,
            acceptsPlainNonce: false, hostedDomain: hostedDomain, authoritativeDomains: googleDomains)
    }

    /// Apple, with bundle ids and services ids.
    public static func apple(clientIDs: [String]) -> IdentityProvider {
        IdentityProvider(
            id: "apple.com", issuers: ["https://appleid.apple.com"], keys: .keySet("https://appleid.apple.com/auth/keys"),
            algorithms: [.rs256],
            clientIDs: clientIDs, needsNonce: true, acceptsPlainNonce: false, hostedDomain: nil,
            authoritativeDomains: appleDomains)
    }

    /// Any other OpenID Connect provider.
    /// - Parameters:
    ///   - id: `oidc.` and a name.
    ///   - keys: nil uses the issuer's discovery document.
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

/// A user's identity at another service, as signed by that service (accounts contract §7).
public struct FederatedIdentity: Sendable, Equatable {
    /// `google.com`, `apple.com`, `oidc.x`
    public let provider: String
    /// The service's `sub`, the permanent id of the person there; never the address.
    public let subject: String
    /// As the service spells it.
    public let email: String?
    public let isEmailVerified: Bool
    /// Whether the service is authoritative for the address, so that its user there owns it everywhere.
    public let isAuthoritative: Bool
    public let name: String?
    public let givenName: String?
    public let familyName: String?
    public let picture: String?
    /// The user's name at the service, if it has such names (`screen_name`).
    public let screenName: String?
    /// The `rawUserInfo` of the SDKs: the text of a JSON object.
    public let rawUserInfo: String
    /// The key under which the token is recorded as used; nil without a nonce. See `FederatedIdentities.release`.
    let replayKey: [UInt8]?

    /// The `federatedId` in sign-in responses; accounts store `subject` (accounts contract §4).
    public var federatedID: String { provider == "google.com" ? "https://accounts.google.com/" + subject : subject }

    /// - Parameters:
    ///   - claims: verified claims.
    ///   - payload: the bytes that the claims were parsed from.
    init(_ claims: Node, payload: [UInt8], provider: String, domains: [String], replayKey: [UInt8]?) throws(TokenFault) {
        self.provider = provider
        self.replayKey = replayKey
        subject = try TokenExpectations.subject(claims, length: 255)
        email = claims.text("email").flatMap { $0.isEmpty ? nil : $0 }
        // Apple sends it as a string.
        let isVerified = claims.child("email_verified") == true || claims.child("email_verified") == "true"
        isEmailVerified = email != nil && isVerified
        let domain = email?.split(separator: "@").last?.lowercased()
        let isHosted = provider == "google.com" && isVerified && claims.text("hd").map { $0.lowercased() == domain } ?? false
        isAuthoritative = isEmailVerified && (isHosted || domain.map(domains.contains) ?? false)
        name = claims.text("name")
        givenName = claims.text("given_name")
        familyName = claims.text("family_name")
        picture = claims.text("picture")
        screenName = claims.text("screen_name")
        rawUserInfo = provider == "google.com" ? Self.googleUserInfo(claims) : String(decoding: payload, as: UTF8.self)
    }

    /// The user info with Google's own member names.
    private static func googleUserInfo(_ claims: Node) -> String {
        var members: [JSONValue.Member] = []
        for (name, claim): (String, Key) in [
            ("id", "sub"), ("name", "name"), ("given_name", "given_name"), ("family_name", "family_name"), ("email", "email"),
            ("picture", "picture"), ("locale", "locale"), ("hd", "hd"),
        ] { members.add(name, claims.text(claim)) }
        if claims.child("email").exists { members.append(.init("verified_email", .bool(claims.child("email_verified") == true))) }
        return JSONValue.object(members).json
    }
}
