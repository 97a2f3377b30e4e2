import Cryptography
import Journal
import JSONTree
import Tokens

extension AccountService {
    /// The SDKs' token endpoint: a fresh ID token for a session's refresh token (accounts contract §5.5). By default the refresh token stays the
    /// same, as browser tabs and app extensions hold copies that may be hours old.
    func refresh(_ call: AccountCall) async throws -> AccountAnswer {
        guard let grant = try call.filled("grantType") else { throw AccountError("MISSING_GRANT_TYPE") }
        guard grant == "refresh_token" else { throw AccountError("INVALID_GRANT_TYPE") }
        guard let refreshToken = try call.filled("refreshToken") else { throw AccountError("MISSING_REFRESH_TOKEN") }
        let tokens = try await issue(try await resume(refreshToken, call, rotates: settings.refreshRotation == .all))
        return AccountAnswer([
            .init("access_token", .string(tokens.idToken)), .init("expires_in", .string(String(tokens.lifetime))),
            .init("token_type", "Bearer"),
            .init("refresh_token", .string(tokens.refreshToken)), .init("id_token", .string(tokens.idToken)),
            .init("user_id", .string(tokens.uid)), .init("project_id", .string(settings.projectNumber)),
        ])
    }

    /// Milliseconds after a recorded use within which another use from the same address is not recorded.
    private static let useIntervalMs: Int64 = 60_000
    /// Milliseconds for which a replaced refresh token is still accepted, for lost responses and for tabs that refresh at the same time.
    static let replacedTokenMs: Int64 = 60_000

    /// Finds the session of a refresh token and records its use.
    /// - Parameter rotates: whether the device gets a new refresh token.
    /// - Throws: USER_NOT_FOUND for a deleted account, USER_DISABLED, TOKEN_EXPIRED for an ended session: these sign the user out on the device,
    ///   as intended. INVALID_REFRESH_TOKEN for an unknown token. A token replaced longer than `replacedTokenMs` ago ends its session, as either
    ///   its thief or its owner holds the newer one.
    func resume(_ refreshToken: String, _ call: AccountCall, rotates: Bool) async throws -> OpenedSession {
        try await upToDate { try resumeNow(RefreshToken(refreshToken), call, rotates: rotates) }
    }

    private enum Resumed {
        case opened(OpenedSession, isNoted: Bool)
        case replaced(AccountSession)
    }

    private func resumeNow(_ token: RefreshToken, _ call: AccountCall, rotates: Bool) throws -> OpenedSession {
        let resumed: Resumed
        if isShared, !rotates {
            resumed = try store.read { try resume(token, call, nil, in: $0) }
            if case .opened(let opened, true) = resumed {
                record(opened.session.id, SessionUse(uid: opened.account.id, at: opened.session.lastUsedAt, peer: call.peer))
            }
        } else {
            // If a power cut undid a rotation, the new token would look stolen.
            resumed = try store.transaction(rotates ? .onDisk : .withSystem) { transaction in
                let resumed = try resume(token, call, rotates ? SecureRandom.bytes(RefreshRotation.saltBytes) : nil, in: transaction)
                if case .opened(let opened, true) = resumed {
                    try transaction.use(opened.session)
                    try transaction.markRefreshed(opened.account.id, at: clock.seen)
                }
                return resumed
            }
        }
        if case .opened(let opened, _) = resumed { return opened }
        // Check again within the transaction: a hub of a cluster may not have known tokens issued by another hub. Committing brings it up to date.
        try commit(call) { write in
            guard case .replaced(let session) = try resume(token, call, nil, in: write.transaction) else { return }
            try write.end(session, "a replaced refresh token was used")
        }
        throw AccountError("TOKEN_EXPIRED")
    }

    /// - Parameter salt: the salt of the next token; nil does not rotate.
    private func resume(
        _ token: RefreshToken, _ call: AccountCall, _ salt: [UInt8]?, in transaction: AccountTransaction
    ) throws -> Resumed {
        guard let (found, hasEnded) = try transaction.session(tokenHash: token.sessionHash),
            let account = try transaction.account(.id(found.uid))
        else {
            let isDeleted = try transaction.isOfDeletedAccount(tokenHash: token.sessionHash)
            throw AccountError(isDeleted ? "USER_NOT_FOUND" : "INVALID_REFRESH_TOKEN")
        }
        guard !account.isDisabled else { throw AccountError("USER_DISABLED") }
        var session = found
        if let use = uses[session.id] { (session.lastUsedAt, session.peer) = (max(session.lastUsedAt, use.at), use.peer) }
        let isIdle = settings.idleDays > 0 && clock.cautious - session.lastUsedAt > Int64(settings.idleDays) * 86_400_000
        guard !hasEnded, !isIdle, session.createdAt / 1000 >= account.validSince else { throw AccountError("TOKEN_EXPIRED") }
        var rotation = try transaction.rotation(of: session.id)
        // With the cautious time, a clock that jumped ahead replaces no token early.
        guard var given = rotation.newest(for: token, since: clock.cautious - Self.replacedTokenMs) else { return .replaced(session) }
        // Two tabs that refresh at once both get the same token, so that neither is left with a replaced one.
        if let salt, given.text == token.text {
            given = rotation.replace(token, salt, at: clock.seen, since: clock.cautious - Self.replacedTokenMs)
            try transaction.rotate(session.id, rotation)
        }
        let now = clock.seen
        // Frequent requests of a device are not recorded, to save writes.
        let isNoted = session.peer != call.peer || now - session.lastUsedAt >= Self.useIntervalMs
        if isNoted {
            // Never an earlier time: if the clock is behind for a while, its later correction would end the session.
            session.lastUsedAt = max(session.lastUsedAt, now)
            session.peer = call.peer
        }
        return .opened(OpenedSession(account: account, session: session, refreshToken: given.text), isNoted: isNoted)
    }
}

/// The endpoints at which a session's refresh token is replaced at each use.
public enum RefreshTokenRotation: String, Sendable, CaseIterable {
    case never
    /// At `/.oauth/token`.
    case oauth
    /// Also at the SDKs' token endpoint.
    case all
}

/// A refresh token, as a device holds it.
///
///     <43 letters: the session's secret>                               until the first rotation
///     <43 letters: the session's secret>.<43 letters: new each time>   afterwards
///
/// The first part identifies the session and never changes. So any token ever issued is recognised without storing it.
struct RefreshToken {
    let text: String

    init(_ text: String) { self.text = text }

    private var sessionSecret: Substring { text.prefix { $0 != "." } }

    /// The hash under which the session is stored.
    var sessionHash: [UInt8] { SecretHash.of(String(sessionSecret)) }

    var hash: [UInt8] { SecretHash.of(text) }

    var isFirst: Bool { !text.utf8.contains(UInt8(ascii: ".")) }

    /// The token that replaces this one. It is computed, so that it can be issued again without being stored. Neither a token alone nor the store
    /// alone suffices to compute it.
    /// - Parameter salt: `RefreshRotation.saltBytes` random bytes.
    func next(_ salt: [UInt8]) -> RefreshToken {
        let part: String = Base64.encodeURL(HashFunction.sha256.authenticationCode(of: Array(text.utf8), key: SecretBytes(salt)).copy)
        return RefreshToken("\(sessionSecret).\(part)")
    }
}

/// The stored data of a session's refresh tokens: hashes, and salts that lead from a recently replaced token to the current one.
///
///     R1 ─ salt 1 ─► R2 ─ salt 2 ─► R3        replaced: R1 and R2, as long as they are accepted; current: R3
struct RefreshRotation: Equatable {
    struct Replaced: Equatable {
        let hash: [UInt8]
        let salt: [UInt8]
        /// ms since the epoch.
        let time: Int64
    }

    /// Nil before the first rotation.
    var current: [UInt8]?
    /// Oldest first.
    var replaced: [Replaced] = []

    /// Most replaced tokens to keep; each is also dropped by age.
    static let most = 16

    /// The current token that replaces one of the session's tokens; nil if that was replaced too long ago.
    /// - Parameter time: tokens replaced earlier are not accepted; ms since the epoch.
    func newest(for token: RefreshToken, since time: Int64) -> RefreshToken? {
        guard let current else { return token.isFirst ? token : nil }
        let hash = token.hash
        if isSameSecret(hash, current) { return token }
        guard let at = replaced.firstIndex(where: { isSameSecret(hash, $0.hash) }), replaced[at].time >= time else { return nil }
        let newest = replaced[at...].reduce(token) { $0.next($1.salt) }
        return isSameSecret(newest.hash, current) ? newest : nil
    }

    /// Replaces the current token.
    /// - Parameters:
    ///   - now: ms since the epoch.
    ///   - time: see `newest`.
    mutating func replace(_ token: RefreshToken, _ salt: [UInt8], at now: Int64, since time: Int64) -> RefreshToken {
        let next = token.next(salt)
        replaced = (replaced.filter { $0.time >= time } + [Replaced(hash: token.hash, salt: salt, time: now)]).suffix(Self.most)
        current = next.hash
        return next
    }

    /// The stored size of one: hash, salt and time.
    private static let bytesOfOne = 32 + saltBytes + 8
    static let saltBytes = 32

    var encoded: [UInt8] {
        var bytes: [UInt8] = []
        for token in replaced {
            bytes += token.hash + token.salt
            bytes.append(littleEndian: token.time)
        }
        return bytes
    }

    /// Data of another length is of an unknown version and yields no tokens: then only the current token is valid.
    static func decode(_ bytes: [UInt8]) -> [Replaced] {
        guard bytes.count.isMultiple(of: bytesOfOne) else { return [] }
        return bytes.withUnsafeBytes { bytes in
            var (reader, tokens) = (ByteReader(bytes), [Replaced]())
            while let hash = reader.bytes(32), let salt = reader.bytes(saltBytes), let time = reader.integer(Int64.self) {
                tokens.append(Replaced(hash: Array(hash), salt: Array(salt), time: time))
            }
            return tokens
        }
    }
}
