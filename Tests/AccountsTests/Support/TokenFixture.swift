import Cryptography
import Foundation
import JSONTree
import Synchronization
import TestSupport

@testable import Accounts
@testable import Tokens

/// Keys generated once for the whole run: RSA is slow.
enum TokenKeys {
    static let rsa: [SigningKey] = (0..<2).map { _ in made(.rs256) }
    static let p256: [SigningKey] = (0..<2).map { _ in made(.es256) }

    static func made(_ algorithm: SignatureAlgorithm) -> SigningKey {
        do { return try SigningKey(StoredSigningKey.generate(algorithm, now: 0)) } catch { fatalError("\(error)") }
    }
}

extension PublicKey {
    /// In the form that servers of an app have.
    func pem() throws -> String {
        "-----BEGIN PUBLIC KEY-----\n\(Data(try der()).base64EncodedString(options: .lineLength64Characters))\n-----END PUBLIC KEY-----\n"
    }
}

/// HMAC with SHA-256 and a key of any bytes.
func hmac(_ text: String, key: some Sequence<UInt8>) -> [UInt8] {
    HashFunction.sha256.authenticationCode(of: Array(text.utf8), key: SecretBytes(Array(key))).copy
}

/// A service in memory with one signed-in account.
struct TokenFixture {
    let clock = FakeClock()
    let service: AccountService

    init(folder: String? = nil, _ change: (inout AccountSettings) -> Void = { _ in }) throws {
        var settings = AccountSettings()
        settings.project = "demo-app"
        settings.signingAlgorithm = .es256
        change(&settings)
        service = try AccountService(settings, folder: folder, logger: .silent, scheduler: clock.scheduler)
    }

    /// Adds an account with a session `s-UID`.
    func signIn(_ uid: String) async throws {
        let now = clock.now()
        try await service.step { service in
            try service.store.transaction { transaction in
                let account = Account(id: uid, createdAt: now)
                try transaction.save(account)
                try transaction.add(
                    AccountSession(
                        id: "s-" + uid, uid: uid, provider: "password", claims: nil, authTime: now / 1000, now: now, userAgent: nil,
                        peer: nil),
                    tokenHash: Array(uid.utf8))
            }
        }
    }

    /// Changes an account and announces it.
    func change(_ uid: String, _ change: @Sendable (inout Account) -> Void) async throws {
        try await service.step { service in
            try service.store.transaction { transaction in
                guard var account = try transaction.account(.id(uid)) else { return }
                change(&account)
                try transaction.save(account)
            }
            service.announce(AccountChange(uid, .revoked))
        }
    }

    func claims(_ uid: String) -> IdentityClaims {
        IdentityClaims(
            uid: uid, provider: "password", sessionID: "s-" + uid, authTime: clock.seconds, issuedAt: clock.seconds,
                expires: clock.seconds + 3600)
    }

    func token(_ uid: String) throws -> String { try service.tokens.keys.sign(claims(uid).payload(project: "demo-app")) }

    func verify(_ token: String, leeway: Int = 0) async -> Result<VerifiedToken, TokenFault> {
        await withCheckedContinuation { continuation in service.verify(token, leeway: leeway) { continuation.resume(returning: $0) } }
    }

    func fault(_ token: String, leeway: Int = 0) async -> TokenFault? {
        if case .failure(let fault) = await verify(token, leeway: leeway) { fault } else { nil }
    }
}

extension AccountService {
    /// Runs a step on the service's queue.
    func step<T: Sendable>(_ step: @Sendable (isolated AccountService) throws -> T) throws -> T { try step(self) }
}

/// A compact token of any parts.
func compact(_ header: String, _ payload: String, _ signature: [UInt8] = []) -> String {
    [Base64.encodeURL(header.utf8), Base64.encodeURL(payload.utf8), Base64.encodeURL(signature)].joined(separator: ".")
}

extension String {
    /// The parts of a compact token.
    var tokenParts: [String] { split(separator: ".", omittingEmptySubsequences: false).map(String.init) }

    /// A part of a compact token as JSON.
    func tokenJSON(_ part: Int) throws -> JSONValue { try JSONValue(Base64.decodeURL(tokenParts[part]) ?? []) }
}
