import struct Foundation.Data
import GRDB
public import Journal

extension JournalStore: SettingStore {
    public func settings(of namespace: String?) throws(JournalError) -> [String: [UInt8]] {
        let scope = namespace ?? ""
        do {
            return try database.writeWithoutTransaction { db in
                var settings: [String: [UInt8]] = [:]
                let rows = try Row.fetchCursor(db, sql: "SELECT name, checksum, value FROM setting WHERE namespace = ?", arguments: [scope])
                while let row = try rows.next() {
                    guard let name = String.fromDatabaseValue(row[0]) else {
                        throw JournalError.corrupt(path: path, place: "table of settings")
                    }
                    let value = try row.withBytes(2) { Array($0) }
                    guard Int64.fromDatabaseValue(row[1]) == Int64(Self.checksum(value, setting: name, of: scope)) else {
                        throw JournalError.corrupt(path: path, place: "setting \(name)\(namespace.map { " of namespace \($0)" } ?? "")")
                    }
                    settings[name] = value
                }
                return settings
            }
        } catch { throw JournalError(error, opening: path) }
    }

    /// In the order of appends: a setting that was put after a batch is stored after it or together with it.
    public func put(
        _ value: [UInt8]?, setting name: String, of namespace: String?,
        completion: @escaping @Sendable (Result<Void, JournalError>) -> Void
    ) {
        enqueue(Waiting.Item(namespace: namespace ?? "", work: .put(name: name, value: value), completion: completion))
    }

    /// Within a transaction on the journal queue.
    func store(_ value: [UInt8]?, setting name: String, of scope: String, _ db: Database) throws {
        if let value {
            let statement = try db.cachedStatement(
                sql: "INSERT OR REPLACE INTO setting (namespace, name, checksum, value) VALUES (?, ?, ?, ?)")
            try statement.execute(arguments: [scope, name, Int64(Self.checksum(value, setting: name, of: scope)), Data(value)])
        } else {
            try db.cachedStatement(sql: "DELETE FROM setting WHERE namespace = ? AND name = ?").execute(arguments: [scope, name])
        }
    }

    /// Over the value and whose it is, so that a row in the wrong place does not pass.
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
