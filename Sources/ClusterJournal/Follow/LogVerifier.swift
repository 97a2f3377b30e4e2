import Journal

/// Decides whether the log is still the one that was followed. Only repeated findings count. That the servers hold fewer messages than were
/// received counts only after a while: a new leader has all acknowledged messages, but may take its time to know. A pure value.
struct LogVerifier {
    enum Finding: Equatable {
        case isSound
        /// Unknown or not certain yet.
        case isOpen
        /// It is the same log, but the next message was removed from it.
        case isShortened(first: UInt64)
        /// The fault of the log.
        case isAnother(String)
    }

    static let looks = 3
    /// Time for which the servers may report fewer messages.
    let patienceMs: Int64
    private var doubts = 0
    /// When the first of these doubts came.
    private var sinceMs: Int64 = 0

    init(patienceMs: Int64) { self.patienceMs = patienceMs }

    /// - Parameters:
    ///   - found: the log, with the id of the message `newest`.
    ///   - created: when the followed log was created; 0 if none was followed.
    mutating func receive(
        _ found: Result<ShardLog.State, ShardLog.StateFault>, created: Int64, newest: LogPlace, nowMs: Int64
    ) -> Finding {
        let doubt: String
        var mayPass = false
        switch found {
        case .failure(.unreachable): return .isOpen
        case .failure(.missing): (doubt, mayPass) = ("the servers know no such log any more", true)
        case .success(let state):
            // A recreated log is acceptable while nothing was received from the previous one.
            if created != 0, state.created != created, newest.sequence > 0 {
                doubt = "it was made anew"
            } else if state.last < newest.sequence {
                (doubt, mayPass) = ("it ends with message \(state.last); this hub has applied \(newest.sequence)", true)
            } else if let id = state.id, newest.sequence > 0, id != newest.id {
                doubt = "message \(newest.sequence) is another than the one that this hub has applied"
            } else if state.first > newest.sequence + 1 {
                doubts = 0
                return .isShortened(first: state.first)
            } else {
                doubts = 0
                return .isSound
            }
        }
        if doubts == 0 { sinceMs = nowMs }
        doubts += 1
        return doubts < Self.looks || mayPass && nowMs - sinceMs < patienceMs ? .isOpen : .isAnother(doubt)
    }
}
