import Commits
import JSONTree
import SecurityRules
import TestSupport
import Testing

/// The stages of a commit, each by itself.
@Suite(.timeLimit(.minutes(30))) struct StageTests {
    @Test func serverValues_resolveInTheTreeOfTheirTurn() throws {
        var write = TreeWrite("t", .null)
        write.value.deferred = [WriteValue.Deferred(path: .root, target: .value, value: .timestamp)]
        #expect(ServerValues.resolve(write, in: .null, now: 42) == 42)
        write.value.deferred = [WriteValue.Deferred(path: .root, target: .value, value: .increment(5))]
        #expect(ServerValues.resolve(write, in: ["t": 3], now: 42) == 8)
        #expect(ServerValues.resolve(TreeWrite("t", "plain"), in: ["t": 3], now: 42) == "plain")
    }

    @Test func shape_refusesWhatTheTreeCannotHold() throws {
        var deep = Node.int(1)
        for _ in 0..<31 { deep = ["a": deep] }
        try WriteShape.check(deep, of: TreeWrite("x", deep))
        #expect(throws: Failure.tooDeep) { try WriteShape.check(["a": deep], of: TreeWrite("x", deep)) }
        var priority = TreeWrite("x", 1)
        priority.part = .priority
        try WriteShape.check("p", of: priority)
        #expect(throws: Failure.badPriority) { try WriteShape.check(["a": 1], of: priority) }
    }

    @Test func candidate_sharesWhatIsNotWritten_andLeavesItsBase() throws {
        let base = ["a": ["b": 1], "c": ["d": 2]] as Node
        let candidate = try Candidate([TreeWrite("a/b", 5), TreeWrite("e", 6)], on: base, now: 9)
        #expect(candidate.tree == ["a": ["b": 5], "c": ["d": 2], "e": 6])
        #expect(candidate.base.isIdentical(to: base))
        #expect(candidate.tree.child("c").isIdentical(to: base.child("c")))
        #expect(candidate.paths.map(\.description) == ["/a/b", "/e"])
        #expect(candidate.operations.map(\.value) == [5, 6])
    }

    @Test func permission_asksTheRules_butForAdministratorsAndTheHub() throws {
        let rules = try RuleSet(parsing: #"{"rules":{"open":{".write":true},"own":{".write":"auth.uid === 'u'"}}}"#)
        func allows(_ origin: WriteOrigin, _ place: String) throws -> Bool {
            var work = Int.max
            let candidate = try Candidate([TreeWrite(place, 1)], on: .null, now: 0)
            return WritePermission(rules: rules, origin: origin).allows(candidate, textWork: &work)
        }
        let user = Identity(auth: ["uid": "u"])
        #expect(try allows(.client(.anonymous), "open"))
        #expect(try !allows(.client(.anonymous), "own"))
        #expect(try allows(.client(user), "own"))
        #expect(try !allows(.client(user), "closed"))
        #expect(try allows(.client(.admin), "closed"))
        #expect(try allows(.system(.accountDeletion), "closed"))
        #expect(try !allows(.sessionEnd(PendingSession(id: "s", auth: user.auth)), "closed"), "what a session left is asked about")
    }

    @Test func permission_findsTheFirstWrite_thatNoDataCouldAllow() throws {
        let rules = try RuleSet(parsing: #"{"rules":{"open":{".write":"data.exists()"}}}"#)
        let permission = WritePermission(rules: rules, origin: .client(.anonymous))
        #expect(permission.firstImpossible([TreeWrite("open", 1)], now: 0) == nil)
        let write = try #require(permission.firstImpossible([TreeWrite("open", 1), TreeWrite("shut", 1)], now: 0))
        let question = permission.question(write, on: .null, now: 0)
        guard case .write(let paths) = question.operation else { throw TestFailure() }
        #expect(paths.map(\.description) == ["/shut"])
    }

    @Test func origin_saysWhatBecomesDurableWithTheWrites() {
        #expect(WriteOrigin.client(.admin).pendingChanges.isEmpty)
        #expect(WriteOrigin.system(.accountDeletion).pendingChanges.isEmpty)
        #expect(WriteOrigin.sessionEnd(PendingSession(id: "s")).pendingChanges == [.forget(session: "s")])
    }

    /// Keys of 768 bytes, 30 levels deep: few places may have many bytes.
    @Test func recentCommits_keepSoManyBytes_howeverLongTheirKeysAre() {
        let long = Path((0..<30).map { Key(String(repeating: "k", count: 760) + "\($0)") })
        let bytes = long.appending(Key("x")).memoryBytes
        #expect(bytes > 30 * 760 && bytes < 30 * 1_000)
        var recent = RecentCommits(after: 0, places: 1_000, bytes: 4 * bytes, commits: 100)
        for sequence in 1...10 as ClosedRange<UInt64> {
            if sequence == 6 { recent.retain() }
            recent.record([long.appending(Key("x"))], sequence: sequence)
            #expect(recent.bytes <= 4 * bytes, "also while a write is prepared")
        }
        #expect(recent.places(since: 5) == nil && recent.places(since: 6)?.count == 4)
        recent.record([long.appending(Key("x")), long.appending(Key("x"))], sequence: 11)
        recent.rollBack(to: 10)
        #expect(recent.bytes == 2 * bytes && recent.places(since: 8)?.count == 2)
    }

    @Test func recentCommits_areTheLastOnes_alsoWhenSomeWereTakenBack() {
        var recent = RecentCommits(after: 0, places: 100, bytes: 1 << 20, commits: 5)
        var kept: [(sequence: UInt64, places: [Path])] = []
        var sequence: UInt64 = 0
        for i in 1...60 {
            sequence += 1
            let places = (0...i % 3).map { Path([Key("c\(i)"), Key("p\($0)")]) }
            recent.record(places, sequence: sequence)
            kept = (kept + [(sequence, places)]).suffix(5)
            if i % 7 == 0 {
                sequence -= UInt64(i % 4)
                recent.rollBack(to: sequence)
                kept.removeAll { $0.sequence > sequence }
            }
            #expect(recent.places(since: (kept.first?.sequence ?? sequence + 1) - 1) == kept.flatMap(\.places))
            if kept.count == 5, let first = kept.first, first.sequence > 1 { #expect(recent.places(since: first.sequence - 2) == nil) }
        }
    }

    @Test(arguments: Array(1...30) as [UInt64])
    func recentCommits_sayWhatWasWrittenSince_likeAList(seed: UInt64) {
        var random = SeededRandom(seed)
        var recent = RecentCommits(after: 0, places: 20, bytes: 1 << 20, commits: 5)
        var all: [(sequence: UInt64, place: Path)] = []
        var (sequence, followers): (UInt64, Int) = (0, 0)
        for _ in 0..<300 {
            switch Int.random(in: 0..<10, using: &random) {
            case 0:
                recent.retain()
                followers += 1
            case 1 where followers > 0:
                recent.release()
                followers -= 1
            case 2:
                let target = sequence - min(sequence, UInt64.random(in: 0..<4, using: &random))
                recent.rollBack(to: target)
                all.removeAll { $0.sequence > target }
                sequence = target
            case 3: sequence += 1
            default:
                sequence += 1
                let places = (0..<Int.random(in: 1...3, using: &random)).map { Path([Key("p\($0)"), Key("c\(sequence)")]) }
                recent.record(places, sequence: sequence)
                all += places.map { (sequence, $0) }
            }
            let since = sequence - min(sequence, UInt64.random(in: 0..<12, using: &random))
            let expected = all.filter { $0.sequence > since }.map(\.place)
            if let known = recent.places(since: since) { #expect(known == expected) }
            // Remembered: the last commits while there is no follower, the last places while there is one.
            if expected.isEmpty || (followers > 0 && sequence - since < 3) { #expect(recent.places(since: sequence) == []) }
        }
    }
}

private struct TestFailure: Error {}

extension TreeWrite {
    fileprivate init(_ place: String, _ value: Node) {
        self.init(Path(place.split(separator: "/").map { Key(String($0)) }), WriteValue(value))
    }
}
