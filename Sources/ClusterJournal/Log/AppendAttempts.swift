/// The outcome of an append.
enum AppendOutcome: Equatable, Sendable {
    /// The message is in the log, with this number.
    case stored(sequence: UInt64)
    /// An earlier attempt has already stored it, with this number.
    case duplicate(sequence: UInt64)
    /// Another message has its place; it is not in the log and never will be.
    case conflict(last: UInt64)
    /// It may or may not be in the log.
    case unknown(String)
    /// It is not in the log.
    case unavailable(String)
}

/// The servers' reply to one attempt.
enum AppendReply: Equatable, Sendable {
    case acknowledged(sequence: UInt64, isDuplicate: Bool)
    case wrongSequence(last: UInt64)
    /// The servers refuse this message.
    case refused(String)
    /// No server could be reached.
    case unreachable(String)
    /// It was sent without a conclusive answer.
    case unanswered(String)
}

/// The attempts of one append, all with the same id and the same place, so that at most one is stored. A pure value.
///
/// ```
/// attempt ─► acknowledged ─► stored             ─► out of time ─► unknown, if one may have been stored; else unavailable
///         ─► wrong sequence ─► conflict; after an attempt without an answer: whose message has the place? ─► ours: duplicate
///         ─► no answer ─► attempt
/// ```
struct AppendAttempts {
    enum Step: Equatable {
        case tryAgain
        /// Ask the log which message has the place behind `after`.
        case look
        case done(AppendOutcome)
    }

    enum Holder: Equatable { case we, another, notKnown }

    /// The message that it must follow.
    let after: UInt64
    /// Whether an attempt may have been stored.
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

    /// Handles the answer to `look`.
    func receive(_ holder: Holder) -> Step {
        switch holder {
        case .we: .done(.duplicate(sequence: after + 1))
        case .another: .done(.conflict(last: last))
        case .notKnown: .tryAgain
        }
    }

    /// The outcome when no time is left for another attempt.
    var outOfTime: AppendOutcome { isOpen ? .unknown(reason) : .unavailable(reason) }
}
