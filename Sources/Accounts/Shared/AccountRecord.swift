import GRDB
import Foundation
import Journal

/// A record that a hub of a cluster appends to the log of the accounts. It contains the statements of one transaction with their arguments, which
/// every hub runs, and the further effects on each hub.
///
///     [version][schema] ( [1][sql][arguments] │ [2][change] │ [3][counts of a subject] │ [4] the signing keys ) …
///
/// It contains hashes of passwords and tokens, and the keys of ID tokens: it goes only to the log, and into no message.
struct AccountRecord: Equatable {
    struct Statement: Equatable {
        let sql: String
        let arguments: [DatabaseValue]
    }

    /// The required schema version; a hub of an earlier version waits until it is upgraded.
    var schema = AccountRecord.ownSchema
    var statements: [Statement] = []
    /// Announced on every hub, in order.
    var changes: [AccountChange] = []
    /// Counts of failed attempts.
    var counts: [Throttle.Row] = []
    /// Whether the keys of ID tokens have changed.
    var changesKeys = false

    /// The number of migrations of `AccountStore`.
    static let ownSchema: UInt16 = 2
    private static let version: UInt8 = 1

    var isEmpty: Bool { statements.isEmpty && changes.isEmpty && counts.isEmpty && !changesKeys }
}

// MARK: Encoding

extension AccountRecord {
    private enum Item: UInt8 { case statement = 1, change, counts, keys }
    private enum Kind: UInt8 { case disabled = 1, deleted, revoked, claimsChanged, sessionEnded }
    private enum Value: UInt8 { case null, int, double, text, blob }

    var encoded: [UInt8] {
        var bytes = [Self.version]
        bytes.append(littleEndian: schema)
        for statement in statements {
            bytes.append(Item.statement.rawValue)
            bytes.append(counted: statement.sql.utf8)
            bytes.append(littleEndian: UInt16(statement.arguments.count))
            for argument in statement.arguments { Self.append(argument, to: &bytes) }
        }
        for change in changes {
            bytes += [Item.change.rawValue, Self.kind(change.kind).rawValue]
            bytes.append(counted: change.uid.utf8)
            bytes.append(optional: change.session?.utf8)
            bytes.append(optional: change.author?.utf8)
        }
        for row in counts {
            bytes.append(Item.counts.rawValue)
            bytes.append(counted: row.subject.utf8)
            bytes.append(optional: row.state)
            bytes.append(littleEndian: row.writtenAt)
        }
        if changesKeys { bytes.append(Item.keys.rawValue) }
        return bytes
    }

    private static func append(_ value: DatabaseValue, to bytes: inout [UInt8]) {
        switch value.storage {
        case .null: bytes.append(Value.null.rawValue)
        case .int64(let number):
            bytes.append(Value.int.rawValue)
            bytes.append(littleEndian: number)
        case .double(let number):
            bytes.append(Value.double.rawValue)
            bytes.append(littleEndian: number.bitPattern)
        case .string(let text):
            bytes.append(Value.text.rawValue)
            bytes.append(counted: text.utf8)
        case .blob(let data):
            bytes.append(Value.blob.rawValue)
            bytes.append(counted: data)
        }
    }

    private static func kind(_ kind: AccountChange.Kind) -> Kind {
        switch kind {
        case .disabled: .disabled
        case .deleted: .deleted
        case .revoked: .revoked
        case .claimsChanged: .claimsChanged
        case .sessionEnded: .sessionEnded
        }
    }
}

// MARK: Decoding

extension AccountRecord {
    /// Decodes a record.
    /// - Returns: nil for data that no hub has written; then all hubs ignore the whole record.
    init?(decoding bytes: [UInt8]) {
        guard let record = bytes.withUnsafeBytes({ Self.read($0) }) else { return nil }
        self = record
    }

    private static func read(_ bytes: UnsafeRawBufferPointer) -> AccountRecord? {
        var reader = ByteReader(bytes)
        guard reader.integer(UInt8.self) == version, let schema = reader.integer(UInt16.self) else { return nil }
        var record = AccountRecord(schema: schema)
        while !reader.isAtEnd {
            guard let item = reader.integer(UInt8.self).flatMap(Item.init(rawValue:)) else { return nil }
            switch item {
            case .statement:
                guard let statement = statement(&reader) else { return nil }
                record.statements.append(statement)
            case .change:
                guard let change = change(&reader) else { return nil }
                record.changes.append(change)
            case .counts:
                guard let subject = reader.text(), let state = reader.optional({ $0.counted().map { Array($0) } }),
                    let time = reader.integer(Int64.self)
                else { return nil }
                record.counts.append(Throttle.Row(subject: subject, state: state, writtenAt: time))
            case .keys: record.changesKeys = true
            }
        }
        return record
    }

    private static func statement(_ reader: inout ByteReader) -> Statement? {
        // Only changes of rows: no statement that opens another file or changes how the database works.
        guard let sql = reader.text(), ["INSERT ", "UPDATE ", "DELETE "].contains(where: sql.hasPrefix),
            let count = reader.integer(UInt16.self)
        else { return nil }
        var arguments: [DatabaseValue] = []
        for _ in 0..<count {
            guard let value = value(&reader) else { return nil }
            arguments.append(value)
        }
        return Statement(sql: sql, arguments: arguments)
    }

    private static func value(_ reader: inout ByteReader) -> DatabaseValue? {
        switch reader.integer(UInt8.self).flatMap(Value.init(rawValue:)) {
        case .null: .null
        case .int: reader.integer(Int64.self)?.databaseValue
        case .double: reader.integer(UInt64.self).map { Double(bitPattern: $0).databaseValue }
        case .text: reader.text()?.databaseValue
        case .blob: reader.counted().map { Data($0).databaseValue }
        case nil: nil
        }
    }

    private static func change(_ reader: inout ByteReader) -> AccountChange? {
        guard let kind = reader.integer(UInt8.self).flatMap(Kind.init(rawValue:)), let uid = reader.text(),
            let session = reader.optional({ $0.text() }), let author = reader.optional({ $0.text() })
        else { return nil }
        switch (kind, session) {
        case (.disabled, nil): return AccountChange(uid, .disabled, by: author)
        case (.deleted, nil): return AccountChange(uid, .deleted, by: author)
        case (.revoked, nil): return AccountChange(uid, .revoked, by: author)
        case (.claimsChanged, nil): return AccountChange(uid, .claimsChanged, by: author)
        case (.sessionEnded, let session?): return AccountChange(uid, .sessionEnded(session), by: author)
        default: return nil
        }
    }
}
