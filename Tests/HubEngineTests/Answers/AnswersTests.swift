@testable import HubEngine
import JSONTree
import SecurityRules
import Synchronization
import Testing

/// How answers are encoded.
@Suite(.timeLimit(.minutes(30))) struct AnswersTests {
    private static func text(_ bytes: Int) -> Node { .string(Text(String(repeating: "x", count: bytes))) }

    private static func answer(_ bench: Bench, _ reply: Reply, _ client: Client, token: Int64 = 1) {
        bench.run { bench.answers.answer(reply, .init(.get("a"), of: client, token: token)) }
    }

    @Test func smallAnswer_isWrittenAtOnce() {
        let bench = Bench()
        let (client, rest) = (Client.make(), Client(lane: 1, dialect: .rest))
        Self.answer(bench, .value(["a": 1]), client)
        Self.answer(bench, .done, client, token: 2)
        Self.answer(bench, .failed(.dataStale), client, token: 3)
        Self.answer(bench, .value(1), rest)
        #expect(bench.finish() == [#"value 1 {"a":1}"#, "ok 2", "error 3 datastale", "\(Reply.value(1))"])
    }

    @Test func value_hasSoManyBytes() {
        var limits = EngineLimits()
        // `value 1 "` and the end of the text.
        limits.readBytes = 10 + 50
        let bench = Bench(limits: limits)
        let client = Client.make()
        Self.answer(bench, .value(Self.text(50)), client)
        Self.answer(bench, .value(Self.text(51)), client)
        #expect(bench.finish() == ["value 1 \"" + String(repeating: "x", count: 50) + "\"", "error 1 too_big"])
    }

    @Test func largeValue_isWrittenLater_andItsClientWaits() {
        var limits = EngineLimits()
        limits.inlineBytes = 52
        limits.readBytes = 100
        let bench = Bench(limits: limits)
        bench.work.close()
        let clients = (0..<4).map { _ in Client.make() }
        for (client, bytes) in zip(clients, [50, 51, 99, 99]) { Self.answer(bench, .value(Self.text(bytes)), client) }
        clients[3].isGone.store(true, ordering: .relaxed)
        bench.run { bench.outbox.send(Array("behind".utf8), to: clients[1]) }
        bench.endBatch()
        #expect(bench.lines(to: clients[0]).count == 1 && clients[0].lag == nil)
        #expect(bench.lines(to: clients[1]) == ["later", "probe", "behind"])
        #expect(clients[1].lag?.isReceivingLarge == true && clients[1].lag?.isSuspended == false)
        bench.work.open()
        bench.settle()
        #expect(bench.lines(to: clients[1])[0] == "value 1 \"" + String(repeating: "x", count: 51) + "\"")
        #expect(bench.lines(to: clients[2])[0] == "error 1 too_big", "with its quotes one byte too many")
        #expect(bench.lines(to: clients[3])[0] == "", "for a client that is gone nothing is encoded")
    }
}

/// Which answers leave before the batches that wait for the log.
@Suite(.timeLimit(.minutes(30))) struct EarlyAnswersTests {
    /// A bench with a commit waiting for the log: `a` was 1 and becomes 2, `b` stays.
    private static func behind(rules: RuleSet = .allowAll) throws -> Bench {
        let bench = Bench(root: ["a": 1, "b": ["x": 1]], rules: rules)
        try bench.run { _ = try bench.commits.commit([TreeWrite("a", 2)], by: .client(.admin)) }
        bench.endBatch()
        #expect(bench.durability.waitingCommits == 1)
        return bench
    }

    /// Handles a request.
    /// - Returns: whether its answer has left.
    private static func leaves(_ bench: Bench, _ request: Request, _ reply: Reply? = nil, of client: Client = .make()) -> Bool {
        let item = SubmittedRequest(request, of: client)
        bench.run {
            bench.early.carryOut(item) {
                switch (reply, request) {
                case (nil, .get(let path, _)): bench.answers.answer(.value(bench.content.root.node(at: path)), item)
                case (nil, .answer(let bytes)): bench.answers.answer(bytes, to: client)
                default: bench.answers.answer(reply ?? .done, item)
                }
            }
        }
        bench.endBatch()
        defer { _ = bench.lines() }
        return !bench.lines(to: client).isEmpty
    }

    @Test func answer_leavesEarly_ifTheDurableTreeGivesTheSame() throws {
        let bench = try Self.behind()
        #expect(Self.leaves(bench, .get("b")) && Self.leaves(bench, .get("nothing")))
        #expect(!Self.leaves(bench, .get("a")), "it is not durable")
        #expect(!Self.leaves(bench, .get(.root)))
        #expect(Self.leaves(bench, .exchange(Exchange("b", .read(nil))), .exchanged(Exchanged())))
        #expect(!Self.leaves(bench, .exchange(Exchange("b", .write([]))), .exchanged(Exchanged())), "a write is true with its batch")
        #expect(!Self.leaves(bench, .put("c", 1)))
        #expect(Self.leaves(bench, .answer([0x21])), "it rests on nothing")
        #expect(!Self.leaves(bench, .listen("b"), .observing(sequence: 1, lacksIndex: false)))
    }

    @Test func answer_waits_whereNothingElseWaits() {
        let bench = Bench(root: ["b": 1])
        bench.run { bench.early.carryOut(.init(.get("b"), of: .make())) { #expect(!bench.early.admitsWithoutRead(.make())) } }
        #expect(bench.batch.end().history.steps.count == 1, "with its batch it leaves as soon")
    }

    @Test func answer_overtakesNothingOfItsClient() throws {
        let bench = try Self.behind()
        let client = Client.make()
        #expect(!Self.leaves(bench, .put("c", 1), of: client))
        #expect(!Self.leaves(bench, .get("b"), of: client), "its answer stands behind that one")
        #expect(Self.leaves(bench, .get("b")))
        bench.log.completeAll()
        bench.run {}
        try bench.run { _ = try bench.commits.commit([TreeWrite("a", 3)], by: .client(.admin)) }
        bench.endBatch()
        #expect(Self.leaves(bench, .get("b"), of: client), "that has left")
    }

    @Test func answer_overtakesNoNewsOfItsClient() throws {
        let bench = Bench(root: ["a": 1, "b": 1])
        let (client, few, many) = (Client.make(), Client.make(), Client.make())
        bench.observe(Observation("a"), by: client)
        for i in 0..<32 { bench.observe(Observation("n/\(i)"), by: few) }
        for i in 0..<33 { bench.observe(Observation("n/\(i)"), by: many) }
        try bench.run { _ = try bench.commits.commit([TreeWrite("c", 2)], by: .client(.admin)) }
        bench.endBatch()
        #expect(Self.leaves(bench, .get("b"), of: client))
        #expect(Self.leaves(bench, .get("b"), of: few))
        #expect(!Self.leaves(bench, .get("b"), of: many), "so many are not looked at")
        try bench.run { _ = try bench.commits.commit([TreeWrite("a", 2)], by: .client(.admin)) }
        #expect(!Self.leaves(bench, .get("b"), of: client), "it is told of that when it is durable")
        bench.log.completeAll()
        bench.run {}
    }

    @Test func permission_isThatOfTheDurableTree_too() throws {
        let rules = try RuleSet(parsing: """
            {"rules":{"b":{".read":"root.child('a').val() === 2"},"c":{".read":"root.child('a').val() === 1"}}}
            """)
        let bench = try Self.behind(rules: rules)
        #expect(!Self.leaves(bench, .get("b")), "it may be read from this commit on")
        #expect(!Self.leaves(bench, .get("c"), .failed(.permissionDenied)), "it may not from this commit on")
        #expect(Self.leaves(bench, .get("d"), .failed(.permissionDenied)))
    }

    @Test func identity_needsNoLog_unlessItIsACommit() throws {
        let bench = try Self.behind()
        let client = Client.make()
        bench.run { #expect(bench.batch.end().history.steps.isEmpty) }
        #expect(Self.leaves(bench, .signOut, of: client))
        client.pendingID = "s"
        #expect(!Self.leaves(bench, .signOut, of: client))
    }

    @Test func steps_areWhatMustBeDoneAgain() throws {
        let bench = try Self.behind()
        func step(_ request: Request, _ reply: Reply) -> String {
            let item = SubmittedRequest(request, of: .make())
            return bench.run {
                bench.early.carryOut(item) { bench.answers.answer(reply, item) }
                switch bench.batch.end().history.steps.first {
                case .request?: return "request"
                case .settled?: return "settled"
                case nil: return "nothing"
                default: return "another"
                }
            }
        }
        #expect(step(.get("b"), .value(["x": 1])) == "nothing")
        #expect(step(.get("a"), .value(2)) == "request")
        #expect(step(.signOut, .done) == "settled")
        #expect(step(.put("c", 1), .done) == "request")
    }

    @Test func mutedRequest_saysNothing_andARefusingLogHoldsAll() throws {
        let bench = try Self.behind()
        let client = Client.make()
        bench.run { bench.early.repeatMuted { bench.answers.answer(.done, .init(.signOut, of: client)) } }
        #expect(bench.outbox.bytes == 0 && bench.early.timing == .withBatch)
        bench.run { bench.logGuard.refused(.diskFull) }
        #expect(!Self.leaves(bench, .get("b")))
    }
}
