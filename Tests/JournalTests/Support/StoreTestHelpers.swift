import Dispatch
import GRDB
import JSONTree
import Scheduling
import Synchronization
import Testing
import TestSupport

@testable import Journal
@testable import SQLiteJournal

extension Journal {
    /// Appends and waits for the completion.
    func store(_ batch: JournalBatch) async throws {
        try await withCheckedContinuation { continuation in append(batch) { continuation.resume(returning: $0) } }.get()
    }

    func store(_ snapshot: JournalSnapshot) async throws {
        try await withCheckedContinuation { continuation in store(snapshot) { continuation.resume(returning: $0) } }.get()
    }

    /// Stores a snapshot, if there is one, and closes the journal in any case.
    func finish(_ snapshot: JournalSnapshot? = nil) async throws {
        var stored: Result<Void, JournalError> = .success(())
        if let snapshot {
            stored = await withCheckedContinuation { continuation in store(snapshot) { continuation.resume(returning: $0) } }
        }
        try await withCheckedContinuation { continuation in close { continuation.resume(returning: $0) } }.get()
        try stored.get()
    }
}

extension JournalStore {
    /// Opens with the system's clocks.
    static func open(folder: String, settings: Settings = Settings()) throws(JournalError) -> JournalStore {
        try open(folder: folder, settings: settings, scheduler: .system())
    }

    /// Holds the journal queue while `body` runs, so that everything it appends waits together.
    func holding(_ body: () -> Void) {
        let gate = DispatchSemaphore(value: 0)
        queue.async { gate.wait() }
        body()
        gate.signal()
    }

    /// Rows of a table.
    func count(_ table: String) throws -> Int {
        try connections.reader.writeWithoutTransaction { try Int.fetchOne($0, sql: "SELECT count(*) FROM \(table)") ?? 0 }
    }

    /// Closes the store, and checks that a start finds its content, as does a copy of the folder.
    func expectKept(_ root: Node, upTo sequence: UInt64, in folder: TemporaryFolder) throws {
        #expect(try brokenInvariants() == [])
        try close()
        let again = try JournalStore.open(folder: folder.path)
        #expect(try again.recover("main").root == root)
        try again.close()
        let copy = try TemporaryFolder()
        #expect(try FolderCopy.make(from: folder.path, to: copy.path + "/data").commits == ["main": sequence])
    }
}

extension JournalStore.Settings {
    /// Transactions of about 16 KiB.
    static var smallSlices: Self {
        var settings = Self()
        settings.sliceBytes = 16 << 10
        return settings
    }
}

extension DatabaseQueue {
    /// - Returns: the number of rows changed by the last statement.
    @discardableResult
    func execute(_ sql: String) throws -> Int {
        try writeWithoutTransaction { db in
            try db.execute(sql: sql)
            return db.changesCount
        }
    }
}

extension TemporaryFolder {
    /// Changes the database of a closed store directly.
    /// - Returns: the number of rows changed by the last statement.
    @discardableResult
    func change(_ sql: String) throws -> Int {
        let database = try DatabaseQueue(path: path + "/vigla.sqlite")
        defer { try? database.close() }
        return try database.execute(sql)
    }

    /// Expects that a start reports the journal of the namespace `main` as damaged.
    func expectRefused() throws {
        let store = try JournalStore.open(folder: path)
        #expect { try store.recover("main") } throws: { isCorrupt($0) && "\($0)".contains("namespace main") }
        try store.close()
    }
}

extension Node {
    /// About `kilobytes` KB of JSON, in as many children.
    static func wide(_ kilobytes: Int, seed: Int = 0) -> Node {
        let text = Text(String(repeating: "x", count: 980))
        let children = (0..<kilobytes).map { (Key("k\($0)"), ["n": .int(Int64($0 + seed)), "text": .string(text)] as Node) }
        return .object(children, priority: "wide")
    }
}

extension JournalBatch {
    /// One commit that sets `n` to its own number.
    static func small(_ sequence: UInt64) -> JournalBatch {
        JournalBatch(sequence: sequence, after: sequence - 1, operations: [.set("n", .int(Int64(sequence)))])
    }
}

/// Results in the order in which completions came.
final class Completions: Sendable {
    private let entries = Mutex<[(label: Int, result: Result<Void, JournalError>)]>([])

    func record(_ label: Int) -> @Sendable (Result<Void, JournalError>) -> Void {
        { result in self.entries.withLock { $0.append((label, result)) } }
    }

    var labels: [Int] { entries.withLock { $0.map(\.label) } }
    var results: [Result<Void, JournalError>] { entries.withLock { $0.map(\.result) } }
}

/// A writer that keeps its tree in memory.
struct Writer {
    let journal: any Journal
    var root: Node
    var sequence: UInt64
    private var random: SeededRandom
    /// The most operations per batch.
    var widest = 4

    init(_ journal: any Journal, from recovered: Recovered = Recovered(), seed: UInt64) {
        self.journal = journal
        root = recovered.root
        sequence = recovered.sequence
        random = SeededRandom(seed)
    }

    /// The next batch of random operations, already applied to the tree.
    mutating func batch() -> JournalBatch {
        let operations = (0..<Int.random(in: 0...widest, using: &random)).map { _ in operation() }
        for operation in operations { root.apply(operation) }
        let last = sequence
        sequence += UInt64.random(in: 1...3, using: &random)
        return JournalBatch(sequence: sequence, after: last, operations: operations)
    }

    mutating func write(batches: Int) async throws {
        for _ in 0..<batches { try await journal.store(batch()) }
        if let store = (journal as? SQLiteJournal)?.store { #expect(try store.brokenInvariants() == []) }
    }

    private mutating func operation() -> JournalOperation {
        let keys = ["a", "b", "10", "9", "é \"q\" \\", "😀", "-Nx0123456789abcdefg"]
        let path = Path((0..<Int.random(in: 0...4, using: &random)).map { _ in Key(keys.randomElement(using: &random) ?? "a") })
        switch Int.random(in: 0..<10, using: &random) {
        case 0: return .priority(path, leaf())
        case 1: return .priority(path, .null)
        case 2, 3: return .set(path, .null)
        case 4, 5: return .set(path, ["x": leaf(), "y": ["z": leaf().with(priority: 7)]])
        default: return .set(path, leaf().with(priority: Bool.random(using: &random) ? .null : "p"))
        }
    }

    private mutating func leaf() -> Node {
        switch Int.random(in: 0..<5, using: &random) {
        case 0: .int(Int64.random(in: .min ... .max, using: &random))
        case 1: .number(Double.random(in: -1e30...1e30, using: &random))
        case 2: .string("line\nbreak \u{0} \u{1F} \u{7F} é😀 \"\\")
        case 3: .double(.greatestFiniteMagnitude)
        default: .string("")
        }
    }
}

func isCorrupt(_ error: any Error) -> Bool { if case JournalError.corrupt = error { true } else { false } }
func isCannotOpen(_ error: any Error) -> Bool { if case JournalError.cannotOpen = error { true } else { false } }
