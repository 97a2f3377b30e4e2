import LiveQueries
@testable import HubEngine
import JSONTree
import SecurityRules
import Synchronization
import TestSupport
import Testing

/// Reads: answered immediately, or collected or sorted in the background while others write.
@Suite(.timeLimit(.minutes(30))) struct ReadRequestsTests {
    private static let rules = #"{"rules":{"q":{".read":true,".indexOn":["v",".value"]},"m":{".read":"auth.uid === 'u'"}}}"#

    private static func place(_ count: Int) -> Node { .object((0..<count).map { (Key("k\($0)"), .int(Int64(($0 * 7) % 10))) }) }

    private static func bench(_ limits: EngineLimits = EngineLimits(), root: Node, budget: Int = 1 << 30) throws -> Bench {
        Bench(root: root, rules: try RuleSet(parsing: rules), limits: limits, lanes: 1, budget: MemoryBudget(budget))
    }

    /// Few children are collected and sorted on the queue.
    private static func limits(inline: Int) -> EngineLimits {
        var limits = EngineLimits()
        limits.inlineChildren = inline
        return limits
    }

    private static func get(_ bench: Bench, _ path: Path, _ query: TreeQuery? = nil, _ client: Client = .make(), token: Int64 = 0) {
        bench.run { bench.reads.get(path, query.map { Query($0) }, .init(.get(path, query: query), of: client, token: token)) }
    }

    private static func write(_ bench: Bench, _ place: Path, _ value: Node) {
        bench.run { _ = try? bench.commits.commit([TreeWrite(place, WriteValue(value))], by: .client(.admin)) }
    }

    private static func expected(_ bench: Bench, _ query: TreeQuery) -> String {
        "value 0 \(QueryModelTests.scan(bench.content.root.child("q"), query).json)"
    }

    @Test func get_isPermittedAndAnswered() throws {
        let bench = try Self.bench(root: ["q": ["a": 3, "b": 1], "m": 1])
        Self.get(bench, "q/a", token: 1)
        Self.get(bench, "m", token: 2)
        Self.get(bench, "q", TreeQuery(index: .value, limit: 1, viewFrom: .first), token: 3)
        Self.get(bench, "q", TreeQuery(index: .child("x"), limit: 1), token: 4)
        Self.get(bench, "m", nil, Client(lane: 0, dialect: .realtime, identity: Identity(auth: ["uid": "u"])), token: 5)
        #expect(bench.finish() == ["value 1 3", "error 2 permission_denied", #"value 3 {"b":1}"#, "error 4 missing_index", "value 5 1"])
    }

    @Test func queryText_isLimited() throws {
        var limits = EngineLimits()
        limits.queryBytes = 10
        let bench = try Self.bench(limits, root: ["q": ["a": "0123456789"]])
        func query(_ text: String) -> TreeQuery { TreeQuery(index: .value, start: .init(value: .string(Text(text)))) }
        Self.get(bench, "q", query("0123456789"))
        Self.get(bench, "q", query("0123456789x"))
        var both = TreeQuery(index: .child("v"), start: .init(value: "0123", key: "k"), end: .init(value: "012"))
        #expect(!bench.reads.isTooLong(Query(both)), "4, 1 and 3 bytes, and 2 of the order")
        both.end = .init(value: "0123")
        #expect(bench.reads.isTooLong(Query(both)) && !bench.reads.isTooLong(nil))
        #expect(bench.finish() == [#"value 0 {"a":"0123456789"}"#, "error 0 too_big"])
    }

    @Test func muchIsCollectedBesideTheQueue_andBroughtUpToDate() throws {
        let query = TreeQuery(index: .key, limit: 20, viewFrom: .first)
        let bench = try Self.bench(Self.limits(inline: 20), root: ["q": Self.place(40)])
        Self.get(bench, "q", query)
        #expect(bench.finish() == [Self.expected(bench, query)], "as many as may be")
        let more = TreeQuery(index: .key, limit: 21, viewFrom: .first)
        bench.work.close()
        let client = Client.make()
        Self.get(bench, "q", more, client)
        #expect(client.suspendedRequest != nil && bench.finish().isEmpty)
        Self.write(bench, "q/k1", .null)
        Self.write(bench, "q/k10", 99)
        Self.write(bench, "q/A", 5)
        bench.work.open()
        bench.settle()
        #expect(client.suspendedRequest == nil)
        #expect(bench.finish().last == Self.expected(bench, more), "never older than what its client is told")
        #expect(bench.context.collected.used == 0)
    }

    @Test func largeOrder_isAwaited_andItsIndexKept() throws {
        let query = TreeQuery(index: .value, limit: 3)
        let bench = try Self.bench(Self.limits(inline: 30), root: ["q": Self.place(31)])
        bench.work.close()
        let clients = (0..<2).map { _ in Client.make() }
        for client in clients { Self.get(bench, "q", query, client) }
        #expect(clients.allSatisfy { $0.suspendedRequest != nil } && bench.work.waiting == 1, "one index for both")
        bench.work.open()
        bench.settle()
        #expect(bench.finish() == [Self.expected(bench, query), Self.expected(bench, query)])
        #expect(bench.context.meter.counters.childrenSorted == 31)
        Self.get(bench, "q", query)
        #expect(bench.finish() == [Self.expected(bench, query)] && bench.context.meter.counters.childrenSorted == 31)
    }

    @Test func orderWithoutRoom_isSortedForOneRequest() throws {
        var limits = Self.limits(inline: 30)
        limits.indexEntries = 30
        let query = TreeQuery(index: .value, start: .init(value: 5))
        let bench = try Self.bench(limits, root: ["q": Self.place(120)])
        bench.work.close()
        let client = Client.make()
        Self.get(bench, "q", query, client)
        bench.work.step()
        for _ in 0..<2 { bench.run {} }
        // Collected next; writes made meanwhile update the request's own index.
        #expect(client.suspendedRequest != nil && bench.places.existingPlace(at: "q") == nil)
        Self.write(bench, "q/k3", 0)
        Self.write(bench, "q/new", 7)
        bench.work.open()
        bench.settle()
        #expect(bench.finish() == [Self.expected(bench, query)])
        #expect(bench.context.collected.used == 0, "its index is let go of")
    }

    @Test func withoutMemory_theAnswerIsUnavailable() throws {
        let query = TreeQuery(index: .key, limit: 21, viewFrom: .first)
        let place = Self.place(40)
        let copied = TreeQuery.copiedBytes(of: query.select(from: .byKey(place.children)), in: place)
        let room = 21 * ReadRequests.bytesOfSelected + copied
        for (budget, isAnswered) in [(2 * room, true), (2 * room - 2, false)] {
            let bench = try Self.bench(Self.limits(inline: 20), root: ["q": place], budget: budget)
            Self.get(bench, "q", query)
            bench.settle()
            #expect(bench.finish() == [isAnswered ? Self.expected(bench, query) : "error 0 unavailable"])
        }
    }

    @Test func placeThatChangesTooFast_isGivenUp() throws {
        var limits = Self.limits(inline: 2)
        limits.followedChanges = 1
        let bench = try Self.bench(limits, root: ["q": Self.place(40)])
        bench.work.close()
        let client = Client.make()
        Self.get(bench, "q", TreeQuery(index: .key, limit: 30), client)
        var attempts: [SuspendedRequest] = []
        for round in 1...20 {
            guard let suspended = client.suspendedRequest else { break }
            if attempts.last !== suspended { attempts.append(suspended) }
            bench.run { _ = bench.content.install(["q": Self.place(40 + round)]) }
            bench.work.step()
            for _ in 0..<2 { bench.run {} }
        }
        #expect(attempts.count == 4, "once, and three times again")
        #expect(bench.finish() == ["error 0 unavailable"])
        bench.work.open()
        bench.settle()
    }

    @Test func parkedRead_isPermittedAgain_andForNobodyIfItsClientIsGone() throws {
        let query = TreeQuery(index: .key, limit: 30)
        let bench = try Self.bench(Self.limits(inline: 2), root: ["q": Self.place(40)])
        let (client, gone) = (Client.make(), Client.make())
        bench.work.close()
        Self.get(bench, "q", query, client)
        Self.get(bench, "q", query, gone)
        gone.isGone.store(true, ordering: .relaxed)
        bench.run { bench.content.deploy(.denyAll) }
        bench.work.open()
        bench.settle()
        #expect(bench.finish() == ["error 0 permission_denied"])
    }

    @Test func work_isCountedByWhatAQuerySelects() throws {
        let bench = try Self.bench(root: ["q": Self.place(100)])
        let before = bench.context.meter.work
        Self.get(bench, "q", TreeQuery(index: .key, limit: 2 * RequestCost.childrenForWork))
        #expect(bench.context.meter.work - before == 2)
        _ = bench.finish()
    }
}
