package import Journal
package import JSONTree

/// A commit before its stages: what is to be written, by whom, and what the rules may still spend on it. Used on the database queue only.
package final class Proposal {
    package let writes: [TreeWrite]
    package let origin: WriteOrigin
    package var condition: Condition?
    /// The pending rows or removals that these writes complete or continue.
    package var settled: PendingInboxChange?
    /// Changes of deliveries that are stored with these writes.
    package var deliveries: [JournalOperation] = []
    /// Text work that the rules may still do. Reduced by the work done, also if the commit is refused.
    package var textWork = Int.max
    /// Whether a refusal contains the rules' messages. Finding these has a work limit of its own.
    package var includesMessages = true

    package init(_ writes: [TreeWrite], by origin: WriteOrigin) {
        self.writes = writes
        self.origin = origin
    }
}
