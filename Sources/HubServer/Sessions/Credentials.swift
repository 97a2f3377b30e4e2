import HubEngine
import JSONTree

/// Turns a credential into an identity (contract §8.1). A database secret is an administrator's. The constant `owner` is the
/// administrator of a development server, which also trusts unsigned tokens as the SDKs' emulator mode sends them, however old they are;
/// signed tokens are the accounts' to check, or whoever's the server was given.
struct Credentials {
    let isDev: Bool
    let tokens: TokenChecks?
    let secrets: Secrets
    /// See `ServerLimits.tokenLeewaySeconds`.
    let leewaySeconds: Int

    init(_ server: Server) {
        let settings = server.settings
        secrets = server.secrets
        isDev = settings.isDev
        tokens = server.tokenChecks
        leewaySeconds = settings.limits.tokenLeewaySeconds
    }

    static let badToken = Failure(.invalidToken, "Could not parse auth token.")
    static let expiredToken = Failure(.expiredToken, "Auth token is expired.")

    /// - Parameters:
    ///   - override: the identity that an administrator wants rules applied as; `.some(.null)` for nobody (contract §8.4).
    ///   - address: see `TokenChecks.verify`.
    ///   - done: called once: at once, or from another thread.
    func identify(
        _ credential: String, override: Node? = nil, of address: () -> String?,
        _ done: @escaping @Sendable (Result<Identity, Failure>) -> Void
    ) {
        // Before anything reads it: a stranger may send as much as a message holds.
        guard credential.utf8.count <= TokenParts.maxBytes else { return done(.failure(Self.badToken)) }
        if credential == "owner" {
            return done(isDev ? .success(Identity.admin.acting(as: override)) : .failure(Self.badToken))
        }
        if secrets.admit(credential) { return done(.success(Identity.admin.acting(as: override))) }
        guard let parts = TokenParts.parts(of: credential) else { return done(.failure(Self.badToken)) }
        if parts[2].isEmpty {
            guard isDev, TokenParts.json(parts[0]) != nil, let claims = TokenParts.json(parts[1]) else { return done(.failure(Self.badToken)) }
            return done(Result { () throws(Failure) in try Self.identity(claims) })
        }
        // Nobody here can check it. An error would send the SDK into reconnecting for ever (contract §2.4), trust is out of the
        // question: the client stays anonymous.
        guard let tokens else {
            let isToken = TokenParts.json(parts[0]).map { $0.child("alg") != "none" } == true && TokenParts.json(parts[1]) != nil
            return done(isToken ? .success(.anonymous) : .failure(Self.badToken))
        }
        tokens.verify(credential, of: address) { [leewaySeconds] result in
            done(
                result.flatMap { identity in
                    if let end = identity.end(leewaySeconds), end <= Clock.nowMs() { return .failure(Self.expiredToken) }
                    return .success(identity.acting(as: override))
                })
        }
    }

    private static func identity(_ claims: Node) throws(Failure) -> Identity {
        let subject = TokenParts.subject(claims)
        guard case .string = subject else { throw badToken }
        let provider = claims.child("firebase").child("sign_in_provider")
        return Identity(auth: ["uid": subject, "provider": provider.exists ? provider : "custom", "token": claims])
    }
}

extension Identity {
    /// Administrators may act as somebody else, or as nobody; of others the wish is ignored.
    fileprivate func acting(as override: Node?) -> Identity {
        guard isAdmin, let override else { return self }
        return Identity(auth: override, expires: expires)
    }

    /// When a session with this identity ends, ms since the epoch. A time that no clock reaches is as good as never.
    func end(_ leewaySeconds: Int) -> Int64? {
        guard let expires else { return nil }
        let (seconds, isBeyond) = expires.addingReportingOverflow(Int64(leewaySeconds))
        let (end, overflows) = seconds.multipliedReportingOverflow(by: 1000)
        return isBeyond || overflows ? (expires < 0 ? .min : .max) : end
    }
}
