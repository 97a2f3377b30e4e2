import LiveQueries
@testable import HubEngine
import JSONTree
import Synchronization
import Testing

/// Large values are encoded in the background: no other client waits for them, and each client's order is kept.
@Suite(.timeLimit(.minutes(30))) struct LargeAnswerTests {
    private static let bound = 100

    private func limits(_ change: (inout EngineLimits) -> Void = { _ in }) -> EngineLimits {
        var limits = EngineLimits()
        limits.inlineBytes = Self.bound
        change(&limits)
        return limits
    }

    /// A string whose JSON has this many bytes.
    private func text(_ bytes: Int, _ letter: String = "x") -> Node { .string(String(repeating: letter, count: bytes - 2)) }

    private func object(_ letter: String = "x") -> Node { ["p": text(200, letter)] }

    // MARK: The bound

    @Test(arguments: [(0, false), (1, true)]) func answer_overTheBound_isEncodedBesideTheQueue(over: Int, isLate: Bool) {
        let work = TestWork()
        let hub = EngineHarness(root: ["a": text(Self.bound + over), "b": 1], limits: limits(), work: work)
        let (client, other) = (Client.make(), Client.make())
        work.close()
        #expect(hub.ask(client, .get("a")).isEmpty == isLate)
        #expect(work.count == (isLate ? 1 : 0))
        #expect(hub.ask(other, .get("b"), .put("b", 2)) == ["value 0 1", "ok 1"], "nobody else waits")
        work.open()
        let answer = "value 0 \(text(Self.bound + over).json)"
        #expect(hub.take(client) == (isLate ? [answer, "probe"] : []))
    }

    @Test func deliveriesBehindALargeOne_keepTheirOrder_andRequestsWaitUntilItIsTaken() {
        let work = TestWork()
        let hub = EngineHarness(root: ["a": object()], limits: limits(), work: work)
        let (client, writer) = (Client.make(), Client.make(lane: 1))
        _ = hub.ask(client, .listen("b"))
        work.close()
        _ = hub.ask(client, .get("a"))
        _ = hub.ask(writer, .put("b", 1))
        _ = hub.ask(client, .put("c", 1))
        #expect(hub.ask(writer, .put("b", 2), .get("c")) == ["ok 0", "value 1 null"])
        #expect(hub.take(client) == [])
        work.open()
        #expect(hub.take(client) == ["value 0 \(object().json)", "probe", "d b 1", "d b 2"])
        #expect(hub.ask(client, .drained) == ["ok 0"])
    }

    @Test func firstContent_comesWithItsAnswer_inTheOrderOfItsProtocol() {
        for (style, isDataFirst) in [
            (ObserverStyle.patches(tag: nil), true), (.events(id: 4, kinds: .value), false), (.events(id: 4, kinds: .children), false),
        ] {
            let hub = EngineHarness(root: ["a": object()], limits: limits())
            let client = Client.make()
            let told = hub.ask(client, .observe("a", style: style, hash: ""))
            #expect(told.count == 2 && told.last == "probe")
            #expect(told.first?.hasSuffix("ok 0") == isDataFirst && told.first?.hasPrefix("ok 0") == !isDataFirst)
            #expect(hub.ask(client, .drained) == [])
            #expect(hub.ask(.make(), .put("a/q", 1)) == ["ok 0"])
            #expect(hub.take(client).isEmpty == false)
        }
    }

    @Test func stream_isAccepted_withItsFirstContent() {
        let hub = EngineHarness(root: ["a": object()], limits: limits())
        let client = Client(lane: 0, dialect: .rest)
        let told = hub.ask(client, .observe("a", style: .stream(.plain), hash: ""))
        #expect(told.count == 3 && told[0].hasPrefix("observing") && told[1] == "d a \(object().json)" && told[2] == "probe")
    }

    // MARK: Too big, or nothing to say

    @Test(arguments: [(0, false), (1, true)]) func read_overItsLimit_isTooBig_withoutBeingEncoded(over: Int, isTooBig: Bool) {
        let format = CountingFormat()
        let root: Node = ["a": text(300 + over)]
        let hub = EngineHarness(root: root, limits: limits { $0.readBytes = 300 }, format: format)
        let (client, observer) = (Client.make(), Client.make())
        #expect(hub.ask(client, .get("a")).first?.hasPrefix("error 0 too_big") == isTooBig)
        #expect(hub.ask(observer, .listen("a")).first?.hasPrefix("error 0 too_big") == isTooBig)
        #expect(format.counts == (isTooBig ? CountingFormat.Counts() : .init(values: 1, initials: 1)))
        _ = hub.ask(observer, .drained)
        _ = hub.ask(.make(), .put("a", 1))
        #expect(hub.take(observer) == (isTooBig ? [] : ["d a 1"]), "who was refused observes nothing")
        #expect(hub.ask(client, .drained, .get("a")) == ["value 1 1"])
    }

    @Test func change_overTheLimit_endsTheObserver() {
        let hub = EngineHarness(limits: limits { $0.readBytes = 300 })
        let (client, writer) = (Client.make(), Client.make())
        _ = hub.ask(client, .events("a", .value))
        _ = hub.ask(writer, .put("a/x", text(200)))
        #expect(hub.take(client).first?.hasPrefix("value 1") == true)
        _ = hub.ask(client, .drained)
        #expect(hub.ask(writer, .put("a/y", text(200))) == ["ok 0"])
        #expect(hub.take(client) == ["too large", "probe"])
    }

    @Test func listenWithAHash_isCompared_besideTheQueue() {
        for isEqual in [true, false] {
            let work = TestWork()
            let format = CountingFormat()
            let root: Node = ["a": object()]
            let hub = EngineHarness(root: root, limits: limits(), work: work, format: format)
            let client = Client.make()
            work.close()
            let hash = isEqual ? object().hash : object("y").hash
            #expect(hub.ask(client, .listen("a", hash: hash)) == [])
            #expect(!root.child("a").isHashed(within: 0), "not on the queue")
            work.open()
            #expect(hub.take(client) == [isEqual ? "ok 0" : "d a \(object().json)ok 0", "probe"])
            #expect(format.counts.initials == (isEqual ? 0 : 1))
        }
    }

    // MARK: Changes

    @Test func observers_shareOneEncoding_whateverTheirLaneOrId() {
        let format = CountingFormat()
        let hub = EngineHarness(limits: limits(), format: format)
        let same = [Client.make(), Client.make(lane: 1), Client.make()]
        let ids = [Client.make(), Client.make(lane: 1)]
        for client in same { _ = hub.ask(client, .listen("a")) }
        for (i, client) in ids.enumerated() { _ = hub.ask(client, .events("a", id: Int64(i), .value)) }
        format.reset()
        #expect(hub.ask(.make(), .put("a/x", text(200))) == ["ok 0"])
        for client in same { #expect(hub.take(client) == ["d a/x \(text(200).json)", "probe"]) }
        for (i, client) in ids.enumerated() { #expect(hub.take(client) == ["value \(i) {\"x\":\(text(200).json)}", "probe"]) }
        #expect(format.counts.frames == 3, "one for all listens, one for each id")
        #expect(format.counts.changes == 1, "the queue writes nothing, and beside it one is encoded")
    }

    @Test func listensAboveALargeWrite_shareItsFrames() {
        let format = CountingFormat()
        let hub = EngineHarness(limits: limits(), format: format)
        let clients = [Client.make(), Client.make(), Client.make(lane: 1)]
        for (client, path) in zip(clients, [.root, "a", "a/b"] as [Path]) { _ = hub.ask(client, .listen(path)) }
        format.reset()
        _ = hub.ask(.make(), .put("a/b/c", object()))
        for client in clients { #expect(hub.take(client) == ["d a/b/c \(object().json)", "probe"]) }
        #expect(format.counts.frames == 1)
    }

    @Test func valueObserver_isToldTheNewestState_onceItHasTakenTheOneBefore() {
        let work = TestWork()
        let format = CountingFormat()
        let hub = EngineHarness(root: ["a": object()], limits: limits(), work: work, format: format)
        let client = Client.make()
        _ = hub.ask(client, .events("a", .value))
        _ = hub.ask(client, .drained)
        format.reset()
        work.close()
        for i in 1...100 { _ = hub.ask(.make(), .put("a/n", .int(Int64(i)))) }
        #expect(work.count == 3, "one piece of work waits for all these writes")
        work.open()
        #expect(hub.take(client) == ["value 1 {\"n\":1,\"p\":\(text(200).json)}", "probe"])
        #expect(hub.ask(client, .drained) == ["value 1 {\"n\":100,\"p\":\(text(200).json)}", "probe"])
        #expect(hub.ask(client, .drained) == [])
        #expect(format.counts.frames == 2)
        let counters = hub.database.counters
        #expect(counters.suspended == 0 && counters.conflated == 99)
    }

    @Test func thousandSubscriptionsOfAClient_areToldOneAfterTheOther() {
        let work = TestWork()
        let hub = EngineHarness(limits: limits(), work: work)
        let client = Client.make()
        for id in 1...1000 { hub.database.submit(.events("a", id: Int64(id), .value), from: client) }
        #expect(hub.take(client).count == 2000)
        let before = work.count
        work.close()
        _ = hub.ask(.make(), .put("a", object()))
        #expect(work.count == before + 1 && work.waiting == 1, "one large event is under way to a client")
        work.open()
        var told = Set(hub.take(client).filter { $0 != "probe" })
        for _ in 1..<1000 {
            let next = hub.ask(client, .drained)
            #expect(next.count == 2 && next.last == "probe")
            told.insert(next[0])
        }
        #expect(told.count == 1000)
        #expect(hub.ask(client, .drained) == [])
    }

    @Test func childEvents_areEachTold_howeverLarge() {
        let work = TestWork()
        let hub = EngineHarness(limits: limits(), work: work)
        let client = Client.make()
        _ = hub.ask(client, .events("a"))
        work.close()
        _ = hub.ask(.make(), .put("a/x", text(200)))
        _ = hub.ask(.make(), .put("a/y", 1))
        _ = hub.ask(.make(), .put("a/x", text(200, "z")))
        work.open()
        #expect(hub.take(client).filter { $0 != "probe" }
            == ["added 1 x \(text(200).json) -", "added 1 y 1 x", "changed 1 x \(text(200, "z").json) -"])
    }

    @Test func realtimeListener_thatTakesOneLargeValue_isToldTheNextOnesAsOne() {
        let work = TestWork()
        let hub = EngineHarness(limits: limits(), work: work)
        let client = Client.make()
        _ = hub.ask(client, .listen("a"))
        work.close()
        for letter in ["x", "y", "z"] { _ = hub.ask(.make(), .put("a", object(letter))) }
        work.open()
        #expect(hub.take(client).filter { $0 != "probe" } == ["d a \(object("x").json)", "d a \(object("y").json)"])
        #expect(hub.ask(client, .drained) == ["d a \(object("z").json)", "probe"])
    }

    // MARK: Ends

    @Test func lostClient_costsNoEncoding() {
        let work = TestWork()
        let format = CountingFormat()
        let budget = MemoryBudget(1 << 20)
        let hub = EngineHarness(root: ["a": object()], limits: limits(), work: work, budget: budget, format: format)
        let client = Client.make()
        work.close()
        _ = hub.ask(client, .get("a"))
        hub.lose(client)
        _ = hub.ask(client, .end)
        work.open()
        hub.settle()
        #expect(format.counts == CountingFormat.Counts() && budget.used == 0)
        #expect(hub.ask(.make(), .get("a")).first == "value 0 \(object().json)", "others go on")
    }

    @Test func unlistenAndListenAgain_behindALargeContent_areAnsweredInOrder() {
        let work = TestWork()
        let hub = EngineHarness(root: ["a": object()], limits: limits(), work: work)
        let client = Client.make()
        work.close()
        #expect(hub.ask(client, .listen("a"), .unlisten("a"), .listen("a")) == [])
        _ = hub.ask(.make(), .put("a", object("y")))
        work.open()
        #expect(hub.take(client) == ["d a \(object().json)ok 0", "probe", "d a \(object("y").json)"])
        #expect(hub.ask(client, .drained) == ["ok 1", "d a \(object("y").json)ok 2", "probe"])
    }

    @Test func givenUpBatch_hasItsEncodingsDropped_andTheTruthIsToldInstead() {
        for isEncoded in [false, true] {
            let log = FlakyLog()
            let work = TestWork()
            var limits = limits()
            limits.retryMs = EngineLimits.patient.retryMs
            let hub = EngineHarness(root: ["a": object()], log: log, limits: limits, work: work)
            let (reader, observer) = (Client.make(), Client.make())
            if !isEncoded { work.close() }
            _ = hub.ask(.make(), .put("a", object("y")))
            #expect(hub.ask(reader, .get("a"), .put("b", 1)) == [])
            #expect(hub.ask(observer, .listen("a")) == [])
            log.refuse()
            hub.settle()
            work.open()
            #expect(hub.take(reader) == ["value 0 \(object().json)", "probe"])
            #expect(hub.take(observer) == ["d a \(object().json)ok 0", "probe"])
            #expect(hub.ask(reader, .drained) == ["error 1 unavailable"])
        }
    }

    // MARK: Memory

    @Test func answers_areMade_whenRequestsBehindThemHoldAllTheRoom() {
        let budget = MemoryBudget(4 * MemoryLease.stepBytes)
        let work = TestWork()
        let hub = EngineHarness(root: ["a": object()], limits: limits(), work: work, budget: budget)
        let clients = (0..<4).map { Client.make(lane: $0 % 2) }
        work.close()
        for client in clients {
            let values = MemoryLease(MemoryShare(of: budget), for: .parsing)
            #expect(values.become(MemoryLease.stepBytes))
            hub.database.submit(.get("a"), from: client)
            hub.database.submit(.put("b", 1), from: client, token: 1, hold: values)
        }
        hub.settle()
        #expect(budget.used == budget.limit)
        work.open()
        for client in clients { #expect(hub.take(client) == ["value 0 \(object().json)", "probe"]) }
        for client in clients { #expect(hub.ask(client, .drained) == ["ok 1"]) }
        hub.settle()
        #expect(budget.used == 0)
    }

    @Test(arguments: [(0, true), (-2, false)]) func whatAQueryCollects_isHeld_untilItIsWrittenDown(room: Int, isMade: Bool) {
        let children = Node.object((100..<200).map { (Key(index: $0), .int(Int64($0))) })
        let query = TreeQuery(index: .key)
        let copied = TreeQuery.copiedBytes(of: query.select(from: .byKey(children.children)), in: children)
        let bytes = 100 * ReadRequests.bytesOfSelected + copied
        for request in [Request.get("a", query: query), .observe("a", query: query, style: .patches(tag: 1), hash: "")] {
            let budget = MemoryBudget(2 * bytes + room)
            let work = TestWork()
            let hub = EngineHarness(root: ["a": children], limits: limits { $0.inlineChildren = 10 }, work: work, budget: budget)
            let client = Client.make()
            work.close()
            #expect(hub.ask(client, request) == [])
            work.step()
            hub.settle()
            #expect(budget.used == (isMade ? bytes : 0))
            work.open()
            let told = hub.take(client)
            #expect(isMade ? told.first?.contains(children.json) == true : told == ["error 0 unavailable"])
            hub.settle()
            #expect(budget.used == 0)
        }
    }

    @Test func queryWhoseClientIsGone_holdsNothing() {
        let children = Node.object((100..<200).map { (Key(index: $0), .int(Int64($0))) })
        let budget = MemoryBudget(1 << 20)
        let work = TestWork()
        let hub = EngineHarness(root: ["a": children], limits: limits { $0.inlineChildren = 10 }, work: work, budget: budget)
        let client = Client.make()
        work.close()
        _ = hub.ask(client, .get("a", query: TreeQuery(index: .key)))
        work.step()
        hub.settle()
        #expect(budget.used > 0)
        hub.lose(client)
        _ = hub.ask(client, .end)
        work.open()
        hub.settle()
        #expect(budget.used == 0)
    }

    @Test func manyLargeAnswers_endABatchEarly() {
        let root: Node = ["a": .string(String(repeating: "x", count: 70_000))]
        let log = FlakyLog()
        let hub = EngineHarness(root: root, log: log)
        let gate = DispatchGate(hub.database)
        let clients = (0..<100).map { _ in Client.make() }
        for client in clients {
            hub.database.submit(.put("b", 1), from: client)
            hub.database.submit(.get("a"), from: client, token: 1)
        }
        gate.open()
        hub.settle()
        #expect(log.appended == 4, "33 of 64 KiB are more than 2 MiB")
        while !log.isIdle { log.completeAll(); hub.settle() }
    }
    // MARK: Many messages of one commit

    @Test func oneCommit_encodesOnTheQueueUpToABound_restBesideIt() {
        let work = TestWork()
        let hub = EngineHarness(root: ["a": text(90)], limits: limits { $0.outputBytes = 500 }, work: work)
        let clients = (0..<20).map { _ in Client.make() }
        for (id, client) in clients.enumerated() {
            _ = hub.ask(client, .observe("a", style: .events(id: Int64(id), kinds: .value), hash: ""))
        }
        work.close()
        let writer = Client.make(lane: 1)
        #expect(hub.ask(writer, .put("a", text(90, "y"))) == ["ok 0"])
        let told = clients.map { hub.take($0) }
        #expect((4...7).contains(told.count { $0.count == 1 }), "as many as the bound has room for")
        #expect(work.count > 0)
        work.open()
        for (index, client) in clients.enumerated() {
            #expect((told[index] + hub.take(client)).filter { $0 != "probe" }.count == 1, "each is told once")
        }
    }

    @Test func catchingUp_encodesOnTheQueueUpToABound_restBesideIt() {
        let work = TestWork()
        let hub = EngineHarness(root: ["a": text(90)], limits: limits { $0.outputBytes = 500 }, work: work)
        let (client, writer) = (Client.make(), Client.make(lane: 1))
        for id in 0..<20 { _ = hub.ask(client, .observe("a", style: .events(id: Int64(id), kinds: .value), hash: "")) }
        _ = hub.ask(client, .congested)
        _ = hub.ask(writer, .put("a", text(90, "y")))
        work.close()
        let first = hub.ask(client, .drained).filter { $0 != "probe" }
        #expect((4...7).contains(first.count), "as many as the bound has room for")
        work.open()
        var told = first + hub.take(client)
        for _ in 0..<20 { told += hub.ask(client, .drained) }
        #expect(Set(told).subtracting(["probe"]).count == 20 && told.count { $0 != "probe" } == 20, "the rest follows as that is taken")
    }

    @Test func catchingUp_encodesOnce_whatObserversHaveMissedAlike() {
        let format = CountingFormat()
        let hub = EngineHarness(root: ["a": text(90), "b": text(90)], format: format)
        let (client, writer) = (Client.make(), Client.make(lane: 1))
        for id in 0..<20 { _ = hub.ask(client, .observe(id < 15 ? "a" : "b", style: .events(id: Int64(id), kinds: .value), hash: "")) }
        _ = hub.ask(client, .congested)
        _ = hub.ask(writer, .put("a", text(90, "y")))
        _ = hub.ask(writer, .put("b", text(90, "y")))
        format.reset()
        #expect(hub.ask(client, .drained).count == 20)
        #expect(format.counts.changes == 2, "a value for each place")
        #expect(format.counts.frames == 20, "and a frame of it for each observer")
    }

    @Test func catchingUp_beginsWithThoseWhoHaveWaitedLongest() {
        let hub = EngineHarness(root: ["a": text(90)], limits: limits { $0.outputBytes = 500 })
        let (client, writer) = (Client.make(), Client.make(lane: 1))
        for id in 0..<40 { _ = hub.ask(client, .observe("a", style: .events(id: Int64(id), kinds: .value), hash: "")) }
        _ = hub.ask(client, .congested)
        _ = hub.ask(writer, .put("a", text(90, "y")))
        var told: Set<String> = []
        for round in 0..<10 {
            // All have missed another change before any is notified.
            _ = hub.ask(writer, .put("a", text(90, round.isMultiple(of: 2) ? "z" : "y")))
            told.formUnion(hub.ask(client, .drained).compactMap { $0.split(separator: " ").dropFirst().first.map(String.init) })
        }
        #expect(told.count == 40, "each has had its turn")
    }
}

/// Counts encoded messages, in the format of `LineFormat`.
final class CountingFormat: WireFormat {
    struct Counts: Equatable {
        /// Answers with a value.
        var values = 0
        /// Initial values.
        var initials = 0
        /// Changes for which frames were requested.
        var changes = 0
        /// Frames of changes.
        var frames = 0
    }
    private let state = Mutex(Counts())

    var counts: Counts { state.withLock { $0 } }
    func reset() { state.withLock { $0 = Counts() } }

    func reply(_ reply: Reply, to token: Int64, dialect: Dialect) -> [UInt8] {
        if case .value = reply { state.withLock { $0.values += 1 } }
        return LineFormat().reply(reply, to: token, dialect: dialect)
    }

    func initial(_ value: Node, at path: Path, query: Query?, style: ObserverStyle, sequence: UInt64) -> [UInt8] {
        state.withLock { $0.initials += 1 }
        return LineFormat().initial(value, at: path, query: query, style: style, sequence: sequence)
    }

    private final class Parts: ChangeParts {}

    func change(_ change: ViewChange, for style: ObserverStyle, sharing parts: inout (any ChangeParts)?) -> [UInt8] {
        state.withLock { counts in
            counts.changes += parts == nil ? 1 : 0
            counts.frames += 1
        }
        parts = parts ?? Parts()
        return LineFormat().change(change, for: style, sharing: &parts)
    }

    func ended(_ path: Path, query: Query?, style: ObserverStyle, _ failure: Failure) -> [UInt8] {
        LineFormat().ended(path, query: query, style: style, failure)
    }
}
