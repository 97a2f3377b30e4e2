import Glibc
import Synchronization

/// Points at which a crash test ends the process, as if it had been killed there. Debug builds only; in release builds `pass` does
/// nothing.
///
/// The environment variable `VIGLA_FAULT` names one point and optionally the number of the passage, 1 without a number:
///
///     VIGLA_FAULT=commit.before        SIGKILL before the first commit: nothing of it may be found
///     VIGLA_FAULT=commit.after:20      SIGKILL after the 20th, before any completion: all of it must be found
///     VIGLA_FAULT=snapshot.chunk:3     SIGKILL when three chunks of a snapshot are stored: the old snapshot must be found
///
/// A commit is one of SQLite: all batches and settings that waited together.
enum FaultPoint: String {
    /// All rows are inserted, the transaction is not committed.
    case beforeCommit = "commit.before"
    /// The transaction is durable, no completion has been called.
    case afterCommit = "commit.after"
    /// A slice of a large batch is durable, more are to come.
    case slice = "batch.slice"
    /// All slices are durable, the row that combines them into a batch is not.
    case beforeSeal = "batch.seal.before"
    /// A chunk of a snapshot is durable.
    case snapshotChunk = "snapshot.chunk"
    /// All chunks are durable, the manifest of the new snapshot is not.
    case beforeSwitch = "snapshot.switch.before"
    /// The new snapshot is in effect; the log and the old chunks still exist.
    case afterSwitch = "snapshot.switch.after"
    /// Some of the log, or of the old chunks, has been removed.
    case truncate = "truncate"
    /// A namespace is marked as removed, the transaction is not committed.
    case beforeDrop = "drop.before"
    /// A namespace is removed; its rows still exist.
    case afterDrop = "drop.after"
    /// SQLite's log is about to be copied into the database, in the background.
    case checkpoint = "checkpoint"

    /// Ends the process if the environment selected this passage.
    @inline(__always)
    static func pass(_ point: FaultPoint?) {
        #if DEBUG
        guard let armed, armed.point == point else { return }
        if armed.left.subtract(1, ordering: .relaxed).newValue == 0 { kill(getpid(), SIGKILL) }
        #endif
    }

    #if DEBUG
    /// The selected point and the remaining passages.
    private static let armed = getenv("VIGLA_FAULT").flatMap { Armed(String(cString: $0)) }
    #endif

    /// A point and its passages. Compiled in all builds, like its test.
    final class Armed: Sendable {
        let point: FaultPoint
        let left: Atomic<Int>

        /// Reads `point` or `point:n`; nil for anything else.
        init?(_ text: String) {
            let parts = text.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
            guard let name = parts.first, let point = FaultPoint(rawValue: String(name)) else { return nil }
            guard let count = parts.count == 2 ? Int(parts[1]) : 1, count > 0 else { return nil }
            self.point = point
            left = Atomic(count)
        }
    }
}
