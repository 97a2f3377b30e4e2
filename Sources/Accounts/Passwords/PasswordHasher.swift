import Cryptography
import Foundation

/// What a stored hash says of a password.
public enum PasswordVerdict: Sendable, Equatable {
    case wrong
    case right
    /// Right, but the hash is of an older kind or weaker than new ones: hash the password anew and store that.
    case rightButOutdated
}

/// Makes and checks password hashes (accounts contract §13) on threads of its own. From any thread; blocks no queue.
public final class PasswordHasher: Sendable {
    private let settings: PasswordSettings
    private let workers: PasswordWorkers
    /// What stands in for the hash of an account that has none, so that it costs the same to find out.
    private let dummy: PasswordHash

    public init(_ settings: PasswordSettings) {
        self.settings = settings
        workers = PasswordWorkers(
            threads: settings.workers, waiting: settings.waiting, seconds: settings.waitSeconds, yields: settings.yields)
        dummy = .scrypt(
            settings.scrypt, keyID: settings.pepper?.keyID, salt: SecureRandom.bytes(PasswordHash.saltBytes),
            hash: SecureRandom.bytes(PasswordHash.hashBytes))
    }

    /// The text to store for a new password, with a salt of its own. The password is taken in Unicode's composed form (NFC).
    /// - Throws: TOO_MANY_ATTEMPTS_TRY_LATER when too many passwords are waiting.
    public func hash(_ password: String) async throws(AccountError) -> String {
        let salt = SecureRandom.bytes(PasswordHash.saltBytes)
        let (parameters, pepper) = (settings.scrypt, settings.pepper)
        let nothing = [UInt8](repeating: 0, count: PasswordHash.hashBytes)
        let empty = PasswordHash.scrypt(parameters, keyID: pepper?.keyID, salt: salt, hash: nothing)
        let derived = try await perform { empty.derive(Self.bytes(of: password), pepper: pepper) }
        guard let derived else { throw AccountError(status: 503, "UNAVAILABLE", "This password cannot be hashed now. Try again later.") }
        return PasswordHash.scrypt(parameters, keyID: pepper?.keyID, salt: salt, hash: derived.copy).text
    }

    /// Whether a password is the one of a stored hash. Nil, or what is no hash, takes the time of a real one and is `.wrong`.
    /// - Throws: TOO_MANY_ATTEMPTS_TRY_LATER when too many passwords are waiting.
    public func verify(_ password: String, _ stored: String?) async throws(AccountError) -> PasswordVerdict {
        let known = stored.flatMap { PasswordHash($0) }
        let (hash, settings) = (known ?? dummy, self.settings)
        return try await perform {
            let derived = hash.derive(Self.bytes(of: password), pepper: settings.pepper)
            guard let derived, derived.isSame(as: hash.expected), known != nil else { return .wrong }
            return hash.isOutdated(settings) ? .rightButOutdated : .right
        }
    }

    /// Passwords that wait, and passwords that are hashed now.
    public var depth: (waiting: Int, busy: Int) { workers.depth }

    private func perform<Value: Sendable>(_ work: @escaping @Sendable () -> Value) async throws(AccountError) -> Value {
        let value: Value? = await withCheckedContinuation { continuation in
            let isAdmitted = workers.submit { isInTime in continuation.resume(returning: isInTime ? work() : nil) }
            if !isAdmitted { continuation.resume(returning: nil) }
        }
        guard let value else { throw .tooManyAttempts("Many people are signing in. Try again in a minute.") }
        return value
    }

    /// The bytes of the composed form; an empty password is one zero byte, which cannot have been set.
    private static func bytes(of password: String) -> [UInt8] {
        let bytes = Array(password.precomposedStringWithCanonicalMapping.utf8)
        return bytes.isEmpty ? [0] : bytes
    }
}

extension PasswordHash {
    /// Whether a new hash would be better: another scheme, weaker parameters, or another pepper than the configured one.
    fileprivate func isOutdated(_ settings: PasswordSettings) -> Bool {
        guard case .scrypt(let parameters, let keyID, let salt, let hash) = self else { return true }
        return parameters.isWeaker(than: settings.scrypt) || keyID != settings.pepper?.keyID
            || salt.count < Self.saltBytes || hash.count < Self.hashBytes
    }
}
