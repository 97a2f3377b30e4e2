import Journal
import JSONTree

/// A commit before its stages: what is to be written, by whom, and what the rules may still spend on it. Used on the database queue only.
final class Proposal {
    let writes: [TreeWrite]
    let origin: WriteOrigin
    var condition: Condition?
    /// The pending rows or removals that these writes complete or continue.
    var settled: PendingInboxChange?
    /// Text work that the rules may still do. Reduced by the work done, also if the commit is refused.
    var textWork = Int.max
    /// Whether a refusal contains the rules' messages. Finding these has a work limit of its own.
    var includesMessages = true

    init(_ writes: [TreeWrite], by origin: WriteOrigin) {
        self.writes = writes
        self.origin = origin
    }
}
