@testable import HubEngine
import JSONTree
import LiveQueries
import SecurityRules
import Testing

/// Computed in the background on one tree, brought up to date on the queue, tried again a limited number of times.
@Suite(.timeLimit(.minutes(30))) struct JobTests {
    private struct Sum: Sendable {
        let value: Int64
        let steps: [String]
        let node: Node
    }

    /// Doubles the number at the root. The number may grow by one on the queue; more is computed in the background again.
    private struct It {
        let bench = Bench(root: 1)
        let seen = ReceivedBox<[String]>([])
        let isWanted = ReceivedBox(true)

        init() { bench.work.close() }

        func run(tries: Int, isOutdated: Bool = false) {
            let job = Job<Sum>(tries: tries) { [bench, seen, isWanted] last in
                guard isWanted.value else { return nil }
                let node = bench.content.root
                seen.value.append("prepare \(last.map { "\($0.value)" } ?? "-") on \(node.number)")
                return { Sum(value: node.number * 2, steps: (last?.steps ?? []) + ["\(node.number)"], node: node) }
            } use: { [bench, seen] sum in
                let missing = bench.content.root.number - sum.node.number
                if missing > 1 { return isOutdated ? .outdated : .behind(sum) }
                seen.value.append("use \(sum.value + missing * 2) of \(sum.steps)")
                return .done
            } giveUp: { [seen] last in
                seen.value.append("give up \(last.map { "\($0.value)" } ?? "-")")
            }
            bench.run { job.run(in: bench.context) }
        }

        func write(_ number: Int64) { bench.run { _ = bench.content.install(.int(number)) } }

        /// Runs the computation that waits, and what it does on the queue.
        func step() {
            bench.work.step()
            bench.run {}
        }
    }

    @Test func value_isUsed_whereLittleWasWritten() {
        let it = It()
        it.run(tries: 3)
        it.write(2)
        it.step()
        #expect(it.seen.value == ["prepare - on 1", "use 4 of [\"1\"]"])
        #expect(it.bench.work.waiting == 0)
    }

    @Test func value_isContinued_whereMuchWasWritten() {
        let it = It()
        it.run(tries: 3)
        it.write(9)
        it.step()
        it.step()
        #expect(it.seen.value == ["prepare - on 1", "prepare 2 on 9", "use 18 of [\"1\", \"9\"]"])
    }

    @Test func outdatedValue_isComputedFromScratch() {
        let it = It()
        it.run(tries: 3, isOutdated: true)
        it.write(9)
        it.step()
        it.step()
        #expect(it.seen.value == ["prepare - on 1", "prepare - on 9", "use 18 of [\"9\"]"])
    }

    @Test func job_givesUp_afterItsTries() {
        let it = It()
        it.run(tries: 2)
        for number: Int64 in [9, 20] {
            it.write(number)
            it.step()
        }
        #expect(it.seen.value == ["prepare - on 1", "prepare 2 on 9", "give up 18"])
        #expect(it.bench.work.waiting == 0)
    }

    @Test func job_ends_whereItIsNotNeededAnyMore() {
        let it = It()
        it.run(tries: 3)
        it.write(9)
        it.isWanted.value = false
        it.step()
        #expect(it.seen.value == ["prepare - on 1"] && it.bench.work.waiting == 0)
    }

    /// Points of a place that is overwritten faster than they can be collected: requests that wait for them fail, and the next one begins again.
    @Test func points_giveUp_whereThePlaceIsWrittenTooFast() throws {
        func place(_ first: Int) -> Node { .object((first..<first + 64).map { (Key("k\($0)"), ["lat": .int(1), "lng": .int(2)]) }) }
        var limits = EngineLimits()
        (limits.inlineChildren, limits.followedChanges) = (10, 5)
        let rules = try RuleSet(parsing: #"{"rules":{"q":{".geoIndex":{"lat":"lat","lng":"lng"}}}}"#)
        let bench = Bench(root: ["q": place(0)], rules: rules, limits: limits)
        bench.work.close()
        let fields = GeoFields(latitude: "lat", longitude: "lng")
        let failures = ReceivedBox<[Failure?]>([])
        func ask() -> Bool {
            bench.run {
                let queried = bench.queries.places.place(at: "q")
                if bench.queries.points.hasPoints(queried, fields, over: bench.content.root.child("q")) { return true }
                queried.waiting.append { failures.value.append($0) }
                return false
            }
        }
        #expect(!ask())
        for round in 1...10 {
            #expect(bench.work.waiting == 1 && failures.value.isEmpty)
            bench.run { _ = bench.content.install(["q": place(round * 100)]) }
            bench.work.step()
            bench.run {}
        }
        #expect(failures.value == [.changesTooFast])
        #expect(!ask())
        while bench.work.waiting > 0 {
            bench.work.step()
            bench.run {}
        }
        #expect(failures.value.count == 2 && failures.value.last == .some(nil) && ask())
    }
}

extension Node {
    fileprivate var number: Int64 { if case .int(let number) = leaf { number } else { 0 } }
}
