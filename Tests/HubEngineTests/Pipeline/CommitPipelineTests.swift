@testable import HubEngine
import Journal
import JSONTree
import SecurityRules
import Testing

/// The pipeline that every commit passes: its stages run in order, and a commit that one of them refuses leaves no trace.
@Suite(.timeLimit(.minutes(30))) struct CommitPipelineTests {
    private static let rules = #"{"rules":{"open":{".read":true,".write":true},"own":{".write":"auth.uid === 'u'"}}}"#
    private static let base: Node = ["open": ["a": 1]]

    private static func bench(limits: EngineLimits = EngineLimits(), refusals: RefusalLog? = nil) throws -> Bench {
        Bench(root: base, rules: try RuleSet(parsing: rules), limits: limits, refusals: refusals)
    }

    /// The visible state that a commit could change.
    private static func state(_ bench: Bench) -> [String] {
        let recent = bench.commits.recent.places(since: 0)?.map(\.description) ?? ["unknown"]
        let numbers = [Int(bench.content.sequence), bench.batch.commits.count, bench.context.meter.counters.commits]
        return [bench.content.root.json] + numbers.map { "\($0)" } + recent
    }

    private static func refused(_ bench: Bench, _ writes: [TreeWrite], if condition: Condition? = nil, by origin: WriteOrigin) -> Failure? {
        do throws(Failure) {
            _ = try bench.commits.commit(writes, if: condition, by: origin)
            return nil
        } catch { return error }
    }

    @Test func commit_isInstalledRecordedAndTold() throws {
        let bench = try Self.bench()
        bench.observe(Observation("open"), by: .make())
        let sequence = try bench.run {
            try bench.commits.commit([TreeWrite("open/b", 2), TreeWrite("open/c/d", 3)], by: .client(.anonymous))
        }
        #expect(sequence == 1 && bench.content.sequence == 1)
        #expect(bench.content.root == ["open": ["a": 1, "b": 2, "c": ["d": 3]]])
        #expect(bench.commits.recent.places(since: 0) == ["open/b", "open/c/d"])
        let commit = try #require(bench.batch.commits.first)
        #expect(commit.sequence == 1 && commit.pending.isEmpty)
        #expect(commit.operations.map(\.path) == ["open/b", "open/c/d"] && commit.operations.map(\.value) == [2, 3])
        #expect(bench.context.meter.counters.commits == 1 && bench.context.meter.counters.systemCommits.isEmpty)
        #expect(bench.finish() == [#"m open {"b":2,"c/d":3}"#])
    }

    @Test func refusedCommit_leavesNothingBehind() throws {
        let refusals = RefusalLog()
        let bench = try Self.bench(refusals: refusals)
        bench.observe(Observation(""), by: .make())
        _ = bench.finish()
        let before = Self.state(bench)
        let open = Path([Key("open")])
        var priority = TreeWrite("open/a", ["x": 1])
        priority.part = .priority
        bench.run {
            let client = WriteOrigin.client(.anonymous)
            #expect(Self.refused(bench, [TreeWrite("open/b", 1), priority], by: client) == .badPriority, "the shape of the second")
            #expect(Self.refused(bench, [TreeWrite("open/b", 1), TreeWrite("own/x", 1)], by: client) == .permissionDenied)
            #expect(Self.refused(bench, [TreeWrite("open/b", 1)], if: Condition(open, hash: "other"), by: client) == .dataStale)
            bench.logGuard.refused(.diskFull)
            #expect(Self.refused(bench, [TreeWrite("open/b", 1)], by: client)?.code == .unavailable)
            #expect(Self.refused(bench, [TreeWrite("open/b", 1)], by: .system(.accountDeletion))?.code == .unavailable)
        }
        #expect(Self.state(bench) == before)
        #expect(bench.finish().isEmpty, "observers are told nothing")
        #expect(refusals.all == ["write /open/b /own/x"], "what is stale or has no place is no refusal of the rules")
    }

    @Test func stages_areAskedInTheirOrder() throws {
        let bench = try Self.bench()
        let stale = Condition(Path([Key("open")]), hash: "other")
        bench.run {
            bench.logGuard.refused(.diskFull)
            let client = WriteOrigin.client(.anonymous)
            var priority = TreeWrite("own", ["x": 1])
            priority.part = .priority
            #expect(Self.refused(bench, [priority], if: stale, by: client) == .badPriority, "the shape before the rules")
            // A stranger learns nothing about the content.
            #expect(Self.refused(bench, [TreeWrite("own", 1)], if: stale, by: client) == .permissionDenied)
            #expect(Self.refused(bench, [TreeWrite("open/b", 1)], if: stale, by: client) == .dataStale, "the comparison before the log")
            #expect(bench.context.meter.counters.refusedWrites == 0)
            #expect(Self.refused(bench, [TreeWrite("open/b", 1)], by: client)?.code == .unavailable)
            #expect(bench.context.meter.counters.refusedWrites == 1)
        }
    }

    @Test func condition_isComparedWithinItsLimit() throws {
        var limits = EngineLimits()
        limits.hashNodes = 2
        let bench = Bench(root: ["few": ["a": 1, "b": 2], "many": ["a": 1, "b": 2, "c": 3]], limits: limits)
        func hash(_ place: String) -> Condition { Condition(Path([Key(place)]), hash: bench.content.root.child(Key(place)).copied.hash) }
        bench.run {
            let client = WriteOrigin.client(.anonymous)
            #expect(Self.refused(bench, [TreeWrite("x", 1)], if: hash("few"), by: client) == nil)
            #expect(Self.refused(bench, [TreeWrite("x", 1)], if: hash("many"), by: client) == .overtaken, "not known, so not written")
            #expect(Self.refused(bench, [TreeWrite("x", 1)], if: Condition("nothing", hash: ""), by: client) == nil)
        }
    }

    @Test func comparison_countsForTheTurn() throws {
        let bench = Bench(root: ["many": .object((0..<900).map { (Key("k\($0)"), .int(Int64($0))) })])
        bench.run {
            let before = bench.context.meter.work
            let wrong = Condition("many", hash: "another")
            #expect(Self.refused(bench, [TreeWrite("x", 1)], if: wrong, by: .client(.anonymous)) == .dataStale)
            #expect(bench.context.meter.work - before >= 450)
        }
    }

    @Test func deepPlaces_countAsMoreWork() throws {
        let bench = Bench()
        let deep = Path((0..<24).map { Key("l\($0)") })
        try bench.run {
            let before = bench.context.meter.work
            _ = try bench.commits.commit([TreeWrite("a/b", 1), TreeWrite(deep, WriteValue(1))], by: .client(.anonymous))
            #expect(bench.context.meter.work - before == 1 + 4)
        }
    }

    @Test func emptyCommit_hasTheNumberOfTheLast() throws {
        let bench = try Self.bench()
        let sequence = try bench.run { try bench.commits.commit([], by: .client(.anonymous)) }
        #expect(sequence == 0 && bench.batch.commits.isEmpty && bench.content.sequence == 0)
    }

    @Test func systemWrite_isCountedByCause_andAsksNoRule() throws {
        let refusals = RefusalLog()
        let bench = try Self.bench(refusals: refusals)
        try bench.run {
            _ = try bench.commits.commit([TreeWrite("closed", 1)], by: .system(.accountDeletion))
            _ = try bench.commits.commit([TreeWrite("open/z", 1)], by: .sessionEnd(PendingSession(id: "s")))
            #expect(Self.refused(bench, [TreeWrite("closed", 2)], by: .sessionEnd(PendingSession(id: "s"))) == .permissionDenied)
        }
        #expect(bench.context.meter.counters.systemCommits == [.accountDeletion: 1])
        #expect(bench.batch.commits.map(\.pending) == [[], [.forget(session: "s")]])
        #expect(refusals.all == ["write /closed"])
    }

    @Test func check_decidesAndWritesNothing() throws {
        let bench = try Self.bench()
        let before = Self.state(bench)
        bench.run {
            #expect(throws: Never.self) { try bench.commits.check([TreeWrite("open/b", 1)], by: .client(.anonymous)) }
            #expect(throws: Failure.permissionDenied) { try bench.commits.check([TreeWrite("own", 1)], by: .client(.anonymous)) }
        }
        #expect(Self.state(bench) == before)
    }

    @Test func preparedCommit_isInstalledAsItWasPrepared() throws {
        var limits = EngineLimits()
        limits.followedPlaces = 2
        let bench = Bench(root: Self.base, limits: limits)
        bench.observe(Observation("open"), by: .make())
        func prepared(_ writes: [TreeWrite]) throws -> PreparedWrite {
            let permission = WritePermission(rules: .allowAll, origin: .client(.anonymous))
            let outcome = PreparedWrite.prepare(WriteRequest(writes), permission, on: bench.content.root, now: 0, dependencies: 10)
            guard case .ready(let write) = outcome else { throw NotReady() }
            return write
        }
        let few = try prepared([TreeWrite("open/b", 2), TreeWrite("open/c", 3)])
        #expect(try bench.run { try bench.commits.commit(few, by: .client(.anonymous)) } == 1)
        #expect(bench.content.root.isIdentical(to: few.candidate))
        let many = try prepared([TreeWrite("open/x/1", 1), TreeWrite("open/x/2", 2), TreeWrite("open/x/3", 3)])
        #expect(try bench.run { try bench.commits.commit(many, by: .client(.anonymous)) } == 2)
        // If a commit has more places than are remembered individually, their common ancestor is.
        #expect(bench.commits.recent.places(since: 0) == ["open/b", "open/c", "open/x"])
        #expect(bench.batch.commits.map(\.operations.count) == [2, 3] && bench.context.meter.counters.prepared == 2)
        #expect(bench.finish() == [#"m open {"b":2,"c":3}"#, #"m open {"x/1":1,"x/2":2,"x/3":3}"#])
        bench.run { bench.logGuard.refused(.diskFull) }
        #expect(throws: Failure.self) { try bench.run { try bench.commits.commit(many, by: .client(.anonymous)) } }
        #expect(bench.content.sequence == 2)
    }

    @Test func rollBack_forgetsWhatWasTakenBack() throws {
        let bench = Bench()
        try bench.run {
            for place in ["a", "b", "c"] { _ = try bench.commits.commit([TreeWrite(place, 1)], by: .client(.anonymous)) }
            bench.commits.rollBack(to: 1)
        }
        #expect(bench.commits.recent.places(since: 0) == ["a"])
        #expect(bench.commits.recent.places(since: 1) == [])
    }

    @Test func recentCommits_rememberSoMany_whileNothingIsPrepared() throws {
        var limits = EngineLimits()
        limits.recentCommits = 3
        let bench = Bench(limits: limits)
        func write(_ count: Int) throws {
            for _ in 0..<count { _ = try bench.commits.commit([TreeWrite("p\(bench.content.sequence)", 1)], by: .client(.admin)) }
        }
        try bench.run {
            try write(3)
            #expect(bench.commits.recent.places(since: 0)?.map(\.description) == ["/p0", "/p1", "/p2"])
            try write(1)
            #expect(bench.commits.recent.places(since: 0) == nil)
            #expect(bench.commits.recent.places(since: 1)?.count == 3)
            bench.commits.retainRecent()
            try write(5)
            #expect(bench.commits.recent.places(since: 1)?.count == 8, "a write is prepared")
            bench.commits.releaseRecent()
            #expect(bench.commits.recent.places(since: 5) == nil && bench.commits.recent.places(since: 6)?.count == 3)
        }
    }

    private struct NotReady: Error {}
}

extension Node {
    /// The same value without its cached hashes.
    fileprivate var copied: Node { Plain(self).node }
}
