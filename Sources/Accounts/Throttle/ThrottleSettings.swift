import DispatchNet

/// How often what may be tried (accounts contract §13). Figures are named after what they count; times are milliseconds.
public struct ThrottleSettings: Sendable, Equatable {
    /// So many in so much time: all at once, or spread.
    public struct Rate: Sendable, Equatable {
        public var count: Int64
        public var periodMs: Int64

        public init(_ count: Int64, perMs periodMs: Int64) {
            self.count = max(1, count)
            self.periodMs = max(1, periodMs)
        }

        /// Until a bucket that was emptied has one more.
        var intervalMs: Int64 { max(1, periodMs / count) }

        var bucket: TokenBucket.Rate { TokenBucket.Rate(burst: count, interval: intervalMs) }
    }

    /// Off: nothing is counted, nothing refused (development).
    public var isOn = true

    /// Wrong passwords of one account that are free.
    public var freeFailures: Int64 = 5
    /// The wait after the last free one; it doubles with each further one.
    public var firstDelayMs: Int64 = 1_000
    /// The longest wait.
    public var longestDelayMs: Int64 = 15 * 60_000
    /// Wrong passwords are forgotten so long after the last of them, and after its wait.
    public var windowMs: Int64 = 15 * 60_000
    /// Wrong passwords in a row, with or without pauses, after which the account's password is not asked at all for
    /// `lockMs`; a password reset lifts that.
    public var mostFailures: Int64 = 100
    public var lockMs: Int64 = 24 * 3_600_000

    /// Wrong passwords of one account from one network address.
    public var failuresOfPair = Rate(20, perMs: 15 * 60_000)
    /// Wrong passwords of any account from one network address; many people may share it.
    public var failuresOfAddress = Rate(100, perMs: 15 * 60_000)
    /// Passwords that are stretched for one network address, right, wrong and newly set ones: each takes a tenth of a second of a core.
    public var passwordsOfAddress = Rate(600, perMs: 15 * 60_000)
    /// Passwords of one network address that are stretched, or wait for it, at the same time: an eighth of those that may wait in all.
    public var passwordsAtOnce = 32
    /// New accounts, guests too, from one network address.
    public var signUps = Rate(100, perMs: 3_600_000)
    /// Mails to one mail address.
    public var mailsTo = Rate(5, perMs: 3_600_000)
    /// Mails asked for from one network address.
    public var mailsFrom = Rate(20, perMs: 3_600_000)
    /// Mailed codes tried from one network address.
    public var codes = Rate(10, perMs: 60_000)

    /// Subjects remembered of each kind; beyond, those that would be forgotten first are forgotten now.
    public var mostSubjects = 50_000

    public init() {}
}
