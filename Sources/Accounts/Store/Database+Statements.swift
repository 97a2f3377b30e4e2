import Foundation
import GRDB

/// Statements are prepared once: the service uses the same few all the time.
extension Database {
    func execute(cached sql: String, _ arguments: [(any DatabaseValueConvertible)?]) throws {
        try cachedStatement(sql: sql).execute(arguments: StatementArguments(arguments))
    }

    /// Bytes as SQLite takes them.
    static func blob(_ bytes: [UInt8]) -> Data { Data(bytes) }
}

extension Row {
    static func fetchOne(_ db: Database, cached sql: String, _ arguments: [(any DatabaseValueConvertible)?]) throws -> Row? {
        try fetchOne(db.cachedStatement(sql: sql), arguments: StatementArguments(arguments))
    }

    static func fetchAll(_ db: Database, cached sql: String, _ arguments: [(any DatabaseValueConvertible)?]) throws -> [Row] {
        try fetchAll(db.cachedStatement(sql: sql), arguments: StatementArguments(arguments))
    }
}
