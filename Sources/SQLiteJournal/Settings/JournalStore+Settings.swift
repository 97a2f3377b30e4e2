import Glibc
import GRDB
public import Journal

extension JournalStore: SettingStore {
    public func settings(of namespace: String?) throws(JournalError) -> [String: [UInt8]] {
        let scope = namespace ?? ""
        do {
            return try database.writeWithoutTransaction { db in try SettingRows.read(of: scope, db, path: path) }
        } catch { throw JournalError(error, opening: path) }
    }

    /// The namespaces that have settings; nil for those of the whole store. Blocks.
    public func namespacesWithSettings() throws(JournalError) -> [String?] {
        do {
            let names = try database.writeWithoutTransaction { db in
                try String.fetchAll(db, sql: "SELECT DISTINCT namespace FROM setting")
            }
            return names.map { $0.isEmpty ? nil : $0 }
        } catch { throw JournalError(error, opening: path) }
    }

    /// The settings of all namespaces of a folder, by namespace and name. A hub may run on the folder at the same time: nothing is locked,
    /// changed or recovered. Blocks.
    /// - Throws: `.cannotOpen`, `.notAJournal`, `.corrupt`, `.disk`.
    public static func settings(in folder: String) throws(JournalError) -> [String: [String: [UInt8]]] {
        let path = folder + "/" + fileName
        var name = path
        // Reading a folder at rest would create an empty log that only the next hub may remove. So read through a hard link with
        // another name, and remove that one.
        if access(path + "-wal", F_OK) != 0 {
            name += ".look-\(getpid())"
            guard link(path, name) == 0 else { throw .cannotOpen(path: path, reason: FolderLock.reason(errno)) }
        }
        defer { if name != path { for suffix in ["", "-wal", "-shm"] { unlink(name + suffix) } } }
        var configuration = patient
        configuration.readonly = true
        do {
            let queue = try DatabaseQueue(path: name, configuration: configuration)
            defer { try? queue.close() }
            return try queue.writeWithoutTransaction { db in
                var all: [String: [String: [UInt8]]] = [:]
                for scope in try String.fetchAll(db, sql: "SELECT DISTINCT namespace FROM setting") where !scope.isEmpty {
                    all[scope] = try SettingRows.read(of: scope, db, path: path)
                }
                return all
            }
        } catch { throw JournalError(error, opening: path) }
    }

    /// Keeps the order of appends: a setting that was put after a batch is stored after it or together with it.
    public func put(
        _ value: [UInt8]?, setting name: String, of namespace: String?,
        completion: @escaping @Sendable (Result<Void, JournalError>) -> Void
    ) {
        journalQueue.enqueue(Waiting.Item(namespace: namespace ?? "", work: .put(name: name, value: value), completion: completion))
    }
}
