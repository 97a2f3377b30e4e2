import Dispatch
import Histogram
import Journal
import SQLiteJournal
import Synchronization

/// Writers that each wait for their own write, in front of a queue that makes one batch of all waiting writes.
final class SharedLoad: @unchecked Sendable {
    // Sendable: confined to `queue`, except the result, which is read after the end.
    private let queue = DispatchQueue(label: "vigla.bench.database")
    private let journal: SQLiteJournal
    private var sequence: UInt64
    private var inbox: Int
    private var isScheduled = false
    private var isOver = false
    private var underWay = 0
    private var result = (writes: 0, batches: 0)
    private let ended = DispatchSemaphore(value: 0)

    init(_ journal: SQLiteJournal, connections: Int, from sequence: UInt64) {
        self.journal = journal
        self.sequence = sequence
        inbox = connections
    }

    func run(seconds: Double) -> (writes: Int, batches: Int) {
        queue.async { self.drain() }
        queue.asyncAfter(deadline: .now() + seconds) { self.isOver = true }
        ended.wait()
        return result
    }

    private func drain() {
        isScheduled = false
        if isOver {
            if underWay == 0 { ended.signal() }
            return
        }
        let count = inbox
        inbox = 0
        if count == 0 { return }
        let operations = (0..<count).map { JournalBench.position(sequence &+ UInt64($0)) }
        let batch = JournalBatch(sequence: sequence + UInt64(count), after: sequence, operations: operations)
        sequence += UInt64(count)
        underWay += 1
        journal.append(batch) { _ in
            self.queue.async {
                self.underWay -= 1
                self.result.writes += count
                self.result.batches += 1
                self.inbox += count
                if !self.isScheduled {
                    self.isScheduled = true
                    self.queue.async { self.drain() }
                }
            }
        }
    }
}

/// Latencies of concurrent commits.
final class CommitLatencies: Sendable {
    private let state = Mutex((histogram: Histogram<UInt64>(), faults: 0))
    private let underWay = DispatchGroup()

    func begin() { underWay.enter() }

    func end(_ result: Result<Void, JournalError>, ns: UInt64) {
        state.withLock { state in
            if case .success = result { state.histogram.record(ns) } else { state.faults += 1 }
        }
        underWay.leave()
    }

    func whenAllEnded() throws -> Histogram<UInt64> {
        underWay.wait()
        return try state.withLock { state in
            guard state.faults == 0 else { throw BenchError.incomplete("\(state.faults) commits failed") }
            return state.histogram
        }
    }
}

/// The time of an event, once it has happened.
final class Moment: Sendable {
    private let state = Mutex<UInt64?>(nil)
    var time: UInt64? { state.withLock { $0 } }

    func raise(_ result: Result<Void, JournalError>, at time: UInt64) {
        if case .success = result { state.withLock { $0 = time } } else { print("failed: \(result)") }
    }
}
