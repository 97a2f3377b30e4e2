import Cryptography
import Dispatch
import Foundation
import Glibc
public import Scheduling
import Synchronization

/// The result of checking a password.
public enum PasswordVerdict: Sendable, Equatable {
    case wrong
    case right
    /// Correct, but the hash has an older scheme or weaker parameters: hash the password again and store the new hash.
    case rightButOutdated
}

/// Creates and checks password hashes (accounts contract §13) on its own threads. From any thread; blocks no queue.
public final class PasswordHasher: Sendable {
    private let settings: PasswordSettings
    let workers: PasswordWorkers
    /// One thread that also takes passwords that `workers`, at idle priority, have not finished in time. So on a busy machine a sign-in takes
    /// seconds, instead of waiting for an idle core. Nil if `workers` have ordinary priority.
    private let overdueWorkers: PasswordWorkers?
    private let scheduler: Scheduler
    private let queue = DispatchQueue(label: "vigla.passwords")
    /// Milliseconds after which a password is overdue.
    static let overdueMs: Int64 = 2_000
    /// Replaces the hash of a missing account or password, so that the check takes the same time.
    private let dummy: PasswordHash

    /// - Parameter scheduler: the clock that measures how long a password has waited.
    public init(_ settings: PasswordSettings, _ scheduler: Scheduler) {
        self.settings = settings
        self.scheduler = scheduler
        func workers(_ threads: Int, _ priority: PasswordWorkers.Priority) -> PasswordWorkers {
            PasswordWorkers(threads: threads, waiting: settings.waiting, seconds: settings.waitSeconds, priority: priority, scheduler)
        }
        self.workers = workers(settings.workers, settings.yields ? .idle : .ordinary)
        overdueWorkers = settings.yields ? workers(1, .low) : nil
        dummy = .scrypt(
            settings.scrypt, keyID: settings.pepper?.keyID, salt: SecureRandom.bytes(PasswordHash.saltBytes),
            hash: SecureRandom.bytes(PasswordHash.hashBytes))
    }

    /// The text to store for a new password, with a fresh salt. The password is normalized to Unicode's composed form (NFC).
    /// - Throws: TOO_MANY_ATTEMPTS_TRY_LATER if too many passwords are waiting.
    public func hash(_ password: String) async throws(AccountError) -> String {
        let salt = SecureRandom.bytes(PasswordHash.saltBytes)
        let (parameters, pepper) = (settings.scrypt, settings.pepper)
        let nothing = [UInt8](repeating: 0, count: PasswordHash.hashBytes)
        let empty = PasswordHash.scrypt(parameters, keyID: pepper?.keyID, salt: salt, hash: nothing)
        let derived = try await perform { empty.derive(Self.bytes(of: password), pepper: pepper) }
        guard let derived else { throw AccountError(status: 503, "UNAVAILABLE", "This password cannot be hashed now. Try again later.") }
        return PasswordHash.scrypt(parameters, keyID: pepper?.keyID, salt: salt, hash: derived.copy).text
    }

    /// Checks a password against a stored hash. Nil or an invalid hash takes the time of a real one and yields `.wrong`.
    /// - Throws: TOO_MANY_ATTEMPTS_TRY_LATER if too many passwords are waiting.
    public func verify(_ password: String, _ stored: String?) async throws(AccountError) -> PasswordVerdict {
        let known = stored.flatMap { PasswordHash($0) }
        let (hash, settings) = (known ?? dummy, self.settings)
        return try await perform {
            let derived = hash.derive(Self.bytes(of: password), pepper: settings.pepper)
            guard let derived, derived.isSame(as: hash.expected), known != nil else { return .wrong }
            return hash.isOutdated(settings) ? .rightButOutdated : .right
        }
    }

    /// The number of passwords waiting, and being hashed.
    public var depth: (waiting: Int, busy: Int) { workers.depth }

    private func perform<Value: Sendable>(_ work: @escaping @Sendable () -> Value) async throws(AccountError) -> Value {
        let value: Value? = await withCheckedContinuation { continuation in
            let answer = FirstAnswer(continuation)
            let attempt: PasswordWorkers.Work = { isInTime in
                if !answer.isGiven { answer.give(isInTime ? work() : nil) }
            }
            if let overdueWorkers {
                answer.cancelWhenGiven(scheduler.after(ms: Self.overdueMs, on: queue) { _ = overdueWorkers.submit(attempt) })
            }
            // The first queue may be full of passwords that the overdue thread has already checked.
            guard workers.submit(attempt) || overdueWorkers?.submit(attempt) == true else { return answer.give(nil) }
        }
        guard let value else { throw .tooManyAttempts("Many people are signing in. Try again in a minute.") }
        return value
    }

    /// The bytes of the composed form. An empty password becomes one zero byte, which no stored password can be.
    private static func bytes(of password: String) -> [UInt8] {
        let bytes = Array(password.precomposedStringWithCanonicalMapping.utf8)
        return bytes.isEmpty ? [0] : bytes
    }
}

/// The result of whichever attempt at one password ends first.
private final class FirstAnswer<Value: Sendable>: Sendable {
    private struct State {
        var continuation: CheckedContinuation<Value?, Never>?
        var timer: ScheduledWork?
    }
    private let state: Mutex<State>

    init(_ continuation: CheckedContinuation<Value?, Never>) { state = Mutex(State(continuation: continuation)) }

    var isGiven: Bool { state.withLock { $0.continuation == nil } }

    func give(_ value: Value?) {
        let given = state.withLock { state in
            defer { state = State() }
            return state
        }
        given.timer?.cancel()
        given.continuation?.resume(returning: value)
    }

    func cancelWhenGiven(_ timer: ScheduledWork) {
        let isGiven = state.withLock { state in
            if state.continuation != nil { state.timer = timer }
            return state.continuation == nil
        }
        if isGiven { timer.cancel() }
    }
}

extension PasswordHash {
    /// Whether the hash should be replaced: another scheme, weaker parameters, or a pepper other than the configured one.
    fileprivate func isOutdated(_ settings: PasswordSettings) -> Bool {
        guard case .scrypt(let parameters, let keyID, let salt, let hash) = self else { return true }
        return parameters.isWeaker(than: settings.scrypt) || keyID != settings.pepper?.keyID
            || salt.count < Self.saltBytes || hash.count < Self.hashBytes
    }
}

/// Settings of password hashing and password rules.
public struct PasswordSettings: Sendable {
    /// Parameters of new hashes; a weaker hash is replaced at the next use of its password.
    package var scrypt = ScryptParameters.standard
    /// Passwords hashed concurrently; each takes `scrypt.bytes` of memory.
    package var workers: Int
    /// Whether hashing yields to all other work (`SCHED_IDLE`), so that databases keep their latency. On a fully busy machine a sign-in takes
    /// seconds: after `PasswordHasher.overdueMs` a thread of niceness 10 takes over.
    package var yields = true
    /// Most passwords that may wait for a worker; beyond it a sign-in gets TOO_MANY_ATTEMPTS_TRY_LATER.
    package var waiting = 256
    /// Most seconds that a password may wait; the SDKs give up after 30.
    package var waitSeconds = 25.0
    /// The minimum length of a password in UTF-16 code units, as `validatePassword` of the SDKs counts. The API's minimum is 6.
    public var minLength = 8
    /// The maximum length of a password in UTF-16 code units: at most three bytes each.
    package var maxLength = 4096
    /// Whether the most common passwords are refused.
    public var refusesCommon = true
    /// The pepper of new hashes; nil for none.
    package var pepper: PasswordPepper?

    /// - Parameter cores: processors of the machine; passwords use half of them, at least one.
    public init(cores: Int) { workers = max(1, cores / 2) }

    /// The settings for this machine.
    public init() { self.init(cores: sysconf(Int32(_SC_NPROCESSORS_ONLN))) }

    /// For tests: real hashes at almost no cost.
    public static var quick: PasswordSettings {
        var settings = PasswordSettings()
        settings.scrypt = .quick
        settings.yields = false
        settings.minLength = 6
        settings.refusesCommon = false
        return settings
    }
}

/// A key outside the database that is part of every hash (accounts contract §13): with the database alone passwords cannot even be guessed. If
/// it is lost, no password hashed with it matches any more, so back it up with the configuration.
public struct PasswordPepper: Sendable {
    /// Identifies the key in stored hashes: 1…16 of `a-z A-Z 0-9 -`.
    let keyID: String
    private let key: SecretBytes

    /// Nil if the key has fewer than 32 bytes, or the key id is invalid.
    public init?(key: [UInt8], keyID: String) {
        guard key.count >= 32, Self.isKeyID(keyID) else { return nil }
        self.keyID = keyID
        self.key = SecretBytes(key)
    }

    /// The input of the hash instead of the password; nil if the hash used another key.
    func apply(_ password: [UInt8], keyID: String) -> SecretBytes? {
        guard keyID == self.keyID else { return nil }
        return HashFunction.sha256.authenticationCode(of: password, key: key)
    }

    static func isKeyID(_ text: String) -> Bool {
        1...16 ~= text.utf8.count && text.utf8.allSatisfy { 0x30...0x39 ~= $0 || 0x41...0x5A ~= $0 || 0x61...0x7A ~= $0 || $0 == 0x2D }
    }
}

/// Why a password may not be set.
enum PasswordWeakness: Equatable {
    /// Fewer than the minimum number of characters.
    case tooShort(Int)
    /// More than the maximum number of characters.
    case tooLong(Int)
    /// One of the most common passwords.
    case common

    /// Checks only the length and the list of common passwords: composition rules make passwords worse (NIST SP 800-63B).
    init?(_ password: String, _ settings: PasswordSettings) {
        if password.utf16.count < settings.minLength { self = .tooShort(settings.minLength)
        } else if password.utf16.count > settings.maxLength { self = .tooLong(settings.maxLength)
        } else if settings.refusesCommon, Self.isCommon(password) { self = .common
        } else { return nil }
    }

    /// The text after `WEAK_PASSWORD : `.
    var text: String {
        switch self {
        case .tooShort(let least): "Password should be at least \(least) characters"
        case .tooLong(let most): "Password should be at most \(most) characters"
        case .common: "Password is one of the commonest, choose another"
        }
    }

    /// On the list, one repeated character, or consecutive characters (`abcdefgh`, `87654321`).
    private static func isCommon(_ password: String) -> Bool {
        let lower = password.lowercased()
        if CommonPasswords.all.contains(lower) { return true }
        let scalars = lower.unicodeScalars.map { Int($0.value) }
        guard scalars.count > 1 else { return true }
        let step = scalars[1] - scalars[0]
        guard -1...1 ~= step else { return false }
        return zip(scalars, scalars.dropFirst()).allSatisfy { $1 - $0 == step }
    }
}

/// The most common passwords of published leaks, and Greek equivalents, in lower case. Deliberately short: throttling leaves an online attacker
/// few guesses, and this list blocks those.
enum CommonPasswords {
    static let all = Set("""
        123456 1234567 12345678 123456789 1234567890 password password1 password12 password123 password1234 passw0rd p@ssw0rd
        p@ssword pa$$word pa55word qwerty qwerty1 qwerty12 qwerty123 qwerty1234 qwertyuiop qwertyui qwer1234 1q2w3e4r
        1q2w3e4r5t 1qaz2wsx 1qazxsw2 zaq12wsx zaq1zaq1 qazwsx qazwsxedc asdfgh asdfghjkl asdf1234 asdfasdf zxcvbnm zxcvbn
        azerty azertyuiop abc123 abcd1234 abc12345 abcdefg abcdef abcdefgh a1b2c3d4 aa123456 a123456 a12345678 123abc 123123
        123123123 12341234 121212 123321 654321 87654321 987654321 9876543210 112233 11223344 111222 101010 666666 696969
        159753 147258369 123654 789456 789456123 741852963 456789 102030 010203 iloveyou iloveyou1 ilovegod loveyou lovely
        letmein letmein1 welcome welcome1 welcome123 admin1 admin123 admin1234 administrator changeme changeit default secret
        secret1 secret123 master master1 monkey dragon shadow sunshine sunshine1 princess princess1 football football1
        baseball basketball superman batman spiderman starwars trustno1 whatever freedom michael jordan jordan23 jennifer
        jessica ashley daniel charlie andrew thomas robert matthew joshua hunter hunter2 killer pepper ginger buster cookie
        chocolate cheese computer internet samsung google facebook linkedin twitter pokemon naruto minecraft fuckyou fuckyou1
        asshole passwort passwort1 hallo123 schatz motdepasse soleil bonjour doudou contrasena contraseña hola1234 senha123
        qwertz qwertz123 kalimera kodikos κωδικός κωδικος 123qwe 123qweasd qweasd qweasdzxc qwe123 q1w2e3r4 q1w2e3r4t5
        1a2b3c4d 1234qwer 12qwaszx zxcvbnm1 asdfghjk asdfghj testtest test1234 test123 testing testing1 hello123 helloworld
        hellohello summer summer1 winter winter1 spring autumn liverpool chelsea arsenal barcelona realmadrid olympiakos
        olympiacos panathinaikos aek1924 paok1926 gate13 thyra7 juventus manchester flower flowers purple orange banana jesus1
        jesuschrist blessed heaven angel1 babygirl lovers forever family mother father love123 lovelove mustang corvette
        ferrari porsche mercedes harley yamaha nicole hannah amanda samantha sophie maria123 giorgos dimitris kostas katerina
        ioanna access access14 login123 user123 user1234 mypassword mypass newpassword oldpassword temp1234 temporary p455w0rd
        superuser supersecret topsecret nopassword blank00 pass1234 pass123 password! password1! password123! qwerty123!
        welcome1! admin@123 p@ssw0rd1 p@ssw0rd123 1234abcd abcd123 abcabc abc123456 zaqwsx qwaszx 1qaz2wsx3edc !qaz2wsx
        qwerty1! letmein! iloveu iloveyou2
        """.split(whereSeparator: \.isWhitespace).map(String.init))
}
