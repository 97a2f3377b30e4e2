import GRDB
import GRDBSQLite

/// A prepared statement that is bound and read in place, without GRDB's values, rows and copies of blobs: a commit binds nine columns, and
/// a start reads ten for each batch. On its connection's queue.
struct RawStatement {
    /// Keeps the handle alive.
    private let statement: Statement
    private let handle: SQLiteStatement

    /// - Throws: `DatabaseError` for text that is not a valid statement of this schema.
    init(_ db: Database, cached sql: String) throws {
        statement = try db.cachedStatement(sql: sql)
        handle = statement.sqliteStatement
    }

    /// Runs the statement.
    /// - Parameter integers: its parameters.
    /// - Throws: `DatabaseError`.
    func run(_ integers: [Int64] = []) throws {
        defer { reset() }
        bind(integers)
        while try step() {}
    }

    /// The same with a blob, which is not copied, between the integers `before` and `after`.
    func run(_ before: [Int64], blob: [UInt8], _ after: [Int64] = []) throws {
        defer { reset() }
        try blob.withUnsafeBytes { bytes in
            bind(before)
            let index = Int32(before.count + 1)
            if bytes.isEmpty {
                sqlite3_bind_zeroblob(handle, index, 0)
            } else {
                // No destructor: SQLite reads the bytes while it steps, and does not keep them.
                sqlite3_bind_blob64(handle, index, bytes.baseAddress, UInt64(bytes.count), nil)
            }
            bind(after, from: index + 1)
            while try step() {}
        }
    }

    /// Calls `body` for each row; the columns are valid until it returns.
    /// - Throws: `DatabaseError`, and what `body` throws.
    func forEach(_ integers: [Int64], _ body: (borrowing RawRow) throws -> Void) throws {
        defer { reset() }
        bind(integers)
        while try step() { try body(RawRow(handle)) }
    }

    private func bind(_ integers: [Int64], from first: Int32 = 1) {
        var index = first
        for value in integers {
            sqlite3_bind_int64(handle, index, value)
            index += 1
        }
    }

    /// Advances to the next row; false when there are no more.
    private func step() throws -> Bool {
        let code = sqlite3_step(handle)
        if code == SQLITE_ROW { return true }
        if code == SQLITE_DONE { return false }
        let message = sqlite3_errmsg(sqlite3_db_handle(handle)).map { String(cString: $0) }
        throw DatabaseError(resultCode: ResultCode(rawValue: code), message: message)
    }

    private func reset() {
        sqlite3_reset(handle)
        sqlite3_clear_bindings(handle)
    }
}

/// The current row of a running statement.
struct RawRow: ~Copyable {
    private let handle: SQLiteStatement

    fileprivate init(_ handle: SQLiteStatement) { self.handle = handle }

    /// An integer column; nil for another type, which damage may leave.
    func integer(_ column: Int) -> Int64? {
        sqlite3_column_type(handle, Int32(column)) == SQLITE_INTEGER ? sqlite3_column_int64(handle, Int32(column)) : nil
    }

    /// The bytes of a blob, or another type's text; empty for null. Valid until the next row.
    func bytes(_ column: Int) -> UnsafeRawBufferPointer {
        let start = sqlite3_column_blob(handle, Int32(column))
        return UnsafeRawBufferPointer(start: start, count: start == nil ? 0 : Int(sqlite3_column_bytes(handle, Int32(column))))
    }
}
