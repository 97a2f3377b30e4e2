import HubEngine
import Journal
import JSONTree
import SecurityRules
import Synchronization
import TestSupport

/// A database that writes by itself, with a journal that can be replayed to restart it in the state after any of its batches or commits.
final class RestartHarness {
    /// The state that a journal holds.
    @dynamicMemberLookup
    struct Stored: Sendable {
        var root = Node.null
        var beside = StateBesideTree()
        var sequence: UInt64 = 0

        subscript<Part>(dynamicMember part: WritableKeyPath<StateBesideTree, Part>) -> Part {
            get { beside[keyPath: part] }
            set { beside[keyPath: part] = newValue }
        }

        fileprivate mutating func apply(_ operations: some Sequence<JournalOperation>) {
            for operation in operations {
                root.apply(operation)
                beside.apply(operation, in: root)
            }
        }
    }

    private(set) var hub: EngineHarness
    private(set) var rules: RuleSet
    private let limits: EngineLimits
    private let refusals: (any RefusalListener)?
    private var journal = MemoryJournal()
    private let sender: TestSender?
    /// The journal's initial state.
    private var base: Stored
    /// Background work, run on the test's command; nil to run it immediately.
    let gate: GatedWork?

    init(
        _ rules: String, root: Node = .null, written: WrittenTimes = WrittenTimes(), limits: EngineLimits = EngineLimits(),
        now: Int64 = 1_000, refusals: (any RefusalListener)? = nil, gate: GatedWork? = nil, sender: TestSender? = nil
    ) throws {
        self.rules = try RuleSet(parsing: rules)
        (self.limits, self.refusals, self.gate, self.sender) = (limits, refusals, gate, sender)
        base = Stored(root: root)
        base.written = written
        hub = Self.hub(self.rules, base, journal, limits, now, refusals, gate, sender)
        settle()
    }

    private static func hub(
        _ rules: RuleSet, _ stored: Stored, _ journal: MemoryJournal, _ limits: EngineLimits, _ now: Int64,
        _ refusals: (any RefusalListener)?, _ gate: GatedWork?, _ sender: TestSender?
    ) -> EngineHarness {
        EngineHarness(
            rules: rules, root: stored.root, beside: stored.beside, sequence: stored.sequence, log: journal,
            limits: limits, background: gate?.work, now: now, refusals: refusals, sender: sender)
    }

    // MARK: Operations

    /// Waits for all work that is due now. Rows that wait for the log are written a moment later.
    func settle() {
        settleNow()
        var tries = 0
        // Counters are counted again after a pause.
        while tries < 10_000, hub.database.counters.owedRows > 0 || isCounting {
            hub.time.advance(ms: 2, settled: settleNow)
            settleNow()
            tries += 1
        }
    }

    private var isCounting: Bool {
        let pending = Mutex(false)
        hub.database.whenDerived(waitMs: 0) { report in pending.withLock { $0 = report.pending.contains(.counters) } }
        hub.settle()
        return pending.withLock { $0 }
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

    // MARK: Restart

    /// Restarts from the journal after some time.
    /// - Parameter batches: how many batches the journal keeps; later ones are lost. nil: all.
    func restart(afterMs: Int64 = 0, keeping batches: Int? = nil) {
        settle()
        start(with: batches.map { boundaries[$0] } ?? stored, now: hub.time.ms + afterMs)
        settle()
    }

    /// Restarts from the first `count` commits of the journal.
    /// - Parameter rules: the rules at the start; nil for the same.
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
        hub = Self.hub(rules, stored, journal, limits, now, refusals, gate, sender)
    }

    // MARK: Journal content

    private var journalled: [JournalBatch] {
        let batches = Mutex<[JournalBatch]>([])
        journal.tail(from: base.sequence) { event in
            if case .batch(let batch) = event { batches.withLock { $0.append(batch) } }
        }.cancel()
        return batches.withLock { $0 }
    }

    /// The number of this process's batches in the journal.
    var batches: Int { journalled.count }
    /// Its commits, oldest first.
    var commits: [Commit] { journalled.flatMap(\.commits) }

    /// The journal's state after each of its batches, for a process that is killed there.
    var boundaries: [Stored] {
        journalled.reduce(into: [base]) { states, batch in
            var state = states[states.count - 1]
            for commit in batch.commits { state.apply(commit.operations) }
            state.sequence = batch.sequence
            states.append(state)
        }
    }

    /// The journal's state.
    var stored: Stored { stored(after: .max) }

    /// The journal's state after its first `count` commits.
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
