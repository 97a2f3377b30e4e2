import HubEngine
import JSONTree
import SecurityRules
import Synchronization
import TestSupport
import Testing

/// Writes that are prepared off the queue, and events between their preparation and their installation.
@Suite(.timeLimit(.minutes(30))) struct LargeWriteTests {
    private static let three = Request.merge(["a/x": 1, "a/y": 2, "a/z": 3])

    @Test func largeWrite_letsOthersGoOn_andHoldsWhatItsClientAsksNext() throws {
        let it = try GatedHarness()
        let (one, other) = (Client.make(), Client.make())
        #expect(it.ask(one, Self.three, .get("a")) == [])
        #expect(it.ask(other, .put("b", 5), .get("a")) == ["ok 0", "value 1 null"])
        it.finish()
        #expect(it.hub.take(one) == ["ok 0", #"value 1 {"x":1,"y":2,"z":3}"#])
        #expect(it.content == ["a": ["x": 1, "y": 2, "z": 3], "b": 5])
        #expect(it.hub.database.counters.prepared == 1 && it.hub.database.counters.preparedAgain == 0)
    }

    @Test func smallWrite_isMadeAtOnce() throws {
        let it = try GatedHarness()
        #expect(it.ask(.make(), .merge(["a/x": 1, "a/y": 2])) == ["ok 0"])
        #expect(it.gate.count == 0 && it.hub.database.counters.prepared == 0)
    }

    @Test func bytes_makeAWriteLarge_fromTheSettingOn() throws {
        let it = try GatedHarness()
        it.hub.database.submit(.put("a", 1), from: .make(), size: EngineLimits().largeWriteBytes)
        it.hub.settle()
        #expect(it.gate.count == 0)
        it.hub.database.submit(.put("a", 1), from: .make(), size: EngineLimits().largeWriteBytes + 1)
        it.hub.settle()
        #expect(it.gate.count == 1)
    }

    @Test func nodes_makeAWriteLarge_fromTheSettingOn() throws {
        let most = 100
        var limits = EngineLimits.tight
        limits.largeWritePlaces = most
        let it = try GatedHarness(limits: limits)
        for (nodes, isLarge) in [(most, false), (most + 1, true)] {
            let value = Node.object((1..<nodes).map { (Key("k\($0)"), 1) })
            it.hub.database.submit(.put("a", value), from: .make(), size: 10_000)
            it.hub.settle()
            #expect((it.gate.count == 1) == isLarge, "\(nodes)")
        }
    }

    @Test func priorityOfALargePlace_isALargeWrite() throws {
        let it = try GatedHarness(root: ["a": ["x": 1, "y": 2, "z": 3], "b": ["x": 1]])
        #expect(it.ask(.make(), .write([TreeWrite("b", part: .priority, WriteValue(1))])) == ["ok 0"])
        let one = Client.make()
        #expect(it.ask(one, .write([TreeWrite("a", part: .priority, WriteValue(1))])) == [])
        it.finish()
        #expect(it.hub.take(one) == ["ok 0"])
        #expect(it.content.child("a").priority == 1)
    }

    @Test func prioritiesOfManyPlaces_areALargeWriteTogether() throws {
        var limits = EngineLimits.tight
        limits.largeWritePlaces = 5
        let node: Node = ["x": 1, "y": 2]
        let it = try GatedHarness(root: ["a": node, "b": node], limits: limits)
        func prioritise(_ paths: [Path]) -> Request { .write(paths.map { TreeWrite($0, part: .priority, WriteValue(1)) }) }
        #expect(it.ask(.make(), prioritise(["a"])) == ["ok 0"])
        let one = Client.make()
        #expect(it.ask(one, prioritise(["a", "b"])) == [])
        it.finish()
        #expect(it.hub.take(one) == ["ok 0"])
    }

    @Test func writeThatWaitsForItsTurn_restsOnTheTreeAndTheTimeOfThat() throws {
        var limits = EngineLimits.tight
        limits.preparationsOfUser = 1
        let rules = #"{"rules":{".write":"root.child('open').val() == true"}}"#
        let it = try GatedHarness(rules, root: ["open": true], limits: limits)
        let (first, second) = (Client.user("ada"), Client.user("ada"))
        _ = it.ask(first, .merge(["open/x": 1, "b/y": 2, "b/z": 3]))
        var stamp = WriteValue(0)
        stamp.deferred = [.init(path: .root, target: .value, value: .timestamp)]
        _ = it.ask(second, .write([TreeWrite("a/x", stamp), TreeWrite("a/y", stamp), TreeWrite("a/z", stamp)]))
        #expect(it.gate.count == 1)
        it.hub.time.ms += 5_000
        it.gate.runOne()
        it.hub.settle()
        it.finish()
        #expect(it.hub.take(first) == ["ok 0"])
        // The second write's rules see the first one's values immediately.
        #expect(it.hub.take(second) == ["error 0 permission_denied"])
        #expect(it.hub.database.counters.preparedAgain == 0)

        let patient = try GatedHarness(limits: limits)
        _ = patient.ask(.user("ada"), Self.three)
        _ = patient.ask(.user("ada"), .write([TreeWrite("c/x", stamp), TreeWrite("c/y", stamp), TreeWrite("c/z", stamp)]))
        patient.hub.time.ms += 5_000
        patient.finish()
        #expect(patient.content.node(at: "c/x") == .int(1_700_000_005_000))
        #expect(patient.hub.database.counters.followedPlaces == 0, "it has begun behind them")
    }

    // MARK: Concurrent writes

    @Test func whatOthersWroteBesideIt_isKept_withoutPreparingAgain() throws {
        let it = try GatedHarness(root: ["a": ["old": 1], "c": ["x": 1]])
        let one = Client.make()
        _ = it.ask(one, Self.three)
        _ = it.ask(.make(), .put("a/other", 7), .put("c", .null))
        it.finish()
        #expect(it.hub.take(one) == ["ok 0"])
        #expect(it.content == ["a": ["old": 1, "other": 7, "x": 1, "y": 2, "z": 3]])
        #expect(it.hub.database.counters.preparedAgain == 0)
    }

    @Test func muchThatOthersWrote_isTakenOverInTheBackground_untilLittleIsLeft() throws {
        var limits = EngineLimits.tight
        limits.preparations = 10
        let it = try GatedHarness(root: ["a": ["old": 1]], limits: limits)
        let (one, other) = (Client.make(), Client.make())
        _ = it.ask(one, Self.three)
        for i in 0..<9 { _ = it.ask(other, .put(Path([Key("b"), Key("\(i)")]), 1)) }
        it.gate.runOne()
        it.hub.settle()
        #expect(it.hub.take(one) == [] && it.hub.database.counters.followedPlaces == 0)
        for i in 0..<2 { _ = it.ask(other, .put(Path([Key("c"), Key("\(i)")]), 1)) }
        it.finish()
        #expect(it.hub.take(one) == ["ok 0"])
        #expect(it.hub.database.counters.followedPlaces == 2 && it.hub.database.counters.preparedAgain == 0)
        #expect(it.content.child("a").childCount == 4 && it.content.child("b").childCount == 9 && it.content.child("c").childCount == 2)
    }

    @Test func whatOthersWroteWhereItWrites_isWrittenOver() throws {
        let it = try GatedHarness(root: ["a": ["old": 1]])
        let (one, watcher) = (Client.make(), Client.make())
        _ = it.ask(watcher, .listen("a"))
        _ = it.ask(one, Self.three)
        _ = it.ask(.make(), .put("a/x/deep", 9), .put("a/y", 2))
        it.finish()
        #expect(it.hub.take(one) == ["ok 0"])
        #expect(it.content == ["a": ["old": 1, "x": 1, "y": 2, "z": 3]])
        #expect(it.hub.take(watcher).last == #"m a {"x":1,"y":2,"z":3}"#)
        #expect(it.hub.database.counters.preparedAgain == 0)
    }

    @Test func parentThatGoesMeanwhile_letsItBePreparedAgain() throws {
        let it = try GatedHarness(root: ["a": ["old": 1]])
        let one = Client.make()
        _ = it.ask(one, Self.three)
        _ = it.ask(.make(), .put("a", .null))
        it.finish()
        #expect(it.hub.take(one) == ["ok 0"])
        #expect(it.content == ["a": ["x": 1, "y": 2, "z": 3]])
        #expect(it.hub.database.counters.preparedAgain == 1)
    }

    /// The value of `a` (with priority 2) before, a large write there, and a concurrent write of another client; then the value after both,
    /// and whether the large write is prepared again.
    private struct EmptiedPlaceCase {
        let before: Node
        let writes: KeyValuePairs<String, Node>
        let other: (path: Path, value: Node)
        let after: Node
        var isPreparedAgain = true

        static let flat: KeyValuePairs<String, Node> = ["a/open": .null, "a/y": 5, "a/z": 6]
        static let deep: KeyValuePairs<String, Node> = ["a/q/open": .null, "a/q/y": 5, "a/r": 6]

        static let all = [
            EmptiedPlaceCase(before: ["open": 1, "x": 1], writes: flat, other: ("a/x", .null), after: ["y": 5, "z": 6, ".priority": 2]),
            EmptiedPlaceCase(before: ["open": 1], writes: flat, other: ("a/x", 7), after: ["x": 7, "y": 5, "z": 6, ".priority": 2]),
            EmptiedPlaceCase(before: ["open": 1], writes: flat, other: ("a/y", 7), after: ["y": 5, "z": 6, ".priority": 2]),
            EmptiedPlaceCase(
                before: ["q": ["open": 1, "x": 1]], writes: deep, other: ("a/q/x", .null), after: ["q": ["y": 5], "r": 6, ".priority": 2]),
            EmptiedPlaceCase(
                before: ["q": ["open": 1]], writes: deep, other: ("a/q/x", 7), after: ["q": ["x": 7, "y": 5], "r": 6, ".priority": 2]),
            // The place keeps the same children at first, or has so many others that some remain.
            EmptiedPlaceCase(
                before: ["open": 1, "x": 1], writes: flat, other: ("a/x", 7), after: ["x": 7, "y": 5, "z": 6, ".priority": 2],
                isPreparedAgain: false),
            EmptiedPlaceCase(
                before: ["open": 1, "x": 1, "1": 1, "2": 1, "3": 1], writes: flat, other: ("a/x", .null),
                after: ["1": 1, "2": 1, "3": 1, "y": 5, "z": 6, ".priority": 2], isPreparedAgain: false),
        ]
    }

    /// All old children may go, some by the merge and some by another write. The place keeps its priority: values come before removals.
    @Test(arguments: EmptiedPlaceCase.all.indices) func placeThatIsEmptiedAndFilled_hasThePriorityThatTheLogGivesIt(index: Int) throws {
        let what = EmptiedPlaceCase.all[index]
        let root: Node = ["a": what.before.with(priority: 2)]
        let log = FlakyLog(root: root)
        let it = try GatedHarness(root: root, log: log)
        let (one, second) = (Client.make(), Client.make())
        _ = it.ask(one, .merge(what.writes))
        _ = it.ask(second, .put(what.other.path, what.other.value))
        log.completeAll()
        it.finish()
        log.completeAll()
        #expect(it.hub.take(one) == ["ok 0"] && it.hub.take(second) == ["ok 0"])
        #expect(it.content == log.root, "\(it.content.json), in the log \(log.root.json)")
        let priority = what.after.child(".priority")
        var after = what.after
        after.set(.null, at: ".priority")
        #expect(log.root == ["a": after.with(priority: priority)], "\(log.root.json)")
        #expect(it.hub.database.counters.preparedAgain == (what.isPreparedAgain ? 1 : 0))
    }

    /// The rules drop the operation, so other clients' values at its place stay.
    @Test func placeOfWhichNothingIsStored_keepsWhatOthersWriteMeanwhile() throws {
        let log = FlakyLog()
        let it = try GatedHarness(#"{"rules":{".read":true,".write":true,"a":{"r":{".drop":"auth == null"}}}}"#, log: log)
        let (one, other) = (Client.make(), Client.user("u"))
        _ = it.ask(one, .merge(["a/r": 1, "a/y": 5, "a/z": 6]))
        _ = it.ask(other, .put("a/r", 9))
        log.completeAll()
        it.finish()
        log.completeAll()
        #expect(it.hub.take(one) == ["ok 0"] && it.hub.take(other) == ["ok 0"])
        #expect(it.content == ["a": ["r": 9, "y": 5, "z": 6]] && log.root == it.content, "\(it.content.json), \(log.root.json)")
    }

    /// The tree after the rules have shaped a write equals the log's, in the order of its operations.
    @Test(arguments: [
        #"{"rules":{".read":true,".write":true,"p":{"$k":{"s":{".drop":true}}}}}"#,
        #"{"rules":{".read":true,".write":true,"p":{"a":{".default":1}}}}"#,
    ]) func shapedWrite_isInTheTreeAsInTheLog(rules: String) throws {
        let root: Node = ["p": (["a": 1] as Node).with(priority: 2)]
        let log = FlakyLog(root: root)
        let it = try GatedHarness(rules, root: root, log: log)
        let value: Node = rules.contains("drop") ? ["s": 1] : .null
        _ = it.ask(.make(), .merge(["p/a": value, "p/b": 5]))
        log.completeAll()
        it.finish()
        #expect(it.content.node(at: "p/b") == 5)
        #expect(log.root == it.content, "\(it.content.json), in the log \(log.root.json)")
    }

    @Test func sums_areOfWhatIsStoredWhenTheyAreMade() throws {
        let it = try GatedHarness(root: ["n": ["a": 1, "b": 1, "c": 1]])
        let one = Client.make()
        _ = it.ask(one, .increments(["n/a", "n/b", "n/c"]))
        _ = it.ask(.make(), .increments(["n/b"]))
        it.finish()
        #expect(it.hub.take(one) == ["ok 0"])
        #expect(it.content == ["n": ["a": 2, "b": 3, "c": 2]])
    }

    // MARK: Decisions

    private static let open = #"{"rules":{"a":{".write":"root.child('open').val() == true"},"open":{".write":true},"b":{".write":true}}}"#

    @Test func dataThatTheRulesLookedAt_andThatChanges_letsThemDecideAgain() throws {
        let it = try GatedHarness(Self.open, root: ["open": true])
        let one = Client.make()
        _ = it.ask(one, Self.three)
        _ = it.ask(.make(), .put("open", false))
        it.finish()
        #expect(it.hub.take(one) == ["error 0 permission_denied"])
        #expect(it.content == ["open": false])
    }

    @Test func rulesThatChange_decideAgain() throws {
        let it = try GatedHarness(Self.open, root: ["open": true])
        let one = Client.make()
        _ = it.ask(one, Self.three)
        it.hub.database.replace(.denyAll)
        it.finish()
        #expect(it.hub.take(one) == ["error 0 permission_denied"])
    }

    @Test func writeThatIsAlwaysOvertaken_isUnavailable_andNothingOfItIsStored() throws {
        let it = try GatedHarness(Self.open, root: ["open": true])
        let (one, other) = (Client.make(), Client.make())
        it.hub.database.submit(Self.three, from: one, size: 200_000)
        it.hub.settle()
        var turns = 0
        while it.gate.count > 0 {
            turns += 1
            // The object changes each time, so the rules read another place.
            _ = it.ask(other, .put("open", turns % 2 == 0 ? true : ["x": 1]), .put("open", true), .put("a", .int(Int64(turns))))
            it.gate.runOne()
            it.hub.settle()
        }
        #expect(it.hub.take(one) == ["error 0 unavailable"])
        #expect(it.hub.database.counters.preparedAgain == EngineLimits.tight.preparations)
        #expect(it.content.child("a").leaf != .null)
    }

    @Test func writeThatIsNearlySmall_isMadeOnTheQueueAtLast() throws {
        let it = try GatedHarness(Self.open, root: ["open": true])
        let (one, other) = (Client.make(), Client.make())
        it.hub.database.submit(Self.three, from: one)
        it.hub.settle()
        while it.hub.database.counters.preparedAgain < EngineLimits.tight.preparations, it.gate.count > 0 {
            _ = it.ask(other, .put("a", 1))
            it.gate.runOne()
            it.hub.settle()
        }
        #expect(it.hub.take(one) == ["ok 0"])
        #expect(it.content.child("a") == ["x": 1, "y": 2, "z": 3])
    }

    private final class Listener: RefusalListener {
        let questions = Mutex<[RuleQuestion]>([])
        func wantsRefusal(now: Int64) -> Bool { true }
        func refused(_ request: RuledRequest, _ question: RuleQuestion) { questions.withLock { $0.append(question) } }
    }

    @Test func mergeThatNoDataCouldAllow_isRefusedAtItsFirstPlace_beforeAnythingIsMadeOfIt() throws {
        let listener = Listener()
        let rules = #"{"rules":{"a":{"$k":{".write":"auth.uid == $k"}}}}"#
        let it = try GatedHarness(rules, limits: .patient, refusals: listener)
        let one = Client.user("k2")
        let writes = (0..<50_000).map { TreeWrite(Path([Key("a"), Key("k\($0 == 0 ? 2 : $0)")]), WriteValue(1)) }
        #expect(it.ask(one, .write(writes)) == [])
        it.finish()
        #expect(it.hub.take(one) == ["error 0 permission_denied"])
        let question = try #require(listener.questions.withLock { $0.first })
        guard case .write(let locations) = question.operation else { throw CancellationError() }
        // The second write: the requested and the resulting value are one place.
        #expect(locations == ["a/k1"] && question.new == ["a": ["k1": 1]])
        #expect(!question.explained().isAllowed)
    }

    // MARK: Bounds

    @Test func placesOfOneWrite_areBounded_exceptForAdministrators() throws {
        let it = try GatedHarness()
        func merge(_ count: Int) -> Request { .write((0..<count).map { TreeWrite(Path([Key("k\($0)")]), WriteValue(1)) }) }
        let one = Client.make()
        _ = it.ask(one, merge(8), merge(9))
        it.finish()
        #expect(it.hub.take(one) == ["ok 0", "error 1 too_big"])
        let admin = Client(lane: 0, dialect: .realtime, identity: .admin)
        _ = it.ask(admin, merge(9))
        it.finish()
        #expect(it.hub.take(admin) == ["ok 0"])
    }

    @Test func memoryOfParkedWrites_isTakenFromTheBudget_andGivenBack() throws {
        let budget = MemoryBudget(100_000)
        let it = try GatedHarness(budget: budget)
        let (one, two) = (Client.make(), Client.make())
        it.hub.database.submit(.put("a", 1), from: one, size: 70_000)
        it.hub.settle()
        #expect(budget.used > 70_000)
        it.hub.database.submit(.put("b", 1), from: two, size: 70_000)
        #expect(it.hub.take(two) == ["error 0 unavailable"])
        it.finish()
        #expect(it.hub.take(one) == ["ok 0"])
        #expect(budget.used == 0)
        it.hub.database.submit(.put("b", 1), from: two, size: 70_000)
        it.finish()
        #expect(it.hub.take(two) == ["ok 0"])
        #expect(budget.used == 0)
    }

    @Test func memoryOfAParkedWrite_isHeldUntilItIsMade_howeverOftenItIsPrepared() throws {
        let budget = MemoryBudget(100_000)
        var limits = EngineLimits.tight
        limits.preparations = 10
        let rules = #"{"rules":{"a":{".write":"root.child('open').val() != 7"},"open":{".write":true},"b":{".write":true}}}"#
        let it = try GatedHarness(rules, root: ["open": true], limits: limits, budget: budget)
        let (one, other) = (Client.make(), Client.make())
        it.hub.database.submit(.put("a", 1), from: one, size: 70_000)
        it.hub.settle()
        let held = budget.used
        #expect(held > 70_000)
        // Others write a lot: it is merged in the background.
        for i in 0..<5 { _ = it.ask(other, .put(Path([Key("b"), Key("\(i)")]), 1)) }
        it.gate.runOne()
        it.hub.settle()
        #expect(it.gate.count > 0 && it.hub.take(one) == [] && budget.used == held)
        // They change what the decision depends on, so the write is prepared again.
        _ = it.ask(other, .put("open", 5))
        while it.hub.database.counters.preparedAgain == 0, it.gate.count > 0 {
            it.gate.runOne()
            it.hub.settle()
        }
        #expect(it.hub.database.counters.preparedAgain == 1 && it.hub.take(one) == [] && budget.used == held)
        it.finish()
        #expect(it.hub.take(one) == ["ok 0"])
        #expect(budget.used == 0)
    }

    @Test func oneUser_hasOnlySoManyPreparedAtOnce_overAnyNumberOfConnections() throws {
        var limits = EngineLimits.tight
        limits.preparationsOfUser = 2
        let it = try GatedHarness(limits: limits)
        let many = (0..<5).map { _ in Client.user("ada") }
        for one in many { _ = it.ask(one, Self.three) }
        #expect(it.gate.count == 2)
        let other = Client.user("bo")
        _ = it.ask(other, Self.three)
        #expect(it.gate.count == 3)
        it.finish()
        #expect(many.allSatisfy { it.hub.take($0) == ["ok 0"] } && it.hub.take(other) == ["ok 0"])
    }

    @Test func waitingBytes_countParkedRequests_untilTheyAreDone() throws {
        let it = try GatedHarness()
        let one = Client.make()
        it.hub.database.submit(.put("a", 1), from: one, size: 70_000)
        it.hub.database.submit(.get("a"), from: one, size: 300)
        it.hub.settle()
        #expect(it.hub.database.counters.waitingBytes == 70_300)
        it.finish()
        #expect(it.hub.database.counters.waitingBytes == 0)
    }

    // MARK: Observers

    @Test func observers_areToldOfALargeWriteOnce_andOnlyOfWhatHasChanged() throws {
        let it = try GatedHarness(root: ["a": ["x": 1]])
        let (above, below, away) = (Client.make(), Client.make(), Client.make())
        _ = it.ask(above, .listen("a"))
        _ = it.ask(below, .listen("a/y"))
        _ = it.ask(away, .listen("b"))
        _ = it.ask(.make(), Self.three)
        it.finish()
        #expect(it.hub.take(above) == [#"m a {"y":2,"z":3}"#])
        #expect(it.hub.take(below) == ["d a/y 2"])
        #expect(it.hub.take(away) == [])
    }

    @Test func observerWhosePermissionALargeWriteTakes_seesNothingOfIt() throws {
        let rules = #"{"rules":{".write":true,"a":{".read":"root.child('a/open').val() == true"}}}"#
        let it = try GatedHarness(rules, root: ["a": ["open": true]])
        let watcher = Client.make()
        _ = it.ask(watcher, .listen("a"))
        _ = it.ask(.make(), .merge(["a/open": false, "a/x": 1, "a/y": 2]))
        it.finish()
        #expect(it.hub.take(watcher) == ["cancelled /a"])
    }
}
