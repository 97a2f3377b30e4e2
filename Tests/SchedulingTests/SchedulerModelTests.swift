import Dispatch
import Synchronization
import Testing
import TestSupport

@testable import Scheduling

/// The scheduler compared with a list that is sorted again for every step.
@Suite(.timeLimit(.minutes(30))) struct SchedulerModelTests {
    /// The model's entry for one piece of work.
    private struct Planned {
        let id: Int
        var due: Int64
        /// Order among those of the same time.
        var order: Int
        let every: Int64?
    }

    private final class World: Sendable {
        let clock = FakeClock()
        let queues = (0..<3).map { DispatchQueue(label: "model.\($0)") }
        let log = Mutex<[String]>([])
        let handles = Mutex<[Int: ScheduledWork]>([:])

        func done(_ id: Int) { log.withLock { $0.append("\(id) at \(clock.steadyMs)") } }
    }

    @Test(arguments: 1...40 as ClosedRange<UInt64>) func scheduler_doesWhatASortedListDoes(seed: UInt64) {
        var random = SeededRandom(seed)
        let world = World()
        var (plan, expected): ([Planned], [String]) = ([], [])
        var (made, order) = (1, 0)

        func add(_ ms: Int64, every: Bool) {
            let (id, queue) = (made, world.queues[Int.random(in: 0..<3, using: &random)])
            made += 1
            // Some work schedules more work, which is due within the same advance or after it.
            let follows = !every && id % 5 == 0
            let work: @Sendable () -> Void = { [weak world] in
                guard let world else { return }
                world.done(id)
                if follows { world.clock.scheduler.after(ms: Int64(id % 7), on: queue) { [weak world] in world?.done(-id) } }
            }
            let handle = every ? world.clock.scheduler.every(ms: ms, on: queue, work) : world.clock.scheduler.after(ms: ms, on: queue, work)
            world.handles.withLock { $0[id] = handle }
            let due = world.clock.steadyMs + max(every ? 1 : 0, ms)
            plan.append(Planned(id: id, due: due, order: order, every: every ? max(1, ms) : nil))
            order += 1
        }

        func advance(_ ms: Int64) {
            let end = world.clock.steadyMs + ms
            while let next = plan.filter({ $0.due <= end }).min(by: { ($0.due, $0.order) < ($1.due, $1.order) }) {
                plan.removeAll { $0.id == next.id && $0.order == next.order }
                expected.append("\(next.id) at \(next.due)")
                // Scheduled within the work, before an interval continues.
                if next.every == nil, next.id > 0, next.id % 5 == 0 {
                    plan.append(Planned(id: -next.id, due: next.due + Int64(next.id % 7), order: order, every: nil))
                    order += 1
                }
                if let every = next.every {
                    plan.append(Planned(id: next.id, due: next.due + every, order: order, every: every))
                    order += 1
                }
            }
            world.clock.advance(ms: ms)
        }

        for _ in 0..<600 {
            switch Int.random(in: 0..<10, using: &random) {
            case 0...4: add(Int64.random(in: -2...50, using: &random), every: false)
            case 5: if plan.count(where: { $0.every != nil }) < 6 { add(Int64.random(in: 1...30, using: &random), every: true) }
            case 6, 7:
                // Also work that is over.
                guard made > 1 else { continue }
                let id = Int.random(in: 1..<made, using: &random)
                world.handles.withLock { $0[id] }?.cancel()
                plan.removeAll { $0.id == id }
            case 8: world.clock.step(seconds: Int64.random(in: -100_000...100_000, using: &random))
            default: advance(Int64.random(in: 0...40, using: &random))
            }
            #expect(world.clock.scheduler.waiting == plan.count)
        }
        advance(100)
        #expect(world.log.withLock { $0 } == expected)
    }
}
