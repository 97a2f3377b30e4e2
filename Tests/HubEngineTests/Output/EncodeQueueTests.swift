import Glibc
import Testing
@testable import HubEngine

/// In which order large values are encoded.
@Suite(.timeLimit(.minutes(30))) struct EncodeQueueTests {
    private let gate = GatedWork()

    /// An item that needs three times its bytes while it is encoded.
    private func add(_ bytes: Int, isHeavy: Bool = false, to line: EncodeQueue) -> DeferredBytes {
        let target = DeferredBytes(1)
        line.add(target, isHeavy: { _ in isHeavy }) { _ in
            .make(reserving: bytes * 3) { DeferredBytes.Outcome([UInt8](repeating: 0, count: bytes)) }
        }
        return target
    }

    private func finish() { while gate.runOne() {} }

    @Test func lineThatHoldsNothing_encodesItsNextJob_whateverOthersHold() {
        let budget = MemoryBudget(1000)
        let line = EncodeQueue(gate.work, budget)
        #expect(budget.reserve(1000, for: .incoming))
        var first: DeferredBytes? = add(100, to: line)
        let second = add(100, to: line)
        finish()
        #expect(first?.outcome?.bytes.count == 100 && second.outcome == nil)
        #expect(budget.used == 1100 && !budget.reserve(1, for: .incoming))
        first = nil
        finish()
        #expect(second.outcome?.bytes.count == 100 && budget.used == 1100)
    }

    @Test(arguments: [(100, true), (101, false)]) func lineThatHoldsSomething_waits_forWhatTheBudgetLacks(bytes: Int, isMade: Bool) {
        let budget = MemoryBudget(1000)
        let line = EncodeQueue(gate.work, budget)
        #expect(budget.reserve(600, for: .incoming))
        let first = add(100, to: line)
        let second = add(bytes, to: line)
        finish()
        #expect(first.outcome != nil && (second.outcome != nil) == isMade)
    }

    @Test func blockedJob_isTriedOnce_forEachThatIsGivenBack() {
        let budget = MemoryBudget(1000)
        let line = EncodeQueue(gate.work, budget)
        var done = (0..<5).map { _ in add(50, to: line) }
        finish()
        #expect(done.allSatisfy { $0.outcome != nil })
        let blocked = add(130, to: line)
        finish()
        // Longer than the old retry interval, so that a retry by the clock would show.
        usleep(50_000)
        for held in [250, 200, 150] {
            #expect(gate.count == 0 && blocked.outcome == nil && budget.used(for: .answers) == held)
            done.removeLast()
            #expect(gate.count == 1)
            finish()
        }
        #expect(blocked.outcome != nil && budget.used(for: .answers) == 100 + 130)
        usleep(50_000)
        #expect(gate.count == 0)
    }

    @Test func jobWhoseClientsAreGone_letsTheNextOneGo() {
        let budget = MemoryBudget(1000)
        let line = EncodeQueue(gate.work, budget)
        var first: DeferredBytes? = add(150, to: line)
        var lost: DeferredBytes? = add(150, to: line)
        let next = add(150, to: line)
        finish()
        #expect(first?.outcome != nil && lost?.outcome == nil)
        lost = nil
        first = nil
        finish()
        #expect(next.outcome != nil && budget.used(for: .answers) == 150)
    }

    @Test func heavyJob_thatWaits_isPassedByOthers() {
        let budget = MemoryBudget(1000)
        let line = EncodeQueue(gate.work, budget, heavier: EncodeQueue(gate.work, budget))
        var heavy = (0..<2).map { _ in add(200, isHeavy: true, to: line) }
        let light = add(50, to: line)
        finish()
        #expect(heavy[0].outcome != nil && heavy[1].outcome == nil && light.outcome != nil)
        heavy.removeFirst()
        finish()
        #expect(heavy[0].outcome != nil)
    }
}
