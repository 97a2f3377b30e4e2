import HubEngine
import JSONTree
import Scheduling
import Tokens

/// Resolves a credential to an identity (contract §8.1). Database secrets identify administrators. A development server also accepts
/// the constant `owner` as administrator, and the unsigned tokens of the SDKs' emulator mode, whatever their age. Signed tokens are
/// verified by the accounts, or by the `TokenVerifier` of the settings.
struct Credentials {
    let isDev: Bool
    let tokens: TokenChecks?
    /// Whether the client's database was removed.
    let isRemoved: Bool
    /// Whether a credential is an administrator's secret.
    let isSecret: (String) -> Bool
    /// See `ServerLimits.tokenLeewaySeconds`.
    let leewaySeconds: Int
    let scheduler: Scheduler

    /// - Parameter database: the database that the client uses; nil for requests that concern the whole hub.
    init(_ server: Server, _ database: String?) {
        let (settings, authentication) = (server.settings, server.authentication)
        isSecret = { authentication.admits($0, to: database) }
        scheduler = server.scheduler
        isDev = settings.isDev
        let project: Project? = if let database { authentication.project(of: database) } else { authentication.hubProject }
        tokens = project?.tokenChecks
        isRemoved = project == nil
        leewaySeconds = settings.limits.tokenLeewaySeconds
    }

    static let badToken = Failure(.invalidToken, "Could not parse auth token.")
    static let removedDatabase = Failure(.unavailable, "The database was removed.")
    static let expiredToken = Failure(.expiredToken, "Auth token is expired.")

    /// - Parameters:
    ///   - override: the `auth` value that an administrator's rules are evaluated with; `.some(.null)` for a signed-out client (contract
    ///     §8.4).
    ///   - address: see `TokenChecks.verify`.
    ///   - done: called once, immediately or from another thread.
    func identify(
        _ credential: String, override: Node? = nil, of address: () -> String?,
        _ done: @escaping @Sendable (Result<Identity, Failure>) -> Void
    ) {
        // Checked before parsing: an anonymous client can send as much as a message holds.
        guard credential.utf8.count <= TokenParts.maxBytes else { return done(.failure(Self.badToken)) }
        if isRemoved { return done(.failure(Self.removedDatabase)) }
        if credential == "owner" {
            return done(isDev ? .success(Identity.admin.acting(as: override)) : .failure(Self.badToken))
        }
        if isSecret(credential) { return done(.success(Identity.admin.acting(as: override))) }
        guard let parts = TokenParts.parts(of: credential) else { return done(.failure(Self.badToken)) }
        if parts[2].isEmpty {
            guard isDev, TokenParts.json(parts[0]) != nil, let claims = TokenParts.json(parts[1]) else {
                return done(.failure(Self.badToken))
            }
            return done(Result { () throws(Failure) in try Self.identity(claims) })
        }
        // Without a verifier a signed token cannot be trusted, and an error would make the SDK reconnect for ever (contract §2.4): the
        // client stays anonymous.
        guard let tokens else {
            let isToken = TokenParts.json(parts[0]).map { $0.child("alg") != "none" } == true && TokenParts.json(parts[1]) != nil
            return done(isToken ? .success(.anonymous) : .failure(Self.badToken))
        }
        tokens.verify(credential, of: address) { [leewaySeconds, scheduler] result in
            done(
                result.flatMap { identity in
                    if let end = identity.end(leewaySeconds), end <= scheduler.wallMs { return .failure(Self.expiredToken) }
                    return .success(identity.acting(as: override))
                })
        }
    }

    private static func identity(_ claims: Node) throws(Failure) -> Identity {
        let subject = TokenParts.subject(claims)
        guard case .string = subject else { throw badToken }
        return Identity(auth: ["uid": subject, "provider": .string(VerifiedToken.provider(of: claims)), "token": claims])
    }
}

extension Identity {
    /// The identity with an administrator's override applied; other identities ignore the override.
    fileprivate func acting(as override: Node?) -> Identity {
        guard isAdmin, let override else { return self }
        return Identity(auth: override, expires: expires)
    }

    /// When a session with this identity ends, ms since the epoch; nil for never. Saturates on overflow.
    func end(_ leewaySeconds: Int) -> Int64? {
        guard let expires else { return nil }
        let (seconds, isBeyond) = expires.addingReportingOverflow(Int64(leewaySeconds))
        let (end, overflows) = seconds.multipliedReportingOverflow(by: 1000)
        return isBeyond || overflows ? (expires < 0 ? .min : .max) : end
    }
}
