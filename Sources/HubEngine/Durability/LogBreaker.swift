/// Whether the log takes commits, as a circuit breaker: a refusal opens it, a try that succeeds closes it.
///
/// ```
/// closed ── the log refuses a batch ──► open: reads go on, every write is answered with an error
///    ▲                                    │ once in `retryMs`: an empty commit        ▲
///    └───────────── taken ───────────── half open: its result is awaited ── refused ──┘
/// ```
/// A pure value: `Rollback` and `LogRetry` act on it.
enum LogBreaker {
    case closed
    /// - Parameter tried: when the log was tried last, ms since the epoch.
    case open(CommitRefusal, tried: Int64)
    case halfOpen(CommitRefusal, tried: Int64)

    /// Why writes are refused; nil while they are taken.
    var reason: CommitRefusal? {
        switch self {
        case .closed: nil
        case .open(let reason, _), .halfOpen(let reason, _): reason
        }
    }

    mutating func refused(_ reason: CommitRefusal, now: Int64) { self = .open(reason, tried: now) }

    /// What is given up was given to the log; what comes now is not, so its outcome is known.
    mutating func settle() {
        if case .open(let reason, let tried) = self { self = .open(reason.forLater, tried: tried) }
    }

    /// Whether a try is due. A clock that was set back says nothing.
    func isDue(now: Int64, every ms: Int) -> Bool {
        guard case .open(_, let tried) = self else { return false }
        return now < tried || now - tried >= ms
    }

    /// Begins a try. False when none may begin: the log takes commits, or another try is under way.
    mutating func begin(now: Int64) -> Bool {
        guard case .open(let reason, _) = self else { return false }
        self = .halfOpen(reason, tried: now)
        return true
    }

    /// - Parameter reason: why the log refused the try; nil when it took it.
    mutating func tried(_ reason: CommitRefusal?) {
        guard case .halfOpen(_, let tried) = self else { return }
        self = reason.map { .open($0.forLater, tried: tried) } ?? .closed
    }
}
