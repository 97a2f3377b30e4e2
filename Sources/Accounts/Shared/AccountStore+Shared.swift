import Dispatch
import Foundation
import GRDB
import Journal
import Logging

/// The accounts of a hub of a cluster: every hub has all accounts, and each change is in a log that all hubs follow.
///
/// ```
/// transaction ─► apply records of other hubs ─► the work, its statements recorded ─► append to the log ─► COMMIT, with the position
///                        ▲                                                            └─ another hub was first: ROLLBACK ─┐
///                        └────────────────────────────────────────────────────────────────────────────────────────────────┘
/// the log ─► arrived ─► the statements, in log order, with the position ─► COMMIT ─► effects
/// ```
/// Records that are in the log but not in SQLite, because the process ended in between, are applied from the log at the next start. Confined
/// like the store.
final class SharedAccounts {
    let log: any SharedLog
    let logger: Logger
    /// The last record taken, and the last position from which a start may follow.
    fileprivate(set) var newest: SharedPlace
    fileprivate(set) var complete: SharedPlace
    /// Records taken but not stored yet: the disk failed, or this version does not support them.
    fileprivate var backlog: [SharedEntry] = []
    /// Called with other hubs' records, for effects outside the database.
    var onRecord: ((AccountRecord) -> Void)?
    /// The number of transactions run again because another hub was first, and of records that could not be applied.
    fileprivate(set) var conflicts = 0
    fileprivate(set) var skipped = 0

    /// Milliseconds for one transaction, including all retries.
    static let transactionMs = 4_000
    /// Most records of other hubs in one transaction.
    static let recordsAtOnce = 64

    fileprivate init(_ log: any SharedLog, _ logger: Logger, _ place: SharedPlace) {
        (self.log, self.logger, newest, complete) = (log, logger, place, place)
    }
}

/// Records the statements of a transaction, for the log.
final class AccountRecorder {
    var record = AccountRecord()
}

extension AccountStore {
    // MARK: Joining

    /// Milliseconds to wait at a first start, when the servers may not be up yet.
    static let joinMs = 60_000
    /// Milliseconds to wait at a start with a folder that followed before, when the servers are unreachable.
    static let rejoinMs = 3_000

    /// Makes the store follow a log, and returns once it has all records. The first hub of a cluster uploads the existing accounts of its folder.
    /// Blocks.
    /// - Parameter arrived: see `SharedLog.follow`.
    /// - Throws: `AccountStoreFault.foreign` if the folder has accounts that the cluster does not have, `.unavailable`.
    func join(_ log: any SharedLog, patienceMs: Int = joinMs, logger: Logger, _ arrived: @escaping @Sendable () -> Void) throws {
        try database.write { db in
            let columns = "created INTEGER NOT NULL, sequence INTEGER NOT NULL, id INTEGER NOT NULL"
            try db.execute(sql: "CREATE TABLE IF NOT EXISTS followed (\(columns))")
        }
        let row = try database.read { db in try Row.fetchOne(db, sql: "SELECT created, sequence, id FROM followed") }
        let place = row.map { SharedPlace(created: $0[0], sequence: UInt64(bitPattern: $0[1]), id: UInt64(bitPattern: $0[2])) }
        let shared = SharedAccounts(log, logger, place ?? SharedPlace())
        log.follow(from: place, arrived)
        let mayTake = place != nil
        var arrivals: [SharedEntry] = []
        let isUpToDate = log.waitForAll(withinMs: place == nil ? patienceMs : Self.rejoinMs) {
            let taken = log.receive(waitMs: 0)
            if mayTake { shared.backlog += taken } else { arrivals += taken }
        }
        if place == nil {
            guard isUpToDate else { throw AccountStoreFault.unavailable("the accounts of the cluster were not received in time") }
            let own = try read { try $0.accountCount() }
            if own == 0 {
                try clear()
            } else if arrivals.isEmpty {
                try bringAlong(shared)
            } else {
                throw AccountStoreFault.foreign(count: own)
            }
            shared.backlog = arrivals
        } else if !isUpToDate {
            logger.warning("accounts are those of before, until the cluster can be reached")
        }
        self.shared = shared
        try applyArrived()
    }

    /// Stops following the log: the cluster does not get changes from here on.
    func leave() throws { try database.write { db in try db.execute(sql: "DROP TABLE IF EXISTS followed") } }

    /// The tables, referenced ones first.
    private static let tables = ["account", "provider", "session", "departed", "code", "signing_key", "throttle", "audit", "removal"]

    /// Removes the rows of a start without accounts: its signing key.
    private func clear() throws {
        try database.write { db in for table in Self.tables.reversed() { try db.execute(sql: "DELETE FROM \(table)") } }
    }

    /// Appends all rows as one record to an empty log.
    private func bringAlong(_ shared: SharedAccounts) throws {
        var record = AccountRecord()
        try database.read { db in
            for table in Self.tables {
                let rows = try Row.fetchCursor(db, sql: "SELECT * FROM \(table)")
                while let row = try rows.next() {
                    let columns = row.columnNames.joined(separator: ", ")
                    let sql = "INSERT INTO \(table) (\(columns)) VALUES (\(row.map { _ in "?" }.joined(separator: ", ")))"
                    record.statements.append(.init(sql: sql, arguments: Array(row.databaseValues)))
                }
            }
        }
        switch shared.log.append(record.encoded, after: shared.newest) {
        case .stored(let place):
            try database.write { db in try Self.write(place, db) }
            (shared.newest, shared.complete) = (place, place)
            shared.logger.notice("the accounts of this folder are those of the cluster from now on", metadata: [
                "rows": "\(record.statements.count)",
            ])
        case .conflict: throw AccountStoreFault.foreign(count: try read { try $0.accountCount() })
        case .refused(let error): throw AccountStoreFault.unavailable("\(error)")
        case .unknown(let reason): throw AccountStoreFault.unavailable(reason)
        }
    }

    private static func write(_ place: SharedPlace, _ db: Database) throws {
        try db.cachedStatement(sql: "DELETE FROM followed").execute()
        let statement = try db.cachedStatement(sql: "INSERT INTO followed (created, sequence, id) VALUES (?, ?, ?)")
        try statement.execute(arguments: [place.created, Int64(bitPattern: place.sequence), Int64(bitPattern: place.id)])
    }

    // MARK: Transactions

    private struct Conflict: Error { let last: UInt64 }

    /// - Throws: `AccountStoreFault.unavailable` if the log refuses the record or does not confirm it; errors of the work.
    func transaction<Result>(
        in shared: SharedAccounts, _ durability: AccountDurability, _ work: (AccountTransaction) throws -> Result
    ) throws -> Result {
        let end = DispatchTime.now() + .milliseconds(SharedAccounts.transactionMs)
        repeat {
            try applyArrived()
            try set(durability)
            do { return try attempt(shared, work) } catch let conflict as Conflict {
                shared.conflicts += 1
                while shared.newest.sequence < conflict.last, DispatchTime.now() < end { try applyArrived(waitMs: 100) }
            }
        } while DispatchTime.now() < end
        throw AccountStoreFault.unavailable("other hubs change accounts at the same time")
    }

    private func attempt<Result>(_ shared: SharedAccounts, _ work: (AccountTransaction) throws -> Result) throws -> Result {
        var stored: SharedPlace?
        let result = try database.write { db in
            let before = db.totalChangesCount
            let recorder = AccountRecorder()
            let result = try work(AccountTransaction(db, recorder))
            // Most sweeps change nothing, and then need no log.
            if recorder.record.isEmpty || db.totalChangesCount == before && recorder.record.changes.isEmpty { return result }
            switch shared.log.append(recorder.record.encoded, after: shared.newest) {
            case .stored(let place):
                try Self.write(place, db)
                stored = place
            case .conflict(let last): throw Conflict(last: last)
            case .refused(let error): throw AccountStoreFault.unavailable("\(error)")
            case .unknown(let reason): throw AccountStoreFault.unavailable("the cluster's log did not answer: \(reason)")
            }
            return result
        }
        if let stored { (shared.newest, shared.complete) = (stored, stored) }
        return result
    }

    // MARK: Changes of other hubs

    /// Applies the records of other hubs, and own records whose COMMIT failed.
    /// - Throws: the disk's error; the next call tries again.
    func applyArrived(waitMs: Int = 0) throws {
        guard let shared, !isClosed else { return }
        shared.backlog += shared.log.receive(waitMs: shared.backlog.isEmpty ? waitMs : 0)
        while !shared.backlog.isEmpty { try applyNext(shared) }
    }

    private func applyNext(_ shared: SharedAccounts) throws {
        var (newest, complete) = (shared.newest, shared.complete)
        var applied: [AccountRecord] = []
        var done = 0
        try set(.withSystem)
        try database.write { db in
            for entry in shared.backlog.prefix(SharedAccounts.recordsAtOnce) {
                // Otherwise it is an own record, which is already in the database.
                if entry.place.sequence > newest.sequence {
                    if let record = entry.record.flatMap({ read($0, entry, shared) }) {
                        if record.schema > AccountRecord.ownSchema {
                            if done > 0 { break }
                            throw AccountStoreFault.newerRecord
                        }
                        if try Self.apply(record, entry, shared, db) { applied.append(record) }
                    }
                    newest = entry.place
                    if entry.isComplete { complete = entry.place }
                }
                done += 1
            }
            if !applied.isEmpty { try Self.write(complete, db) }
        }
        shared.backlog.removeFirst(done)
        (shared.newest, shared.complete) = (newest, complete)
        for record in applied { shared.onRecord?(record) }
    }

    private func read(_ bytes: [UInt8], _ entry: SharedEntry, _ shared: SharedAccounts) -> AccountRecord? {
        guard let record = AccountRecord(decoding: bytes) else {
            Self.logSkipped(entry, "no hub has made it", shared)
            return nil
        }
        return record
    }

    /// - Returns: false if it cannot be applied here, which happens for no record written by a hub.
    private static func apply(_ record: AccountRecord, _ entry: SharedEntry, _ shared: SharedAccounts, _ db: Database) throws -> Bool {
        do {
            try db.inSavepoint {
                for statement in record.statements {
                    try db.cachedStatement(sql: statement.sql).execute(arguments: StatementArguments(statement.arguments))
                }
                try AccountTransaction(db).save(record.counts)
                return .commit
            }
            return true
        } catch let error as DatabaseError {
            switch error.resultCode {
            case .SQLITE_ERROR, .SQLITE_CONSTRAINT, .SQLITE_MISMATCH, .SQLITE_MISUSE, .SQLITE_RANGE, .SQLITE_TOOBIG, .SQLITE_AUTH:
                logSkipped(entry, "SQLite says \(error.resultCode)", shared)
                return false
            default: throw error
            }
        }
    }

    private static func logSkipped(_ entry: SharedEntry, _ reason: String, _ shared: SharedAccounts) {
        shared.skipped += 1
        // Without the record, the statement and its arguments, as these contain hashes.
        shared.logger.critical("a record of the cluster's accounts cannot be carried out and is left out", metadata: [
            "message": "\(entry.place.sequence)", "reason": "\(reason)",
        ])
    }
}
