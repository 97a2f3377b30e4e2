import GRDB
import Journal

/// A namespace in a folder's state of one moment, for another folder.
public struct ExportedNamespace: Sendable, Equatable {
    public var name: String
    /// The last commit, and the newest epoch of its writers.
    public var last: UInt64
    public var epoch: UInt64
    /// The value of the exported setting at that commit; nil without one.
    public var setting: [UInt8]?

    public init(name: String, last: UInt64, epoch: UInt64, setting: [UInt8]?) {
        (self.name, self.last, self.epoch, self.setting) = (name, last, epoch, setting)
    }
}

/// The parts of an export, in order.
public enum ExportedPart: Sendable, Equatable {
    case namespace(ExportedNamespace)
    /// Entries of the preceding namespace, in stored form: a chunk of its snapshot, or the changes of a later batch. Applied in order
    /// they produce its whole durable content.
    case entries([UInt8])
}

extension JournalStore {
    /// Reads all content of some namespaces, in the state of one moment, while commits continue. While it reads, SQLite's log
    /// grows by everything written. Nothing is decoded: it costs O(stored bytes). Blocks.
    /// - Parameters:
    ///   - setting: the name of the setting to export with each namespace.
    ///   - begin: gets the namespaces first.
    ///   - give: called for each part. An error that it throws ends the export.
    /// - Throws: `.corrupt` naming the place; `.disk`, `.closed`; errors of `give`.
    public func export(
        of isWanted: (String) -> Bool, with setting: String, begin: ([ExportedNamespace]) throws -> Void,
        give: (ExportedPart) throws -> Void
    ) throws {
        if journalQueue.isClosed { throw JournalError.closed }
        var configuration = Self.patient
        configuration.label = "vigla.journal.export"
        configuration.readonly = true
        let connection = try DatabaseQueue(path: path, configuration: configuration)
        defer { try? connection.close() }
        try connection.writeWithoutTransaction { db in
            try db.inReadTransaction {
                let found = try Schema.namespaces(db, path: path).filter {
                    $0.value.last > 0 && !Schema.isRemoved($0.key) && isWanted($0.key)
                }
                    .sorted { $0.key < $1.key }
                var namespaces: [ExportedNamespace] = []
                for (name, known) in found {
                    let value = try SettingRows.read(of: name, db, path: path)[setting]
                    namespaces.append(ExportedNamespace(name: name, last: known.last, epoch: known.epoch, setting: value))
                }
                try begin(namespaces)
                for (namespace, (_, known)) in zip(namespaces, found) {
                    try give(.namespace(namespace))
                    try export(known, namespace.name, db, give)
                }
            }
        }
    }

    private func export(_ known: Registry.Row, _ name: String, _ db: Database, _ give: (ExportedPart) throws -> Void) throws {
        do {
            let snapshot = try SnapshotManifest.stored(of: known.id, db)
            let statement = try RawStatement(db, cached: "SELECT entries FROM chunk WHERE id = ? AND namespace = ?")
            for (number, chunk) in (snapshot?.manifest.chunks ?? []).enumerated() {
                var isThere = false
                try statement.forEach([chunk.id, known.id]) { row in
                    guard StoredChunk.checksum(row.bytes(0)) == chunk.checksum else { return }
                    isThere = true
                    try give(.entries(Array(row.bytes(0))))
                }
                guard isThere else { throw PlaceFault(place: "snapshot part \(number)") }
            }
            var last = snapshot?.sequence ?? 0
            try StoredBatches(namespace: known.id, after: last).forEach(db) { part in
                guard part.isIntact else { throw PlaceFault(place: part.check.place) }
                last = part.sequence
                if part.operations.count > 2 { try give(.entries(Array(part.operations))) }
            }
            guard last == known.last else { throw PlaceFault(place: "batch of commit \(known.last)") }
        } catch let fault as PlaceFault { throw JournalError.corrupt(path: path, place: "\(fault.place) of namespace \(name)") }
    }
}
