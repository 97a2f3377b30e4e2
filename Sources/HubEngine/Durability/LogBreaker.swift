/// Whether the log takes commits, as a circuit breaker: a refusal opens it, a try that succeeds closes it.
///
/// ```
/// closed ── the log refuses a batch ──► open: reads continue, every write is answered with an error
///    ▲                                    │ once in `retryMs`: an empty commit        ▲
///    └───────────── taken ───────────── half open: its result is awaited ── refused ──┘
/// ```
/// A pure value: `LogGuard` acts on it.
enum LogBreaker {
    case closed
    case open(CommitRefusal)
    case halfOpen(CommitRefusal)

    /// Why writes are refused; nil while they are taken.
    var reason: CommitRefusal? {
        switch self {
        case .closed: nil
        case .open(let reason), .halfOpen(let reason): reason
        }
    }

    mutating func refused(_ reason: CommitRefusal) { self = .open(reason) }

    /// From now on writes never reach the log, so their outcome is known.
    mutating func settle() { if case .open(let reason) = self { self = .open(reason.forLater) } }

    /// Begins a try. False when none may begin: the log takes commits, another try is under way, or none could succeed.
    mutating func begin() -> Bool {
        guard case .open(let reason) = self, reason.mayPass else { return false }
        self = .halfOpen(reason)
        return true
    }

    /// - Parameter reason: why the log refused the try; nil when it took it.
    mutating func tried(_ reason: CommitRefusal?) {
        guard case .halfOpen = self else { return }
        self = reason.map { .open($0.forLater) } ?? .closed
    }
}
