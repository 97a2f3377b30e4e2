import HubEngine
import Journal
import JSONTree
import SecurityRules
import Synchronization
import TestSupport

/// A database whose commits may owe rows, with a journal that is replayed up to any commit to start it again.
final class InboxHarness {
    /// What a journal has.
    struct Stored: Sendable {
        var root = Node.null
        var owed = OwedRows()
        var sequence: UInt64 = 0
    }

    private(set) var hub: EngineHarness
    private(set) var rules: RuleSet
    private let limits: EngineLimits
    private let refusals: (any RefusalListener)?
    private var journal = MemoryJournal()
    private var base: Stored
    /// Work beside the queue, done when it is asked for; nil for at once.
    let gate: GatedWork?

    init(
        _ rules: String, root: Node = .null, limits: EngineLimits = EngineLimits(), refusals: (any RefusalListener)? = nil,
        gate: GatedWork? = nil
    ) throws {
        self.gate = gate
        self.rules = try RuleSet(parsing: rules)
        (self.limits, self.refusals, base) = (limits, refusals, Stored(root: root))
        hub = EngineHarness(
            rules: self.rules, root: root, log: journal, limits: limits, background: gate?.work, now: 1_000, refusals: refusals)
        settle()
    }

    /// Waits for all that is to be done, and that the log has.
    func settle() {
        for _ in 0..<4 {
            hub.settle()
            while gate?.runOne() == true { hub.settle() }
        }
        var most = 10_000
        while hub.database.counters.owedRows > 0, most > 0 {
            hub.time.advance(ms: 2)
            hub.settle()
            while gate?.runOne() == true { hub.settle() }
            most -= 1
        }
    }

    func put(_ path: Path, _ value: Node, settles: Bool = true) -> String {
        let client = Client.make()
        let told = hub.ask(client, .put(path, value))
        if settles { settle() }
        return (told + hub.take(client)).joined(separator: "; ")
    }

    func deploy(_ rules: String, settles: Bool = true) throws {
        self.rules = try RuleSet(parsing: rules)
        hub.database.replace(self.rules)
        if settles { settle() }
    }

    /// The commits that the journal has, oldest first.
    var commits: [Commit] {
        let commits = Mutex<[Commit]>([])
        journal.tail(from: base.sequence) { event in
            guard case .batch(let batch) = event else { return }
            commits.withLock { $0 += batch.commits }
        }.cancel()
        return commits.withLock { $0 }
    }

    /// What the journal has, up to a number of commits.
    func stored(_ count: Int = .max) -> Stored {
        var stored = base
        for commit in commits.prefix(count) {
            for operation in commit.operations {
                stored.root.apply(operation)
                if case .owed(let change) = operation { stored.owed.apply(change, in: stored.root) }
            }
            stored.sequence = commit.sequence
        }
        return stored
    }

    /// Another process goes on with what the journal has of the first so many commits.
    /// - Parameter rules: those that it starts with; nil for the same.
    func restart(
        after count: Int = .max, rules: String? = nil, settles: Bool = true, through: (Stored) throws -> Stored = { $0 }
    ) throws {
        if let rules { self.rules = try RuleSet(parsing: rules) }
        base = try through(stored(count))
        journal = MemoryJournal(last: base.sequence)
        hub = EngineHarness(
            rules: self.rules, root: base.root, owed: base.owed, sequence: base.sequence, log: journal, limits: limits,
            background: gate?.work, now: hub.time.ms, refusals: refusals)
        if settles { settle() }
    }

    var root: Node { stored().root }
    var counters: EngineCounters { hub.database.counters }
}
