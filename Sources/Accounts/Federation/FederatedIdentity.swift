import JSONTree
import Tokens

/// Who a user is at another service, as that service has signed (accounts contract §7).
public struct FederatedIdentity: Sendable, Equatable {
    /// `google.com`, `apple.com`, `oidc.x`
    public let provider: String
    /// The service's `sub`, which names the person there for good; never the address.
    public let subject: String
    /// As the service writes it.
    public let email: String?
    public let isEmailVerified: Bool
    /// Whether the address is the service's own to give, so that its user there is its owner everywhere.
    public let isAuthoritative: Bool
    public let name: String?
    public let givenName: String?
    public let familyName: String?
    public let picture: String?
    /// What SDKs get as `rawUserInfo`: the text of a JSON object.
    public let rawUserInfo: String
    /// What remembers that the token was used; nil for one without a nonce. See `FederatedIdentities.release`.
    let replayKey: [UInt8]?

    /// `federatedId` of answers to a sign-in; accounts keep `subject` (accounts contract §4).
    public var federatedID: String { provider == "google.com" ? "https://accounts.google.com/" + subject : subject }

    /// - Parameters:
    ///   - claims: were checked.
    ///   - payload: the bytes they were read from.
    init(_ claims: Node, payload: [UInt8], provider: String, domains: [String], replayKey: [UInt8]?) throws(TokenFault) {
        self.provider = provider
        self.replayKey = replayKey
        subject = try TokenExpectations.subject(claims, length: 255)
        email = claims.text("email").flatMap { $0.isEmpty ? nil : $0 }
        // Apple writes it as a string.
        let isVerified = claims.child("email_verified") == true || claims.child("email_verified") == "true"
        isEmailVerified = email != nil && isVerified
        let domain = email?.split(separator: "@").last?.lowercased()
        let isHosted = provider == "google.com" && isVerified && claims.text("hd").map { $0.lowercased() == domain } ?? false
        isAuthoritative = isEmailVerified && (isHosted || domain.map(domains.contains) ?? false)
        name = claims.text("name")
        givenName = claims.text("given_name")
        familyName = claims.text("family_name")
        picture = claims.text("picture")
        rawUserInfo = provider == "google.com" ? Self.googleUserInfo(claims) : String(decoding: payload, as: UTF8.self)
    }

    /// Google's own names for the same things.
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
