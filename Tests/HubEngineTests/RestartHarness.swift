import HubEngine
import Journal
import JSONTree
import SecurityRules
import Synchronization
import TestSupport

/// A database that does things by itself, with a journal that is replayed to start it again: as it was after any of its batches or commits.
final class RestartHarness {
    /// What a journal has.
    struct Stored: Sendable {
        var root = Node.null
        var written = WrittenTimes()
        var owed = OwedRows()
        var sequence: UInt64 = 0

        fileprivate mutating func apply(_ operations: some Sequence<JournalOperation>) {
            for operation in operations {
                root.apply(operation)
                written.apply(operation)
                if case .owed(let change) = operation { owed.apply(change, in: root) }
            }
        }
    }

    private(set) var hub: EngineHarness
    private(set) var rules: RuleSet
    private let limits: EngineLimits
    private let refusals: (any RefusalListener)?
    private var journal = MemoryJournal()
    /// What the journal began with.
    private var base: Stored
    /// Work beside the queue, done when it is asked for; nil for at once.
    let gate: GatedWork?

    init(
        _ rules: String, root: Node = .null, written: WrittenTimes = WrittenTimes(), limits: EngineLimits = EngineLimits(),
        now: Int64 = 1_000, refusals: (any RefusalListener)? = nil, gate: GatedWork? = nil
    ) throws {
        self.rules = try RuleSet(parsing: rules)
        (self.limits, self.refusals, self.gate) = (limits, refusals, gate)
        base = Stored(root: root, written: written)
        hub = Self.hub(self.rules, base, journal, limits, now, refusals, gate)
        settle()
    }

    private static func hub(
        _ rules: RuleSet, _ stored: Stored, _ journal: MemoryJournal, _ limits: EngineLimits, _ now: Int64,
        _ refusals: (any RefusalListener)?, _ gate: GatedWork?
    ) -> EngineHarness {
        EngineHarness(
            rules: rules, root: stored.root, written: stored.written, owed: stored.owed, sequence: stored.sequence, log: journal,
            limits: limits, background: gate?.work, now: now, refusals: refusals)
    }

    // MARK: What happens

    /// Waits for all that is to be done at this time. Rows that wait for the log are made a moment later.
    func settle() {
        settleNow()
        for _ in 0..<10_000 where hub.database.counters.owedRows > 0 {
            hub.time.advance(ms: 2, settled: settleNow)
            settleNow()
        }
    }

    private func settleNow() {
        var last: [Int] = []
        while true {
            for _ in 0..<2 {
                hub.settle()
                while gate?.runOne() == true { hub.settle() }
            }
            let counters = hub.database.counters
            let next = [counters.commits, hub.work.count, counters.expiringNodes, counters.owedRows]
            if next == last { return }
            last = next
        }
    }

    func put(_ path: Path, _ value: Node, settles: Bool = true) -> String {
        let client = Client.make()
        let told = hub.ask(client, .put(path, value))
        if settles { settle() }
        return (told + hub.take(client)).joined(separator: "; ")
    }

    func advance(ms: Int64) {
        settle()
        hub.time.advance(ms: ms, settled: settleNow)
        settle()
    }

    func deploy(_ rules: String, settles: Bool = true) throws {
        self.rules = try RuleSet(parsing: rules)
        hub.database.replace(self.rules)
        if settles { settle() }
    }

    // MARK: Another process

    /// Another process goes on with what the journal has, a while later.
    /// - Parameter batches: those that the journal has; what came behind them is lost. nil: all.
    func restart(afterMs: Int64 = 0, keeping batches: Int? = nil) {
        settle()
        start(with: batches.map { boundaries[$0] } ?? stored, now: hub.time.ms + afterMs)
        settle()
    }

    /// Another process goes on with what the journal has of the first so many commits.
    /// - Parameter rules: those that it starts with; nil for the same.
    func restart(
        after count: Int = .max, rules: String? = nil, settles: Bool = true, through: (Stored) throws -> Stored = { $0 }
    ) throws {
        if let rules { self.rules = try RuleSet(parsing: rules) }
        start(with: try through(stored(after: count)), now: hub.time.ms)
        if settles { settle() }
    }

    private func start(with stored: Stored, now: Int64) {
        base = stored
        journal = MemoryJournal(last: stored.sequence)
        hub = Self.hub(rules, stored, journal, limits, now, refusals, gate)
    }

    // MARK: What is stored

    private var journalled: [JournalBatch] {
        let batches = Mutex<[JournalBatch]>([])
        journal.tail(from: base.sequence) { event in
            if case .batch(let batch) = event { batches.withLock { $0.append(batch) } }
        }.cancel()
        return batches.withLock { $0 }
    }

    /// Batches that the journal has of this process.
    var batches: Int { journalled.count }
    /// Its commits, oldest first.
    var commits: [Commit] { journalled.flatMap(\.commits) }

    /// What the journal had after each of its batches, for a process that is killed there.
    var boundaries: [Stored] {
        journalled.reduce(into: [base]) { states, batch in
            var state = states[states.count - 1]
            for commit in batch.commits { state.apply(commit.operations) }
            state.sequence = batch.sequence
            states.append(state)
        }
    }

    /// What the journal has.
    var stored: Stored { stored(after: .max) }

    /// The same, of the first so many commits.
    func stored(after count: Int) -> Stored {
        commits.prefix(count).reduce(into: base) { stored, commit in
            stored.apply(commit.operations)
            stored.sequence = commit.sequence
        }
    }

    // MARK: The database

    var snapshot: JournalSnapshot {
        let found = Mutex<JournalSnapshot?>(nil)
        hub.database.journalSnapshot { snapshot in found.withLock { $0 = snapshot } }
        settle()
        return found.withLock { $0 } ?? JournalSnapshot(root: .null, sequence: 0)
    }

    var root: Node { snapshot.root }
    var counters: EngineCounters {
        settle()
        return hub.database.counters
    }
}
