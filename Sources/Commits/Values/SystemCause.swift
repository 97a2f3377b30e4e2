/// Why the hub makes a write of its own. Its raw value is the name in metrics.
public enum SystemCause: String, Sendable, CaseIterable {
    /// An account was deleted: its data is removed.
    case accountDeletion = "account_deletion"
    /// Counters of the rules are corrected after a start, a deploy or an import.
    case counters
    /// Counts of notifications, and rows of devices that no longer exist.
    case delivery
    /// A node has expired.
    case expiry
    /// Rows of inboxes, continued after the commit that caused them.
    case inbox
    /// Rows of watches, continued after the commit that caused them.
    case watch
    /// Consequences of removals that were too large for one commit.
    case removal
}
