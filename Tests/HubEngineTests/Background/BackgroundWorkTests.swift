import Dispatch
import JSONTree
import Synchronization
import Testing
@testable import HubEngine

/// Which work runs in the background, and the order in which it runs.
@Suite(.timeLimit(.minutes(30))) struct BackgroundWorkTests {
    private static let wait = DispatchTimeInterval.seconds(20)

    @Test func preparations_leaveAThread_andDoNotTouchEncoding() {
        let work = BackgroundWork.threads(3)
        let (gate, began, done) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        let count = Atomic<Int>(0)
        for _ in 0..<5 {
            work.run(.preparation) {
                count.add(1, ordering: .relaxed)
                began.signal()
                gate.wait()
                done.signal()
            }
        }
        for _ in 0..<2 { #expect(began.wait(timeout: .now() + Self.wait) == .success) }
        for kind in [BackgroundWork.Kind.upkeep, .encoding] {
            for _ in 0..<10 { work.run(kind) { done.signal() } }
            for _ in 0..<10 { #expect(done.wait(timeout: .now() + Self.wait) == .success, "nothing waits behind preparations") }
        }
        #expect(count.load(ordering: .relaxed) == 2)
        for _ in 0..<5 { gate.signal() }
        for _ in 0..<5 { #expect(done.wait(timeout: .now() + Self.wait) == .success) }
    }

    @Test func work_beginsInTheOrderOfArrival_whateverItIsFor() {
        let work = BackgroundWork.threads(2)
        let (gate, done) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        let log = Mutex<[Int]>([])
        // Both threads are busy; one continues.
        work.run(.upkeep) { gate.wait() }
        work.run(.upkeep) { gate.wait() }
        for i in 0..<6 {
            work.run(i % 2 == 0 ? .preparation : .upkeep) {
                log.withLock { $0.append(i) }
                if i == 5 { done.signal() }
            }
        }
        gate.signal()
        #expect(done.wait(timeout: .now() + Self.wait) == .success)
        gate.signal()
        #expect(log.withLock { $0 } == [0, 1, 2, 3, 4, 5])
    }

    @Test func oneUser_leavesThreads_toThePreparationsOfOthers() {
        #expect(EngineLimits().preparationsOfUser < BackgroundWork.leastThreads - 1)
    }

    @Test func database_saysWhatItsWorkIsFor() throws {
        let kinds = Mutex<[BackgroundWork.Kind]>([])
        let gate = GatedWork()
        let work = BackgroundWork { kind, job in
            kinds.withLock { $0.append(kind) }
            gate.work.run(kind, job)
        }
        var limits = EngineLimits()
        (limits.inlineBytes, limits.largeWritePlaces) = (100, 2)
        let hub = EngineHarness(root: ["a": .string(String(repeating: "x", count: 200))], limits: limits, background: work)
        _ = hub.ask(.make(), .merge(["b/x": 1, "b/y": 2, "b/z": 3]))
        _ = hub.ask(.make(), .get("a"))
        #expect(kinds.withLock { $0 } == [.preparation, .encoding])
        while gate.runOne() { hub.settle() }
        #expect(kinds.withLock { $0.dropFirst(2).allSatisfy { $0 != .preparation } })
    }
}
