import Journal

/// Whether the log is still the one that was followed. A server that has just come back may say less than it knows, so only what is said
/// several times counts. A pure value.
struct Inspection {
    enum Finding: Equatable {
        case isSound
        /// Not known, or not sure.
        case isOpen
        /// What is wrong with it.
        case isAnother(String)
    }

    static let looks = 3
    private var doubts = 0

    /// - Parameters:
    ///   - found: the log, with the id of the message `newest`.
    ///   - created: when the log was made that was followed; 0 if none was.
    mutating func receive(_ found: Result<ShardLog.State, ShardLog.StateFault>, created: Int64, newest: LogPlace) -> Finding {
        let doubt: String
        switch found {
        case .failure(.unreachable): return .isOpen
        case .failure(.missing): doubt = "the servers know no such log any more"
        case .success(let state):
            if created != 0, state.created != created {
                doubt = "it was made anew"
            } else if state.last < newest.sequence {
                doubt = "it ends with message \(state.last); this hub has applied \(newest.sequence)"
            } else if let id = state.id, newest.sequence > 0, id != newest.id {
                doubt = "message \(newest.sequence) is another than the one that this hub has applied"
            } else if state.first > newest.sequence + 1 {
                doubt = "it begins with message \(state.first); this hub needs those from \(newest.sequence + 1) on"
            } else {
                doubts = 0
                return .isSound
            }
        }
        doubts += 1
        return doubts < Self.looks ? .isOpen : .isAnother(doubt)
    }
}
