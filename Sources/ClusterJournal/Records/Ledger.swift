import Journal

/// The last commit of each namespace of a shard, which decides which records count. Every hub decides the same for a record, as it
/// has seen the same earlier records.
struct Ledger {
    struct Mark: Equatable {
        /// The last commit, and the newest epoch of a writer.
        var last: UInt64 = 0
        var epoch: UInt64 = 0
        /// The log message of the newest batch; 0 for a batch that did not come from the log.
        var position: UInt64 = 0
    }

    enum Verdict: Equatable {
        case applies
        /// The batch was applied before a restart.
        case isKnown
        /// No hub applies it.
        case isRefused(JournalError)
    }

    private(set) var marks: [String: Mark] = [:]

    init(_ marks: [String: Mark] = [:]) { self.marks = marks }

    subscript(namespace: String) -> Mark { marks[namespace] ?? Mark() }

    /// Why a batch cannot be the next one of its namespace; nil when it can.
    func refusal(of batch: JournalBatch, _ namespace: String) -> JournalError? {
        let mark = self[namespace]
        if batch.epoch < mark.epoch { return .superseded(epoch: batch.epoch, newest: mark.epoch) }
        guard batch.expectedLast == mark.last, batch.sequence > mark.last, Int64(exactly: batch.sequence) != nil else {
            return .conflict(expected: batch.expectedLast, last: mark.last)
        }
        return nil
    }

    /// - Parameter position: the message that contained the batch.
    func verdict(on batch: JournalBatch, _ namespace: String, at position: UInt64) -> Verdict {
        let mark = self[namespace]
        // The message's batches were applied up to where the process ended; earlier messages are already decided.
        if position < mark.position || position == mark.position && batch.sequence <= mark.last { return .isKnown }
        if let refusal = refusal(of: batch, namespace) { return .isRefused(refusal) }
        return .applies
    }

    mutating func record(_ batch: JournalBatch, _ namespace: String, at position: UInt64) {
        marks[namespace] = Mark(last: batch.sequence, epoch: batch.epoch, position: position)
    }
}

/// A place in a shard's log: the number of a message, and the message's id.
struct LogPlace: Equatable {
    var sequence: UInt64 = 0
    var id: UInt64 = 0
}

/// The log position of a namespace's newest batch, stored with that batch in the local journal.
struct StoredPosition: Equatable {
    /// When the log was created, ns since the epoch: another log has other content.
    var created: Int64
    /// The message that contained the batch.
    var sequence: UInt64
    /// All messages up to this one are applied, for all namespaces of the shard.
    var complete: LogPlace

    /// The name of the setting that stores it.
    static let name = "cluster.position"

    var setting: JournalSetting {
        var bytes: [UInt8] = []
        bytes.append(littleEndian: created)
        for number in [sequence, complete.sequence, complete.id] { bytes.append(littleEndian: number) }
        return JournalSetting(Self.name, bytes)
    }
}

extension StoredPosition {
    init?(_ value: [UInt8]) {
        let read = value.withUnsafeBytes { bytes -> StoredPosition? in
            var reader = ByteReader(bytes)
            guard let created = reader.integer(Int64.self), let sequence = reader.integer(UInt64.self),
                let complete = reader.integer(UInt64.self), let id = reader.integer(UInt64.self), reader.isAtEnd
            else { return nil }
            return StoredPosition(created: created, sequence: sequence, complete: LogPlace(sequence: complete, id: id))
        }
        guard let read else { return nil }
        self = read
    }
}
