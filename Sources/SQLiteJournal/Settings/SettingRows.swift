import struct Foundation.Data
import GRDB
import Journal

/// The rows of settings. A scope is a namespace, or empty for settings of the whole store.
enum SettingRows {
    /// The settings of a scope, by name.
    /// - Throws: `.corrupt`.
    static func read(of scope: String, _ db: Database, path: String) throws -> [String: [UInt8]] {
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

    /// Stores a setting within a transaction on the journal queue.
    static func store(_ value: [UInt8]?, setting name: String, of scope: String, _ db: Database) throws {
        if let value {
            let statement = try db.cachedStatement(
                sql: "INSERT OR REPLACE INTO setting (namespace, name, checksum, value) VALUES (?, ?, ?, ?)")
            try statement.execute(arguments: [scope, name, Int64(checksum(value, setting: name, of: scope)), Data(value)])
        } else {
            try db.cachedStatement(sql: "DELETE FROM setting WHERE namespace = ? AND name = ?").execute(arguments: [scope, name])
        }
    }

    /// Removes all settings of a scope within a transaction on the journal queue.
    static func removeAll(of scope: String, _ db: Database) throws {
        try db.execute(sql: "DELETE FROM setting WHERE namespace = ?", arguments: [scope])
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
