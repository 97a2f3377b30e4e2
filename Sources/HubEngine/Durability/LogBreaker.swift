/// Whether the log accepts commits, as a circuit breaker: a refusal opens it, a successful try closes it.
///
/// ```
/// closed ── the log refuses a batch ──► open: reads continue, every write is answered with an error
///    ▲                                    │ once in `retryMs`: an empty commit        ▲
///    └───────────── accepted ────────── half open: its result is awaited ── refused ──┘
/// ```
/// A pure value: `LogGuard` acts on it.
enum LogBreaker {
    case closed
    case open(CommitRefusal)
    case halfOpen(CommitRefusal)

    /// Why writes are refused; nil while they are accepted.
    var reason: CommitRefusal? {
        switch self {
        case .closed: nil
        case .open(let reason), .halfOpen(let reason): reason
        }
    }

    mutating func refused(_ reason: CommitRefusal) { self = .open(reason) }

    /// Later writes never reach the log, so their outcome is known.
    mutating func settle() { if case .open(let reason) = self { self = .open(reason.forLater) } }

    /// Begins a try. False when none may begin: the log accepts commits, another try is running, or no try could succeed.
    mutating func begin() -> Bool {
        guard case .open(let reason) = self, reason.mayPass else { return false }
        self = .halfOpen(reason)
        return true
    }

    /// - Parameter reason: why the log refused the try; nil when it accepted it.
    mutating func tried(_ reason: CommitRefusal?) {
        guard case .halfOpen = self else { return }
        self = reason.map { .open($0.forLater) } ?? .closed
    }
}
