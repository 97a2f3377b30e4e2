import DequeModule
import Journal

/// The records for the local journals, in log order, with their progress. A pure value.
///
///     message   41      42       43           44
///     batches   a ✓     b ✓ c …  (nothing)    a held          complete: 41
struct LocalApplyQueue {
    struct Entry {
        let namespace: String
        let batch: JournalBatch
        /// The number of its completion; nil once it was called.
        var number: Int?
        fileprivate var state = State.held

        fileprivate enum State { case held, underWay, done }

        init(namespace: String, batch: JournalBatch, number: Int?) {
            (self.namespace, self.batch, self.number) = (namespace, batch, number)
        }
    }

    /// Identifies an entry while it is in the line.
    struct Key {
        let record: Int
        let entry: Int
    }

    private struct Record {
        let place: LogPlace
        var entries: [Entry]
        var left: Int
    }

    private var records: Deque<Record> = []
    /// Number of the first record.
    private var first = 0
    /// Entries before this one were passed to a journal.
    private var cursor = Key(record: 0, entry: 0)
    /// All messages up to this one are applied.
    private(set) var complete: LogPlace
    /// Number of entries that the local journals have not answered yet.
    private(set) var underWay = 0
    /// A local journal has refused an entry: no more entries are passed on until `resume`.
    private(set) var isStalled = false
    /// No more entries are passed on for a moment.
    var isHeld = false

    init(complete: LogPlace) { self.complete = complete }

    /// Number of incomplete records.
    var count: Int { records.count }

    mutating func add(_ entries: [Entry], at place: LogPlace) {
        records.append(Record(place: place, entries: entries, left: entries.count))
        settle()
    }

    /// Adds a message without batches; nil for a part of a record, which is complete with the whole record.
    mutating func skip(to place: LogPlace?) { if let place { add([], at: place) } }

    /// The next entry for its local journal, and its message.
    mutating func next() -> (key: Key, entry: Entry, place: LogPlace)? {
        if isStalled || isHeld { return nil }
        if cursor.record < first { cursor = Key(record: first, entry: 0) }
        while cursor.record - first < records.count {
            let i = cursor.record - first
            while cursor.entry < records[i].entries.count {
                let key = cursor
                cursor = Key(record: key.record, entry: key.entry + 1)
                guard records[i].entries[key.entry].state == .held else { continue }
                records[i].entries[key.entry].state = .underWay
                underWay += 1
                return (key, records[i].entries[key.entry], records[i].place)
            }
            cursor = Key(record: cursor.record + 1, entry: 0)
        }
        return nil
    }

    /// Records that a local journal has stored an entry.
    /// - Returns: the number of its completion.
    mutating func stored(_ key: Key) -> Int? {
        let i = key.record - first
        underWay -= 1
        records[i].entries[key.entry].state = .done
        records[i].left -= 1
        defer { settle() }
        return records[i].entries[key.entry].number
    }

    /// Records that a local journal cannot store an entry now.
    /// - Returns: the number of its completion, which is not called again.
    mutating func refused(_ key: Key) -> Int? {
        let i = key.record - first
        underWay -= 1
        isStalled = true
        records[i].entries[key.entry].state = .held
        defer { records[i].entries[key.entry].number = nil }
        return records[i].entries[key.entry].number
    }

    /// Passes refused entries to the local journals again; not while one of them has not answered.
    mutating func resume() -> Bool {
        guard isStalled, underWay == 0 else { return false }
        isStalled = false
        cursor = Key(record: first, entry: 0)
        return true
    }

    private mutating func settle() {
        while let record = records.first, record.left == 0 {
            complete = record.place
            records.removeFirst()
            first += 1
        }
    }
}
