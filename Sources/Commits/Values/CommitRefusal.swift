public import Journal

/// Why a database refuses writes, as stated in its answers. The process log has the details.
public enum CommitRefusal: String, Error, Sendable {
    case diskFull = "disk_full"
    case diskFailed = "disk_failed"
    /// The disk failed while it stored these commits, and does not confirm that they were undone.
    case outcomeUnknown = "outcome_unknown"
    /// Another writer has written to the journal.
    case conflict
    /// The database is a follower and accepts no writes.
    case following
    /// A follower that no longer receives the writer's commits.
    case cutOff = "cut_off"
    /// The servers of the cluster's log cannot be reached.
    case logUnavailable = "log_unavailable"
    /// The cluster's log is not the one that was followed before.
    case logRegressed = "log_regressed"
    /// The journal is closed.
    case stopping

    /// The reason for a journal's error.
    public init(_ error: JournalError) {
        switch error {
        case .diskFull: self = .diskFull
        case .closed: self = .stopping
        case .unknown: self = .outcomeUnknown
        case .conflict, .superseded: self = .conflict
        case .unavailable: self = .logUnavailable
        case .regressed: self = .logRegressed
        default: self = .diskFailed
        }
    }

    public var text: String { text(naming: nil) }

    /// - Parameter writer: name of the writer, if this hub is a follower.
    package func text(naming writer: String?) -> String {
        switch self {
        case .diskFull: "The server's disk is full. Nothing of this write was stored; it is taken again as soon as there is space."
        case .diskFailed: "The server's disk refused. Nothing of this write was stored; it is taken again as soon as the disk takes it."
        case .outcomeUnknown:
            """
            The server's disk, or the cluster's log, failed while it stored this write. It is not visible now, but it is not known whether \
            it will be found stored after a restart: read the place before you write it again.
            """
        case .conflict: "Another server writes this database by now, so this one takes no writes. Nothing of this write was stored."
        case .following: "This server follows \(writer ?? "another one"), which takes the writes. Nothing of this write was stored."
        case .cutOff:
            "This server follows \(writer ?? "another one") and has lost it: what it shows may be old. Nothing of this write was stored."
        case .logUnavailable:
            "The servers that keep the cluster's log cannot be reached. Nothing of this write was stored; it is taken again when they are."
        case .logRegressed:
            "The cluster's log is not the one that this server has followed, so it takes no writes. Nothing of this write was stored."
        case .stopping: "The server is stopping. Nothing of this write was stored."
        }
    }

    /// The reason for refusing later writes: these never reach the journal, so their outcome is known.
    package var forLater: CommitRefusal { self == .outcomeUnknown ? .diskFailed : self }

    /// Whether the journal may accept commits again, so that it is tried periodically.
    package var mayPass: Bool {
        switch self {
        case .diskFull, .diskFailed, .outcomeUnknown, .logUnavailable, .logRegressed, .stopping: true
        case .conflict, .following, .cutOff: false
        }
    }
}

/// Journal events for the operator. Reported on the database queue.
public enum JournalEvent: Sendable {
    /// The journal refuses commits, so writes are refused. Reported once, until it accepts commits again.
    case refuses(CommitRefusal, JournalError)
    case takesCommits
    /// A follower no longer receives commits.
    case followingEnded(JournalError)
}
