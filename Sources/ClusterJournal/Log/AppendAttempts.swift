/// What became of an append.
enum AppendOutcome: Equatable, Sendable {
    /// It is in the log, with this number.
    case stored(sequence: UInt64)
    /// The same, by an earlier attempt.
    case duplicate(sequence: UInt64)
    /// Another message has its place; it is not in the log and never will be.
    case conflict(last: UInt64)
    /// It may be in the log or not.
    case unknown(String)
    /// It is not in the log.
    case unavailable(String)
}

/// What the servers say to one attempt.
enum AppendReply: Equatable, Sendable {
    case acknowledged(sequence: UInt64, isDuplicate: Bool)
    case wrongSequence(last: UInt64)
    /// They will not take this message.
    case refused(String)
    /// Nobody was there who could have taken it.
    case unreachable(String)
    /// It was sent, and there was no answer, or one that leaves it open.
    case unanswered(String)
}

/// The attempts of one append, all with the same id and the same place, so that at most one is stored. A pure value.
///
/// ```
/// attempt ─► acknowledged ─► stored             ─► out of time ─► unknown, if one may have been stored; else unavailable
///         ─► wrong sequence ─► conflict; after an attempt without an answer: who has the place? ─► we: duplicate
///         ─► no answer ─► attempt
/// ```
struct AppendAttempts {
    enum Step: Equatable {
        case tryAgain
        /// Ask the log who has the place behind `after`.
        case look
        case done(AppendOutcome)
    }

    enum Holder: Equatable { case we, another, notKnown }

    /// The message that it has to follow.
    let after: UInt64
    /// Whether an attempt may be stored, as far as is known.
    private(set) var isOpen = false
    private var reason = "no server of the cluster was reached"
    private var last: UInt64 = 0

    init(after: UInt64) { self.after = after }

    mutating func receive(_ reply: AppendReply) -> Step {
        switch reply {
        case .acknowledged(after + 1, let isDuplicate):
            return .done(isDuplicate ? .duplicate(sequence: after + 1) : .stored(sequence: after + 1))
        case .acknowledged(let sequence, _): return .done(.unknown("the log acknowledged message \(sequence), not \(after + 1)"))
        case .wrongSequence(let last) where last > after && isOpen:
            self.last = last
            return .look
        case .wrongSequence(let last): return .done(.conflict(last: last))
        case .refused(let reason): return .done(isOpen ? .unknown(reason) : .unavailable(reason))
        case .unreachable(let reason):
            self.reason = reason
            return .tryAgain
        case .unanswered(let reason):
            isOpen = true
            self.reason = reason
            return .tryAgain
        }
    }

    /// The answer to `look`.
    func receive(_ holder: Holder) -> Step {
        switch holder {
        case .we: .done(.duplicate(sequence: after + 1))
        case .another: .done(.conflict(last: last))
        case .notKnown: .tryAgain
        }
    }

    /// There is no time for another attempt.
    var outOfTime: AppendOutcome { isOpen ? .unknown(reason) : .unavailable(reason) }
}
