import JSONTree
import Synchronization
import Testing
import TestSupport

@testable import ClusterJournal
@testable import Journal

/// A hub's decisions on the servers' answers.
@Suite(.timeLimit(.minutes(30))) struct DecisionTests {
    // MARK: One append

    @Test func append_acknowledgedAtItsPlace_isStored() {
        var attempts = AppendAttempts(after: 4)
        #expect(attempts.receive(.acknowledged(sequence: 5, isDuplicate: false)) == .done(.stored(sequence: 5)))
        #expect(attempts.receive(.acknowledged(sequence: 5, isDuplicate: true)) == .done(.duplicate(sequence: 5)))
        guard case .done(.unknown) = attempts.receive(.acknowledged(sequence: 6, isDuplicate: true)) else {
            Issue.record("a message in another place is not this one")
            return
        }
    }

    @Test func append_refusedForItsPlace_isAConflict() {
        for last in [0, 3, 9] as [UInt64] {
            var attempts = AppendAttempts(after: 4)
            #expect(attempts.receive(.wrongSequence(last: last)) == .done(.conflict(last: last)))
        }
    }

    /// The place may be taken by this very message.
    @Test func append_refusedForItsPlace_behindAnAttemptWithoutAnswer_looksWhoHasIt() {
        var attempts = AppendAttempts(after: 4)
        #expect(attempts.receive(.unanswered("silence")) == .tryAgain)
        #expect(attempts.receive(.wrongSequence(last: 7)) == .look)
        #expect(attempts.receive(.we) == .done(.duplicate(sequence: 5)))
        #expect(attempts.receive(.another) == .done(.conflict(last: 7)))
        #expect(attempts.receive(.notKnown) == .tryAgain)
        // The log is shorter, so this message is not in it.
        #expect(attempts.receive(.wrongSequence(last: 3)) == .done(.conflict(last: 3)))
    }

    @Test func append_outOfTime_isUnknownOnlyIfItWasSent() {
        var attempts = AppendAttempts(after: 4)
        #expect(attempts.receive(.unreachable("no leader")) == .tryAgain)
        #expect(attempts.outOfTime == .unavailable("no leader"))
        _ = attempts.receive(.unanswered("silence"))
        _ = attempts.receive(.unreachable("gone"))
        #expect(attempts.outOfTime == .unknown("gone"))
        #expect(attempts.receive(.refused("too large")) == .done(.unknown("too large")))
        var other = AppendAttempts(after: 0)
        #expect(other.receive(.refused("too large")) == .done(.unavailable("too large")))
    }

    // MARK: The log

    private func state(
        _ created: Int64, first: UInt64 = 1, last: UInt64, id: UInt64? = nil
    ) -> Result<ShardLog.State, ShardLog.StateFault> {
        .success(ShardLog.State(created: created, first: first, last: last, id: id))
    }

    @Test func log_thatHoldsWhatWasFollowed_isSound() {
        var inspection = LogVerifier(patienceMs: 0)
        func look(_ found: Result<ShardLog.State, ShardLog.StateFault>, created: Int64, _ newest: LogPlace) -> LogVerifier.Finding {
            inspection.receive(found, created: created, newest: newest, nowMs: 0)
        }
        let newest = LogPlace(sequence: 5, id: 50)
        #expect(look(state(1, last: 5, id: 50), created: 1, newest) == .isSound)
        #expect(look(state(1, first: 6, last: 9), created: 1, newest) == .isSound)
        #expect(look(state(1, last: 0), created: 0, LogPlace()) == .isSound)
        #expect(look(.failure(.unreachable("x")), created: 1, newest) == .isOpen)
    }

    /// Only after three checks in a row; that it is shorter, only after some time.
    @Test func log_thatIsAnother_isSaidToBe_afterThreeLooksOrSomeTime() {
        let newest = LogPlace(sequence: 5, id: 50)
        let faults = [
            (state(2, last: 5, id: 50), "anew", false), (state(1, last: 4), "ends with message 4", true),
            (state(1, last: 9, id: 51), "another", false),
            (.failure(.missing), "no such log", true),
        ]
        for (fault, text, mayPass) in faults {
            var inspection = LogVerifier(patienceMs: 1000)
            func look(_ found: Result<ShardLog.State, ShardLog.StateFault>, at nowMs: Int64) -> LogVerifier.Finding {
                inspection.receive(found, created: 1, newest: newest, nowMs: nowMs)
            }
            for i in 0..<2 { #expect(look(fault, at: Int64(i)) == .isOpen) }
            #expect(look(state(1, last: 5, id: 50), at: 10) == .isSound)
            for i in 0..<2 { #expect(look(fault, at: 2000 + Int64(i)) == .isOpen) }
            if mayPass { #expect(look(fault, at: 2999) == .isOpen) }
            guard case .isAnother(let reason) = look(fault, at: mayPass ? 3000 : 2002) else {
                Issue.record("not noticed: \(text)")
                continue
            }
            #expect(reason.contains(text))
        }
    }

    // MARK: The local copy

    private func entry(_ namespace: String, _ number: Int?) -> LocalApplyQueue.Entry {
        LocalApplyQueue.Entry(namespace: namespace, batch: RecordTests.batch(1, after: 0), number: number)
    }

    private func place(_ sequence: UInt64) -> LogPlace { LogPlace(sequence: sequence, id: sequence * 10) }

    @Test func line_isCompleteUpToTheFirstThatIsNotStored() throws {
        var line = LocalApplyQueue(complete: place(3))
        line.add([entry("a", 1), entry("b", nil)], at: place(4))
        line.skip(to: nil)
        line.skip(to: place(6))
        line.add([entry("a", 2)], at: place(7))
        let keys = (0..<3).compactMap { _ in line.next()?.key }
        try #require(keys.count == 3)
        #expect(line.next() == nil && line.underWay == 3 && line.complete == place(3))
        #expect(line.stored(keys[2]) == 2 && line.complete == place(3))
        #expect(line.stored(keys[0]) == 1 && line.complete == place(3))
        #expect(line.stored(keys[1]) == nil && line.complete == place(7) && line.count == 0)
        line.skip(to: place(8))
        #expect(line.complete == place(8))
    }

    @Test func line_thatIsRefused_waitsAndGivesTheSameAgainInOrder() throws {
        var line = LocalApplyQueue(complete: place(0))
        for i in UInt64(1)...3 { line.add([entry("n\(i)", Int(i))], at: place(i)) }
        let keys = (0..<3).compactMap { _ in line.next()?.key }
        try #require(keys.count == 3)
        #expect(line.stored(keys[0]) == 1)
        #expect(line.refused(keys[1]) == 2 && line.isStalled && !line.resume())
        #expect(line.stored(keys[2]) == 3)
        line.add([entry("n4", 4)], at: place(4))
        #expect(line.next() == nil && line.complete == place(1))
        let goesOn = line.resume()
        #expect(goesOn)
        let next = line.next()
        let again = try #require(next)
        #expect(again.entry.namespace == "n2" && again.entry.number == nil)
        #expect(line.next()?.entry.namespace == "n4" && line.next() == nil)
        #expect(line.stored(again.key) == nil && line.complete == place(3))
    }

    @Test func completions_areCalledInOrder_onceEach() {
        let called = Mutex<[String]>([])
        var line = OrderedCompletions()
        let numbers = (0..<3).map { i in
            line.add { result in called.withLock { $0.append("\(i)\((try? result.get()) == nil ? "-" : "+")") } }
        }
        #expect(line.decide(numbers[2], .success(())).isEmpty && line.decide(numbers[1], .failure(.closed)).isEmpty)
        #expect(line.decide(numbers[1], .success(())).isEmpty)
        for call in line.decide(numbers[0], .success(())) { call() }
        #expect(called.withLock { $0 } == ["0+", "1-", "2+"] && line.decide(numbers[0], .success(())).isEmpty)
    }

    @Test func namespaces_haveTheirShard_onEveryHub() {
        #expect(LocalJournals.shard(of: "default", among: 16) == LocalJournals.shard(of: "default", among: 16))
        #expect(Set((0..<200).map { LocalJournals.shard(of: "ns\($0)", among: 16) }) == Set(0..<16))
    }
}
