import struct Foundation.Data
import Glibc
import GRDB
public import Journal

extension JournalStore: SettingStore {
    public func settings(of namespace: String?) throws(JournalError) -> [String: [UInt8]] {
        let scope = namespace ?? ""
        do {
            return try database.writeWithoutTransaction { db in try Self.settings(of: scope, db, path: path) }
        } catch { throw JournalError(error, opening: path) }
    }

    static func settings(of scope: String, _ db: Database, path: String) throws -> [String: [UInt8]] {
        var settings: [String: [UInt8]] = [:]
        let rows = try Row.fetchCursor(db, sql: "SELECT name, checksum, value FROM setting WHERE namespace = ?", arguments: [scope])
        while let row = try rows.next() {
            guard let name = String.fromDatabaseValue(row[0]) else {
                throw JournalError.corrupt(path: path, place: "table of settings")
            }
            let value = try row.withBytes(2) { Array($0) }
            guard Int64.fromDatabaseValue(row[1]) == Int64(checksum(value, setting: name, of: scope)) else {
                throw JournalError.corrupt(path: path, place: "setting \(name)\(scope.isEmpty ? "" : " of namespace \(scope)")")
            }
            settings[name] = value
        }
        return settings
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
                    all[scope] = try settings(of: scope, db, path: path)
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
        enqueue(Waiting.Item(namespace: namespace ?? "", work: .put(name: name, value: value), completion: completion))
    }

    /// Stores a setting within a transaction on the journal queue.
    func store(_ value: [UInt8]?, setting name: String, of scope: String, _ db: Database) throws {
        if let value {
            let statement = try db.cachedStatement(
                sql: "INSERT OR REPLACE INTO setting (namespace, name, checksum, value) VALUES (?, ?, ?, ?)")
            try statement.execute(arguments: [scope, name, Int64(Self.checksum(value, setting: name, of: scope)), Data(value)])
        } else {
            try db.cachedStatement(sql: "DELETE FROM setting WHERE namespace = ? AND name = ?").execute(arguments: [scope, name])
        }
    }

    /// The checksum covers the value, its name and its scope, so that a misplaced row is detected.
    private static func checksum(_ value: [UInt8], setting name: String, of scope: String) -> UInt32 {
        value.withUnsafeBytes { checksum($0, setting: name, of: scope) }
    }

    static func checksum(_ value: UnsafeRawBufferPointer, setting name: String, of scope: String) -> UInt32 {
        var crc = CRC32()
        for text in [scope, name] {
            let bytes = Array(text.utf8)
            crc.add(UInt64(bytes.count))
            bytes.withUnsafeBytes { crc.add($0) }
        }
        crc.add(value)
        return crc.value
    }
}
