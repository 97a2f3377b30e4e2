import Glibc

/// How passwords are kept and which are taken.
public struct PasswordSettings: Sendable {
    /// What new hashes are made with; a weaker one is replaced when its password is next used.
    public var scrypt = ScryptParameters.standard
    /// Passwords hashed at the same time; each takes `scrypt.bytes` of memory while it lasts.
    public var workers: Int
    /// Whether everything else that wants a processor goes first: databases stay as quick as they were, and on a machine that is busy
    /// throughout sign-ins wait.
    public var yields = true
    /// Passwords that may wait for a worker; the next one is told TOO_MANY_ATTEMPTS_TRY_LATER.
    public var waiting = 256
    /// Seconds that one may wait; the SDKs give up after 30.
    public var waitSeconds = 25.0
    /// Shortest password that may be set, in Unicode scalars. The API's floor is 6.
    public var minLength = 8
    /// Longest password that may be set, in bytes of UTF-8.
    public var maxBytes = 4096
    /// Whether the passwords that are guessed first are refused.
    public var refusesCommon = true
    /// Goes into every new hash, if there is one.
    public var pepper: PasswordPepper?

    /// - Parameter cores: processors of the machine; passwords take half of them, at least one.
    public init(cores: Int) { workers = max(1, cores / 2) }

    /// For this machine.
    public init() { self.init(cores: sysconf(Int32(_SC_NPROCESSORS_ONLN))) }

    /// For tests: real hashes that cost next to nothing.
    public static var quick: PasswordSettings {
        var settings = PasswordSettings()
        settings.scrypt = .quick
        settings.yields = false
        settings.minLength = 6
        settings.refusesCommon = false
        return settings
    }
}
