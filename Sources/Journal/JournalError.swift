/// Why data could not be stored or read back.
public enum JournalError: Error, Equatable, Sendable {
    /// The folder, or a file in it, cannot be created, read or written.
    case cannotOpen(path: String, reason: String)
    /// Another process holds the data folder.
    case inUse(folder: String, process: Int32?)
    /// The file is no journal of this program.
    case notAJournal(path: String)
    /// A newer version of the program wrote the folder.
    case newerFormat(path: String, found: Int, known: Int)
    /// A part of the file, named by `place`, does not match its checksum.
    case corrupt(path: String, place: String)
    /// The disk has no room left.
    case diskFull(reason: String)
    /// The disk or the file system refused.
    case disk(reason: String)
    /// The disk failed, and it is uncertain whether the write can still be found after a restart.
    case unknown(reason: String)
    /// Acknowledged commits cannot be read from the write-ahead log: `sound` says up to where it is intact, `missing` names the lost part.
    case loss(path: String, sound: String, missing: String)
    /// The batch does not continue the last stored one.
    case conflict(expected: UInt64, last: UInt64)
    /// A writer of a newer epoch has written since.
    case superseded(epoch: UInt64, newest: UInt64)
    /// The log's servers could not be reached in time. The batch was not stored.
    case unavailable(reason: String)
    /// The replicated log `log` is behind the position that was followed, or is another log.
    case regressed(log: String, reason: String)
    /// The batches up to this number are no longer kept.
    case truncated(upTo: UInt64)
    /// The data folder has content of a namespace that did not come through the cluster's log.
    case foreign(namespace: String)
    /// Another hub has changed the setting meanwhile.
    case changed(setting: String)
    /// The target of a copy contains data already.
    case exists(path: String)
    /// The journal or its store was closed.
    case closed
}

extension JournalError: CustomStringConvertible {
    public var description: String {
        switch self {
        case .cannotOpen(let path, let reason):
            "Cannot use \(path): \(reason). Check that the folder exists, belongs to this user and is writable."
        case .inUse(let folder, let process):
            """
            The data folder \(folder) is in use\(process.map { " by process \($0)" } ?? ""). Stop that server or choose another folder \
            with --data.
            """
        case .notAJournal(let path): "\(path) is not a Vigla data file. Choose another folder with --data."
        case .newerFormat(let path, let found, let known):
            "\(path) has format \(found); this version reads up to \(known). Use the version that wrote it, or a newer one."
        case .corrupt(let path, let place):
            """
            \(path) is damaged (\(place)) and nothing was changed. Keep a copy of the folder, then restore a backup \
            (vigla backup --restore), or start with another folder (--data).
            """
        case .diskFull(let reason): "The disk is full (\(reason)). The write was not stored; free some space and try again."
        case .disk(let reason): "The disk refused the write (\(reason)). It was not stored."
        case .unknown(let reason):
            """
            The disk failed (\(reason)) and does not confirm that what it had of the write was taken back: after a power cut the \
            write may be found stored.
            """
        case .loss(let path, let sound, let missing):
            """
            \(path) is damaged: it is sound \(sound); \(missing). Nothing was changed. Keep a copy of the folder, then restore a \
            backup (vigla backup --restore), or go on with what is sound: vigla serve --accept-loss keeps a copy of the damaged log.
            """
        case .conflict(let expected, let last): "The batch follows commit \(expected), but commit \(last) is the last one stored."
        case .superseded(let epoch, let newest): "The batch is of epoch \(epoch), but a writer of epoch \(newest) has written since."
        case .unavailable(let reason): "The cluster's log is not available (\(reason)). The write was not stored; try again."
        case .regressed(let log, let reason):
            """
            The cluster's log \(log) is not the one that this hub has followed: \(reason). Writes are refused and nothing was set back \
            here: what this hub has applied is in its data folder. See docs/cluster.md before anything is restarted or removed.
            """
        case .truncated(let last): "The batches up to commit \(last) are no longer kept; a snapshot holds them."
        case .foreign(let namespace):
            """
            The data folder holds the namespace \(namespace), which has not come by the cluster's log: other hubs would not have it. Start \
            with an empty folder (--data), and import the content.
            """
        case .changed(let name): "The setting \(name) was changed by another hub at the same time. Try again."
        case .exists(let path): "\(path) holds data already and was not touched. Choose another folder, or replace it with --replace."
        case .closed: "The journal is closed."
        }
    }
}
