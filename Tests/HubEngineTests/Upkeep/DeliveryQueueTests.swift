import JSONTree
import TestSupport
import Testing

@testable import HubEngine

/// The order of deliveries, compared with a list that is searched as a whole.
@Suite(.timeLimit(.minutes(30))) struct DeliveryQueueTests {
    /// One list of all deliveries of a route, in order.
    private struct Model {
        struct Waiting: Equatable {
            let id: Key
            var due: Int64
            let isUrgent: Bool
        }
        var notices: [Key: Int64] = [:]
        var routes: [String: [Waiting]] = [:]
        var sending: Set<String> = []

        mutating func add(_ id: Key, _ route: String, _ due: Int64, _ isUrgent: Bool) {
            let all = routes[route] ?? []
            // Behind the last one that precedes it; a delivery that is being sent stays the first.
            let last = all.lastIndex { $0.isUrgent || !isUrgent && $0.id < id }
            let at = max(sending.contains(route) ? 1 : 0, last.map { $0 + 1 } ?? 0)
            routes[route] = all.prefix(at) + [Waiting(id: id, due: due, isUrgent: isUrgent)] + all.dropFirst(at)
        }

        func head(by now: Int64) -> (route: String, id: Key)? {
            let heads = routes.compactMap { route, all in
                sending.contains(route) || all.isEmpty || all[0].due > now ? nil : (due: all[0].due, id: all[0].id, route: route)
            }
            return heads.min { ($0.due, $0.id) < ($1.due, $1.id) }.map { ($0.route, $0.id) }
        }

        func notice(by now: Int64) -> Key? { notices.filter { $0.value <= now }.min { ($0.value, $0.key) < ($1.value, $1.key) }?.key }

        func nextDue(_ includesHeads: Bool) -> Int64? {
            let heads = routes.compactMap { sending.contains($0) ? nil : $1.first?.due }
            return (Array(notices.values) + (includesHeads ? heads : [])).min()
        }
    }

    @Test(arguments: 1...40) func queue_isAsAList(_ seed: UInt64) {
        var (random, queue, model) = (SeededRandom(seed), DeliveryQueue(), Model())
        var (now, number) = (Int64(0), 0)
        var heads: [DeliveryQueue.Head] = []
        for step in 0..<400 {
            number += 1
            // Not always ascending: dead letters that are retried are older.
            let id = Key("\(10_000 + (random.below(5) == 0 ? number - random.below(50) : number) )-\(number)")
            switch random.below(8) {
            case 0:
                let due = now + Int64(random.below(10))
                queue.addNotice(id, due: due, group: nil)
                model.notices[id] = due
            case 1...3:
                let (route, due, isUrgent) = ("r\(random.below(4))", now + Int64(random.below(10)), random.below(4) == 0)
                queue.add(id, route: route, due: due, isUrgent: isUrgent)
                model.add(id, route, due, isUrgent)
            case 4:
                let expected = model.notice(by: now)
                #expect(queue.takeNotice(by: now) == expected, "seed \(seed) step \(step)")
                if let expected { model.notices[expected] = nil }
            case 5:
                let expected = model.head(by: now)
                guard var head = queue.takeHead(by: now) else {
                    #expect(expected == nil, "seed \(seed) step \(step)")
                    break
                }
                #expect(head.route == expected?.route && head.ids[0] == expected?.id, "seed \(seed) step \(step)")
                if random.below(3) == 0 {
                    head = queue.extended(head, by: now, atMost: 3)
                    let due = model.routes[head.route, default: []].prefix(3).prefix { $0.due <= now || $0.id == head.ids[0] }
                    #expect(head.ids == due.map(\.id), "seed \(seed) step \(step)")
                }
                model.sending.insert(head.route)
                heads.append(head)
            case 6 where !heads.isEmpty:
                let head = heads.remove(at: random.below(heads.count))
                let (over, due) = (Set(head.ids.filter { _ in random.below(2) == 0 }), now + Int64(random.below(10)))
                queue.settle(head, over: over, due: due)
                model.sending.remove(head.route)
                var left = (model.routes[head.route] ?? []).filter { !over.contains($0.id) }
                for i in left.indices where head.ids.contains(left[i].id) { left[i].due = due }
                model.routes[head.route] = left.isEmpty ? nil : left
            default: now += Int64(random.below(6))
            }
            let isFull = random.below(2) == 0
            #expect(queue.nextDue(includesHeads: isFull) == model.nextDue(isFull), "seed \(seed) step \(step)")
            #expect(queue.sendingCount == heads.count)
        }
    }

    @Test func groups_areTakenAtATime() {
        var queue = DeliveryQueue()
        for (id, due) in [("1", 5), ("2", 7), ("3", 50)] as [(Key, Int64)] { queue.addNotice(id, due: due, group: "g") }
        #expect(queue.takeNotice(by: 5) == "1")
        #expect(queue.takeGroup("g", by: 10) == ["1", "2"])
        #expect(queue.takeNotice(by: 49) == nil && queue.nextDue(includesHeads: true) == 50)
        #expect(queue.takeGroup("g", by: 50) == ["3"] && queue.takeNotice(by: 100) == nil)
    }
}
