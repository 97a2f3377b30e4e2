import HubEngine
import Journal
import JSONTree
import SecurityRules
import Synchronization
import TestSupport

/// A database whose nodes end by time, with a journal that is replayed to start it again.
final class ExpiryHarness {
    private(set) var hub: EngineHarness
    private(set) var rules: RuleSet
    private let limits: EngineLimits
    private let refusals: (any RefusalListener)?
    private var journal = MemoryJournal()
    /// What the journal began with.
    private var base: Stored

    /// What a journal has after one of its batches.
    typealias Stored = (root: Node, written: WrittenTimes, sequence: UInt64)

    init(
        _ rules: String, root: Node = .null, written: WrittenTimes = WrittenTimes(), limits: EngineLimits = EngineLimits(),
        now: Int64 = 1_000, refusals: (any RefusalListener)? = nil
    ) throws {
        self.rules = try RuleSet(parsing: rules)
        (self.limits, self.refusals, base) = (limits, refusals, (root, written, 0))
        hub = EngineHarness(
            rules: self.rules, root: root, written: written, log: journal, limits: limits, now: now, refusals: refusals)
        settle()
    }

    /// Waits for all that is to be done at this time.
    func settle() { for _ in 0..<4 { hub.settle() } }

    func put(_ path: Path, _ value: Node) -> String {
        let client = Client.make()
        let told = hub.ask(client, .put(path, value))
        settle()
        return (told + hub.take(client)).joined(separator: "; ")
    }

    func advance(ms: Int64) {
        settle()
        hub.time.advance(ms: ms)
        settle()
    }

    func deploy(_ rules: String) throws {
        self.rules = try RuleSet(parsing: rules)
        hub.database.replace(self.rules)
        settle()
    }

    /// Batches that the journal has of this process.
    var batches: Int { boundaries.count - 1 }

    /// Another process goes on with what the journal has, a while later.
    /// - Parameter batches: those that the journal has; what came behind them is lost. nil: all.
    func restart(afterMs: Int64 = 0, keeping batches: Int? = nil) {
        settle()
        let stored = batches.map { boundaries[$0] } ?? stored
        base = stored
        journal = MemoryJournal(last: stored.sequence)
        hub = EngineHarness(
            rules: rules, root: stored.root, written: stored.written, sequence: stored.sequence, log: journal, limits: limits,
            now: hub.time.ms + afterMs, refusals: refusals)
        settle()
    }

    /// What the journal has.
    var stored: Stored { boundaries.last ?? base }

    /// What it had after each of its batches, for a process that is killed there.
    var boundaries: [Stored] {
        let states = Mutex([base])
        journal.tail(from: base.sequence) { event in
            guard case .batch(let batch) = event else { return }
            states.withLock { states in
                var state = states[states.count - 1]
                for operation in batch.operations {
                    state.root.apply(operation)
                    state.written.apply(operation)
                }
                state.sequence = batch.sequence
                states.append(state)
            }
        }.cancel()
        return states.withLock { $0 }
    }

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
