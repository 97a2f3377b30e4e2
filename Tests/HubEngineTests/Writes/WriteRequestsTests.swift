@testable import HubEngine
import Journal
import JSONTree
import SecurityRules
import Synchronization
import TestSupport
import Testing

/// Write requests: small ones run immediately, large ones are prepared in the background and applied to the tree at that time.
@Suite(.timeLimit(.minutes(30))) struct WriteRequestsTests {
    private static let rules = """
        {"rules":{"open":{".read":true,".write":true},"once":{".write":"!data.exists()"},"shut":{".read":"auth.uid === 'u'"},
        "if":{".write":"root.child('open/flag').val() === true"}}}
        """

    /// Writes of three places or more count as large.
    private static func bench(
        _ limits: EngineLimits = .tight, root: Node = .null, budget: Int = 1 << 30, refusals: RefusalLog? = nil
    ) throws -> Bench {
        let bench = Bench(
            root: root, rules: try RuleSet(parsing: rules), limits: limits, lanes: 1, budget: MemoryBudget(budget), refusals: refusals)
        bench.work.close()
        return bench
    }

    private static func ask(
        _ bench: Bench, _ writes: [TreeWrite], if condition: Condition? = nil, _ purpose: WriteRequest.Purpose = .write, size: Int = 0,
        by client: Client = .make()
    ) {
        let item = SubmittedRequest(.write(writes, condition: condition), of: client, size: size)
        bench.run { bench.writes.write(WriteRequest(writes, if: condition, purpose), item) }
    }

    private static func three(_ place: String, _ value: Node = 1) -> [TreeWrite] {
        ["x", "y", "z"].map { TreeWrite("\(place)/\($0)", value) }
    }

    /// Another client writes meanwhile.
    private static func other(_ bench: Bench, _ place: Path, _ value: Node) throws {
        try bench.run { _ = try bench.commits.commit([TreeWrite(place, WriteValue(value))], by: .client(.admin)) }
    }

    private static func finish(_ bench: Bench) -> [String] {
        bench.work.open()
        bench.settle()
        bench.work.close()
        return bench.finish()
    }

    @Test func smallWrite_isMadeAtOnce_largeOnesWait() throws {
        var limits = EngineLimits.tight
        limits.largeWriteBytes = 100
        limits.hashNodes = 2
        let bench = try Self.bench(limits, root: ["open": ["old": ["a": 1, "b": 2, "c": 3]]])
        Self.ask(bench, [TreeWrite("open/a", 1), TreeWrite("open/b", 1)], size: 100)
        #expect(bench.finish() == ["ok 0"] && bench.work.count == 0)
        var priority = TreeWrite("open/old", 5)
        priority.part = .priority
        let clients = (0..<4).map { _ in Client.make() }
        Self.ask(bench, Self.three("open"), by: clients[0])
        Self.ask(bench, [TreeWrite("open/c", 1)], size: 101, by: clients[1])
        Self.ask(bench, [priority], by: clients[2])
        Self.ask(bench, [TreeWrite("open/d", 1)], if: Condition("open/old", hash: "another"), by: clients[3])
        #expect(clients.allSatisfy { $0.suspendedRequest != nil } && bench.finish().isEmpty)
        #expect(Self.finish(bench).sorted() == ["error 0 datastale", "ok 0", "ok 0", "ok 0"])
        #expect(bench.context.meter.counters.prepared == 3 && bench.content.root.node(at: "open/d").isNull)
    }

    @Test func places_areLimitedForAllButAdministrators() throws {
        let bench = try Self.bench()
        func many(_ count: Int) -> [TreeWrite] { (0..<count).map { TreeWrite("open/\($0)", 1) } }
        Self.ask(bench, many(bench.context.limits.writePlaces))
        Self.ask(bench, many(bench.context.limits.writePlaces + 1))
        #expect(bench.finish() == ["error 0 too_big"])
        Self.ask(bench, many(bench.context.limits.writePlaces + 1), by: Client(lane: 0, dialect: .realtime, identity: .admin))
        #expect(Self.finish(bench) == ["ok 0", "ok 0"])
    }

    @Test func refusedLargeWrite_leavesNothing() throws {
        let refusals = RefusalLog()
        let bench = try Self.bench(refusals: refusals)
        Self.ask(bench, Self.three("shut"))
        var deep = Node.int(1)
        for _ in 0..<31 { deep = ["a": deep] }
        Self.ask(bench, Self.three("open", deep))
        #expect(Self.finish(bench).sorted() == ["error 0 failure", "error 0 permission_denied"])
        #expect(refusals.all == ["write /shut/x"], "the first that no data could allow")
        #expect(bench.content.root == .null && bench.batch.commits.isEmpty && bench.context.meter.counters.prepared == 0)
    }

    @Test func othersWrites_areTakenOver() throws {
        let bench = try Self.bench(root: ["open": ["x": 0]])
        Self.ask(bench, Self.three("open"))
        try Self.other(bench, "open/beside", 5)
        try Self.other(bench, "open/x", 6)
        #expect(Self.finish(bench) == ["ok 0"])
        #expect(bench.content.root == ["open": ["x": 1, "y": 1, "z": 1, "beside": 5]], "as if it had been made now")
        #expect(bench.context.meter.counters.preparedAgain == 0 && bench.context.meter.counters.followedPlaces == 2)
    }

    @Test func muchThatOthersWrote_isTakenOverBesideTheQueue() throws {
        let bench = try Self.bench()
        let client = Client.make()
        Self.ask(bench, Self.three("open"), by: client)
        for i in 0..<3 { try Self.other(bench, Path(["open", Key("o\(i)")]), 5) }
        bench.work.step()
        for _ in 0..<2 { bench.run {} }
        #expect(client.suspendedRequest != nil && bench.work.waiting > 0 && bench.context.meter.counters.followedPlaces == 0)
        try Self.other(bench, "open/last", 7)
        #expect(Self.finish(bench) == ["ok 0"])
        #expect(bench.content.root.child("open").childCount == 7 && bench.context.meter.counters.preparedAgain == 0)
    }

    @Test func whatItRestsOn_makesItPrepareAgain() throws {
        let bench = try Self.bench(root: ["open": ["flag": true]])
        Self.ask(bench, Self.three("if"))
        try Self.other(bench, "open/flag", 1)
        #expect(Self.finish(bench) == ["error 0 permission_denied"], "decided anew, by what is stored now")
        #expect(bench.context.meter.counters.preparedAgain == 1)
        // Other rules.
        Self.ask(bench, Self.three("open"))
        bench.run { bench.content.deploy(.denyAll) }
        #expect(Self.finish(bench) == ["error 0 permission_denied"] && bench.context.meter.counters.preparedAgain == 2)
    }

    @Test func alwaysOvertaken_isGivenUp_orMadeIfItIsNotMuchLarger() throws {
        for (count, answer) in [(4, "ok 0"), (5, "error 0 unavailable")] {
            let bench = try Self.bench(root: ["open": ["n": 0]])
            let client = Client.make()
            var writes = (0..<count).map { TreeWrite("open/\($0)", 0) }
            for i in writes.indices { writes[i].value.deferred = [.init(path: .root, target: .value, value: .increment(1))] }
            Self.ask(bench, writes, by: client)
            var (attempts, last): ([SuspendedRequest], Int64) = ([], 0)
            for round in 1...20 {
                guard let suspended = client.suspendedRequest else { break }
                if attempts.last !== suspended { attempts.append(suspended) }
                last = Int64(round)
                try Self.other(bench, "open/0", .int(last))
                bench.work.step()
                for _ in 0..<2 { bench.run {} }
            }
            #expect(attempts.count == bench.context.limits.preparations && bench.finish().contains(answer))
            #expect(bench.content.root.node(at: "open/0") == .int(count == 4 ? last + 1 : last))
            _ = Self.finish(bench)
        }
    }

    @Test func memoryOfTheProcess_bounds_whatIsPrepared() throws {
        let bytes = 1_000 + 3 * 128
        for (budget, isTaken) in [(bytes, true), (bytes - 1, false)] {
            let bench = try Self.bench(budget: budget)
            Self.ask(bench, Self.three("open"), size: 1_000)
            #expect(bench.context.budget.used == (isTaken ? bytes : 0))
            #expect(Self.finish(bench) == [isTaken ? "ok 0" : "error 0 unavailable"])
            #expect(bench.context.budget.used == 0)
        }
    }

    @Test func refusingLog_isAskedBeforeAnyWork() throws {
        let bench = try Self.bench()
        bench.run { bench.logGuard.refused(.diskFull) }
        Self.ask(bench, Self.three("open"))
        #expect(bench.finish() == ["error 0 unavailable"] && bench.work.count == 0)
    }

    @Test func comparison_isForThoseWhoMayRead() throws {
        let bench = try Self.bench(root: ["shut": 1])
        let hash = Node.int(1).hash
        Self.ask(bench, [TreeWrite("open/a", 1)], if: Condition("shut", hash: hash))
        Self.ask(bench, [TreeWrite("open/a", 1)], if: Condition("shut", hash: hash), by: .user("u"))
        #expect(bench.finish() == ["error 0 permission_denied", "ok 0"])
    }

    @Test func exchange_tellsWhatWasWritten_butNoSumToAStranger() throws {
        let bench = try Self.bench(root: ["open": ["n": 3], "once": .null])
        let client = Client(lane: 0, dialect: .rest)
        var sum = TreeWrite("open/n", 0)
        sum.value.deferred = [.init(path: .root, target: .value, value: .increment(2))]
        func outcome(_ exchange: Exchange, _ writes: [TreeWrite]) throws -> Exchanged {
            let seen = bench.run {
                bench.writes.exchange(exchange, writes, .init(.exchange(exchange), of: client))
                return bench.outbox.end(next: 1).lanes[0]
            }
            guard case .reply(_, .exchanged(let exchanged))? = seen.first else { throw NoOutcome() }
            return exchanged
        }
        let summed = try outcome(Exchange("open/n", .write([sum])), [sum])
        #expect(summed.written == [5] && summed.content == .null)
        #expect(try outcome(Exchange("open", .write([]), wantsContent: true), [TreeWrite("open/m", 1)]).content == ["n": 5, "m": 1])
        let stale = try outcome(Exchange("open/n", .write([]), ifHash: ""), [TreeWrite("open/n", 9)])
        #expect(stale.isStale && stale.content == 5 && bench.content.root.node(at: "open/n") == 5)
        var hidden = TreeWrite("once/n", 0)
        hidden.value.deferred = [.init(path: .root, target: .value, value: .increment(2))]
        #expect(try outcome(Exchange("once", .write([])), [hidden]).written == nil, "it may not be read there")
    }

    @Test func push_makesItsKey_andOnDisconnectIsKept() throws {
        let bench = try Self.bench()
        let client = Client.make()
        bench.run {
            bench.writes.push("open/list", WriteValue(1), .init(.push("open/list", WriteValue(1)), of: client))
            bench.writes.push("open/list", WriteValue(2), .init(.push("open/list", WriteValue(2)), of: client, token: 1))
        }
        let keys = bench.content.root.node(at: "open/list").children.map(\.key.string)
        #expect(bench.finish() == keys.enumerated().map { "pushed \($0) \($1)" } && keys.count == 2)
        Self.ask(bench, [TreeWrite("open/gone", 1)], .onDisconnect, by: client)
        Self.ask(bench, Self.three("open/gone"), .onDisconnect, by: .user("v"))
        #expect(Self.finish(bench) == ["ok 0", "ok 0"])
        #expect(bench.disconnects.pendingSessions.count == 2 && bench.content.root.node(at: "open/gone").isNull)
    }

    private struct NoOutcome: Error {}
}
