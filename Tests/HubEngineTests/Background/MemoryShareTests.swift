import Dispatch
import JSONTree
import Testing
@testable import HubEngine

/// One budget for the process, shares of it, and leases of shares.
@Suite(.timeLimit(.minutes(30))) struct MemoryShareTests {
    private let step = MemoryLease.stepBytes

    @Test func share_hasItsPart_andTheBudgetItsLimit() {
        let budget = MemoryBudget(100)
        let (a, b) = (MemoryShare(of: budget, limit: 60), MemoryShare(of: budget, limit: 60))
        #expect(a.reserve(60, for: .incoming) == nil)
        #expect(a.reserve(1, for: .incoming) == .share)
        #expect(b.reserve(40, for: .parsing) == nil)
        #expect(b.reserve(1, for: .parsing) == .process)
        #expect(budget.used == 100 && budget.used(for: .incoming) == 60 && budget.used(for: .parsing) == 40)
        #expect(budget.refusals == 1 && budget.shareRefusals == 1)
        a.release(60, from: .incoming)
        #expect(b.reserve(20, for: .parsing) == nil)
        #expect(a.used == 0 && b.used == 60 && budget.used == 60)
    }

    @Test func lease_goesInSteps_andGivesBackWhatItHolds() {
        let budget = MemoryBudget(10 * step)
        let share = MemoryShare(of: budget)
        do {
            let lease = MemoryLease(share, for: .answers)
            #expect(lease.become(1) && lease.bytes == step)
            #expect(lease.become(step) && lease.bytes == step)
            #expect(lease.become(step + 1) && lease.bytes == 2 * step)
            // One step of slack stays.
            #expect(lease.become(step) && lease.bytes == 2 * step)
            #expect(lease.become(10 * step) && lease.bytes == 10 * step)
            #expect(!lease.become(10 * step + 1) && lease.bytes == 10 * step && lease.refusal == .process)
            #expect(lease.become(0) && lease.bytes == 0)
            #expect(lease.grow(by: 7) && lease.bytes == 7)
            lease.shrink(to: 3)
            #expect(budget.used(for: .answers) == 3)
        }
        #expect(budget.used == 0 && share.used == 0)
    }

    @Test func oldContent_hasHalfOfTheBudget_theRestHasAll() {
        let budget = MemoryBudget(100)
        #expect(budget.reserve(50, for: .pinned))
        #expect(!budget.reserve(1, for: .pinned))
        #expect(budget.reserve(50, for: .parsing))
        budget.release(50, from: .pinned)
        #expect(budget.reserve(50, for: .incoming), "others may have that half, too")
    }

    @Test func note_countsInItsShareAlone() {
        let budget = MemoryBudget(100)
        let share = MemoryShare(of: budget, limit: 60)
        var charge = share.chargeAlone(40)
        #expect(charge != nil && share.used == 40 && budget.used == 0)
        #expect(share.chargeAlone(21) == nil && share.used == 40 && budget.shareRefusals == 1)
        #expect(share.reserve(21, for: .incoming) == .share)
        charge = nil
        #expect(charge == nil && share.used == 0)
    }

    @Test func request_holdsItsLease_untilItIsDurable() throws {
        let budget = MemoryBudget(1 << 20)
        let world = EngineHarness()
        let client = Client(lane: 0, dialect: .realtime)
        let gate = DispatchSemaphore(value: 0)
        world.database.queue.async { gate.wait() }
        do {
            let lease = MemoryLease(MemoryShare(of: budget), for: .parsing)
            #expect(lease.grow(by: 1000))
            world.database.submit(.write([TreeWrite("a", WriteValue(1))]), from: client, size: 1000, hold: lease)
        }
        #expect(budget.used == 1000)
        gate.signal()
        world.database.queue.sync {}
        world.database.queue.sync {}
        #expect(budget.used == 0)
    }

    @Test func fall_isTaken_onceForEachTime_thatMuchWasGivenBack() {
        let budget = MemoryBudget(1 << 20)
        _ = budget.reserve(300_000, for: .incoming)
        budget.release(100_000, from: .incoming)
        #expect(!budget.takeFall(over: 100_000), "not more than that")
        budget.release(1, from: .incoming)
        #expect(budget.takeFall(over: 100_000))
        #expect(!budget.takeFall(over: 100_000), "it was told")
        // Reserving and releasing below the peak does not count as another fall.
        for _ in 0..<10 {
            _ = budget.reserve(100_000, for: .answers)
            budget.release(100_000, from: .answers)
            #expect(!budget.takeFall(over: 100_000))
        }
        budget.release(199_999, from: .incoming)
        #expect(budget.takeFall(over: 100_000))
        #expect(budget.used == 0)
    }
}
