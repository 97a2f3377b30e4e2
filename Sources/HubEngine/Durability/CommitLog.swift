public import JSONTree

/// Where commits become durable. `completion` is called once for each append, in order, from any thread.
///
/// After a failure nothing of that append is stored (`outcomeUnknown`: that is not certain), and those made on top of it fail too; the database goes back to its last
/// durable content, refuses writes, and tries from time to time with a commit that changes nothing.
public protocol CommitLog: Sendable {
    func append(_ commits: [Commit], completion: @escaping @Sendable (Result<Void, CommitRefusal>) -> Void)
    /// Whether appends complete at once, so that nothing needs to wait.
    var isImmediate: Bool { get }
    /// Bytes of a request from which on what it writes is given to `stage` before its commit is made. Default: none has so many.
    var stagedBytes: Int { get }
    /// Stores what a commit is going to write, beside the log and while others are appended: the commit that has the result
    /// (`Commit.stage`) takes no longer than a small one. Let go of without a commit, it is removed.
    /// - Parameter completion: called once, from any thread. After a failure nothing is stored, and nothing else is refused.
    func stage(
        _ operations: [(path: Path, part: TreeWrite.Part, value: Node)],
        completion: @escaping @Sendable (Result<any StagedOperations, CommitRefusal>) -> Void)
}

/// What a log has stored ahead of a commit.
public protocol StagedOperations: AnyObject, Sendable {}

extension CommitLog {
    public var stagedBytes: Int { .max }

    public func stage(
        _ operations: [(path: Path, part: TreeWrite.Part, value: Node)],
        completion: @escaping @Sendable (Result<any StagedOperations, CommitRefusal>) -> Void
    ) { completion(.failure(.diskFailed)) }
}

/// Why a log takes no commits, as those are told who wanted to write. The log of the program knows more.
public enum CommitRefusal: String, Error, Sendable {
    case diskFull = "disk_full"
    case diskFailed = "disk_failed"
    /// The disk failed while it stored these commits, and does not confirm that they were taken back.
    case outcomeUnknown = "outcome_unknown"
    /// The log is closed.
    case stopping

    public var text: String {
        switch self {
        case .diskFull: "The server's disk is full. Nothing of this write was stored; it is taken again as soon as there is space."
        case .diskFailed: "The server's disk refused. Nothing of this write was stored; it is taken again as soon as the disk takes it."
        case .outcomeUnknown:
            "The server's disk failed while it stored this write. It is not visible now, but it is not known whether it will be found stored after a restart: read the place before you write it again."
        case .stopping: "The server is stopping. Nothing of this write was stored."
        }
    }

    /// Why what comes next is refused: it is not given to the log.
    var forLater: CommitRefusal { self == .outcomeUnknown ? .diskFailed : self }
}

/// What one commit wrote, with server values filled in; applying it again gives the same tree.
public struct Commit: Sendable {
    public let sequence: UInt64
    public let operations: [(path: Path, part: TreeWrite.Part, value: Node)]
    /// How it changed what sessions leave behind; a commit may do this alone, or nothing at all.
    public let pending: [PendingChange]
    /// What the log has of the operations already.
    public var stage: (any StagedOperations)?
}

/// For databases that live in memory only.
public struct NoCommitLog: CommitLog {
    public init() {}
    public var isImmediate: Bool { true }
    public func append(_ commits: [Commit], completion: @escaping @Sendable (Result<Void, CommitRefusal>) -> Void) { completion(.success(())) }
}
