import DequeModule
import Journal

/// What goes to the local journals, in the order of the log, and how far they have it. A pure value.
///
///     message   41      42       43           44
///     batches   a ✓     b ✓ c …  (nothing)    a held          complete: 41
struct LocalLine {
    struct Entry {
        let namespace: String
        let batch: JournalBatch
        /// Of the completion, while it is to be called.
        var number: Int?
        fileprivate var state = State.held

        fileprivate enum State { case held, underWay, done }

        init(namespace: String, batch: JournalBatch, number: Int?) {
            (self.namespace, self.batch, self.number) = (namespace, batch, number)
        }
    }

    /// Names an entry while it is in the line.
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
    /// Entries before these are under way or done.
    private var cursor = Key(record: 0, entry: 0)
    /// All messages up to this one are applied.
    private(set) var complete: LogPlace
    /// Entries that the local journals have not answered about.
    private(set) var underWay = 0
    /// A local journal has refused: nothing more is given to any, until `resume`.
    private(set) var isStalled = false
    /// Nothing more is given to any for a moment.
    var isHeld = false

    init(complete: LogPlace) { self.complete = complete }

    /// Records that are not complete.
    var count: Int { records.count }

    mutating func add(_ entries: [Entry], at place: LogPlace) {
        records.append(Record(place: place, entries: entries, left: entries.count))
        settle()
    }

    /// A message that changes nothing; nil for a part of a record, which is complete with the whole.
    mutating func skip(to place: LogPlace?) { if let place { add([], at: place) } }

    /// The next entry for its local journal, and the message that it came with.
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

    /// A local journal has it.
    /// - Returns: the number of its completion.
    mutating func stored(_ key: Key) -> Int? {
        let i = key.record - first
        underWay -= 1
        records[i].entries[key.entry].state = .done
        records[i].left -= 1
        defer { settle() }
        return records[i].entries[key.entry].number
    }

    /// A local journal does not take it now.
    /// - Returns: the number of its completion, which is not called again.
    mutating func refused(_ key: Key) -> Int? {
        let i = key.record - first
        underWay -= 1
        isStalled = true
        records[i].entries[key.entry].state = .held
        defer { records[i].entries[key.entry].number = nil }
        return records[i].entries[key.entry].number
    }

    /// Gives what was refused to the local journals again; not while one of them has not answered.
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
