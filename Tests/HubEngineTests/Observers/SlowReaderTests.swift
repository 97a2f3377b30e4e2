import HubEngine
import JSONTree
import Synchronization
import Testing
import TestSupport

/// Clients that stop and resume reading, against a model. After a pause, the messages sent bring the client's cache up to date, never step back, and
/// show its own write before the answer to it.
@Suite(.timeLimit(.minutes(30))) struct SlowReaderTests {
    /// The kind of an observer.
    private enum Kind: CaseIterable {
        case root, own, place, window, value, children
    }

    /// A client and its lane. Lines wait unread while it is slow; its lane reports that, and when all are read.
    private final class Reader {
        let client: Client
        let kind: Kind
        let number: Int
        let path: Path
        var isSlow = false
        var isReported = false
        var unread: [String] = []
        var cache = Node.null
        /// The values written below `own`, by request number.
        var written: [Int64: Int64] = [:]
        var acknowledged = 0
        var mostUnread = 0

        init(_ number: Int, _ kind: Kind) {
            client = Client(lane: number % 2, dialect: kind == .value || kind == .children ? .observe : .realtime)
            self.number = number
            self.kind = kind
            path = kind == .root ? .root : kind == .own ? "own" : "a"
        }

        var query: TreeQuery? { kind == .window ? TreeQuery(index: .key, limit: 3, viewFrom: .last) : nil }
        var style: ObserverStyle {
            switch kind {
            case .root, .own, .place: .patches(tag: nil)
            case .window: .patches(tag: 7)
            case .value: .events(id: 1, kinds: .value)
            case .children: .events(id: 1, kinds: .children)
            }
        }
        var ownPath: Path { Path([Key("own"), Key("c\(number)")]) }
        var seesOwn: Bool { kind == .root || kind == .own }

        func apply(_ line: String) throws {
            let before = seesOwn ? cache.node(at: ownBelow) : .null
            for part in line.split(separator: ";") {
                let words = part.split(separator: " ").map(String.init)
                switch words[0] {
                case "d": set(words.count == 3 ? try Path(parsing: words[1]) : .root, try Node(json: words[words.count - 1]))
                case "m": try merge(words.count == 3 ? try Path(parsing: words[1]) : .root, words[words.count - 1])
                case "initial", "value": cache = try Node(json: words[2])
                case "added", "changed": cache.set(try Node(json: words[3]), at: Path([Key(words[2])]))
                case "removed": cache.set(.null, at: Path([Key(words[2])]))
                case "ok":
                    guard let value = written.removeValue(forKey: Int64(words[1])!) else { break }
                    acknowledged += 1
                    if seesOwn { #expect(cache.node(at: ownBelow) == .int(value), "the echo comes before the answer") }
                case "probe": break
                default: Issue.record("unexpected: \(line)")
                }
            }
            if case .int(let old) = before, case .int(let new) = cache.node(at: ownBelow) {
                #expect(new >= old, "nothing older after newer")
            }
        }

        private var ownBelow: Path { ownPath.dropping(path.depth) }

        private func set(_ absolute: Path, _ value: Node) {
            #expect(path.contains(absolute))
            cache.set(value, at: absolute.dropping(path.depth))
        }

        private func merge(_ base: Path, _ json: String) throws {
            for (key, value) in try mergeMembers(json) { set(base.appending(key), value) }
        }
    }

    /// With few inline bytes most values are encoded in the background.
    @Test(arguments: [
        (1, 64, 1 << 16), (2, 2, 1 << 16), (3, 64, 1 << 16), (4, 8, 1 << 16), (5, 64, 4), (6, 8, 8), (7, 2, 20), (8, 64, 30),
    ] as [(UInt64, Int, Int)])
    func slowPhases_converge_andKeepTheOrder(seed: UInt64, stalePlaces: Int, inlineBytes: Int) throws {
        var random = SeededRandom(seed)
        var limits = EngineLimits()
        limits.stalePlaces = stalePlaces
        limits.inlineBytes = inlineBytes
        limits.answerBytes = seed % 2 == 0 ? 60 : 1 << 20
        let hub = EngineHarness(limits: limits)
        let readers = (0..<18).map { Reader($0, Kind.allCases[$0 % Kind.allCases.count]) }
        var token: Int64 = 1
        for reader in readers {
            hub.database.submit(.observe(reader.path, query: reader.query, style: reader.style, hash: ""), from: reader.client, token: 0)
        }
        /// Reads all output, and reports to the database as a lane does.
        func read(_ reader: Reader) throws {
            while true {
                reader.unread += hub.take(reader.client)
                guard !reader.unread.isEmpty || reader.isReported else { return }
                let isProbed = reader.unread.contains("probe")
                for line in reader.unread { try reader.apply(line) }
                reader.unread = []
                if reader.isReported || isProbed { hub.database.submit(.drained, from: reader.client) }
                reader.isReported = false
            }
        }
        for step in 0..<500 {
            let keys = ["x", "y", "z", "1", "2", "10"]
            func randomPath() -> Path {
                Path([Key("a")] + (0..<Int.random(in: 0...2, using: &random)).map { _ in Key(keys.randomElement(using: &random)!) })
            }
            func randomValue() -> Node {
                switch Int.random(in: 0..<6, using: &random) {
                case 0: .null
                case 1: .object(
                    (0..<3).map { _ in (Key(keys.randomElement(using: &random)!), Node.int(Int64.random(in: 0..<3, using: &random))) })
                default: .int(Int64(step))
                }
            }
            switch Int.random(in: 0..<10, using: &random) {
            case 0: readers.randomElement(using: &random)!.isSlow.toggle()
            case 1...3:
                let writer = readers.randomElement(using: &random)!
                hub.database.submit(.put(writer.ownPath, .int(token)), from: writer.client, token: token)
                writer.written[token] = token
                token += 1
            case 4:
                let (one, other) = (randomPath(), randomPath())
                if !one.contains(other), !other.contains(one) {
                    hub.database.submit(
                        .write([TreeWrite(one, WriteValue(randomValue())), TreeWrite(other, WriteValue(randomValue()))]), from: .make())
                }
            default: hub.database.submit(.put(randomPath(), randomValue()), from: .make())
            }
            for reader in readers {
                if !reader.isSlow {
                    try read(reader)
                    continue
                }
                reader.unread += hub.take(reader.client)
                reader.mostUnread = max(reader.mostUnread, reader.unread.count)
                if reader.unread.count > 3, !reader.isReported {
                    reader.isReported = true
                    hub.database.submit(.congested, from: reader.client)
                }
            }
        }
        // The requests released by one reader may cause output for others that have already read, so repeat.
        var before: Int
        repeat {
            before = hub.database.counters.requests
            for reader in readers { try read(reader) }
        } while hub.database.counters.requests != before
        for reader in readers {
            #expect(reader.written.isEmpty, "every request is answered")
            let truth = try #require(hub.ask(.make(), .get(reader.path, query: reader.query)).last { $0.hasPrefix("value") })
            #expect(reader.cache == (try Node(json: String(truth.dropFirst("value 0 ".count)))), "\(reader.kind)")
            if reader.kind != .children {
                #expect(reader.mostUnread < 12, "\(reader.kind): what waits does not grow with what others write")
            }
        }
        #expect(readers.reduce(0) { $0 + $1.acknowledged } > 100)
        let counters = hub.database.counters
        #expect(counters.conflated > 200 && counters.suspended == 0 && counters.suspensions > 10)
    }

    @Test func suspendedClient_costsNothingPerWrite_andIsCaughtUpInOneMessage() {
        let hub = EngineHarness()
        let (slow, fast) = (Client.make(), Client.make())
        #expect(hub.ask(slow, .listen("a"), .congested) == ["ok 0"])
        #expect(hub.ask(fast, .listen("a")) == ["ok 0"])
        for i in 1...100 { _ = hub.ask(.make(), .put(Path([Key("a"), Key(String(i % 2))]), .int(Int64(i)))) }
        #expect(hub.take(slow) == [])
        #expect(hub.take(fast).count == 100)
        let caughtUp = hub.ask(slow, .drained)
        #expect(caughtUp == [#"m a {"0":100,"1":99}"#] || caughtUp == [#"m a {"1":99,"0":100}"#])
        #expect(hub.ask(slow, .drained) == [], "once")
    }

    @Test func stalePlaces_overTheLimit_becomeTheWholePlace() {
        for (limit, isWhole) in [(2, true), (3, false)] {
            var limits = EngineLimits()
            limits.stalePlaces = limit
            let hub = EngineHarness(limits: limits)
            let slow = Client.make()
            _ = hub.ask(slow, .listen("a"), .congested)
            for key in ["x", "y", "z"] { _ = hub.ask(.make(), .put(Path([Key("a"), Key(key)]), 1)) }
            #expect(hub.ask(slow, .drained).first?.hasPrefix("d a {") == isWhole)
        }
    }

    @Test func requestsOfASlowClient_wait_andAreAnsweredAfterItIsCaughtUp() {
        let hub = EngineHarness()
        let slow = Client.make()
        _ = hub.ask(slow, .listen("a"), .congested)
        _ = hub.ask(.make(), .put("a/x", 1))
        #expect(hub.ask(slow, .put("a/y", 2), .get("a/x"), .mark(bytes: 9)) == [])
        #expect(hub.ask(slow, .drained) == ["d a/x 1", "d a/y 2", "ok 0", "value 1 1", "marked 9"])
    }

    @Test func lostSlowClient_hasItsWritesCarriedOut_thenItsOnDisconnect() {
        let hub = EngineHarness()
        let slow = Client.make()
        _ = hub.ask(slow, .listen("a"), .onDisconnect([TreeWrite("gone", WriteValue(1))]), .congested, .put("a", 1), .end)
        #expect(hub.ask(.make(), .get(.root)) == [#"value 0 {"a":1,"gone":1}"#])
        #expect(hub.database.counters.suspended == 0)
    }

    @Test func lostClientBehindItsProbe_hasAllItsWritesCarriedOut() {
        var limits = EngineLimits()
        limits.answerBytes = 20
        let hub = EngineHarness(root: ["a": .string(String(repeating: "x", count: 30))], limits: limits)
        let client = Client.make()
        _ = hub.ask(client, .get("a"), .put("b", 1), .get("a"), .put("c", 2), .put("d", 3), .end)
        for (path, value) in [("b", 1), ("c", 2), ("d", 3)] as [(Path, Int)] {
            #expect(hub.ask(.make(), .get(path)) == ["value 0 \(value)"])
        }
    }

    @Test func expiredSlowClient_endsAtOnce_withTheWritesItAskedForBefore() {
        for isSuspended in [true, false] {
            var limits = EngineLimits()
            limits.answerBytes = isSuspended ? 1 << 20 : 1
            let hub = EngineHarness(limits: limits)
            let slow = Client.make()
            _ = hub.ask(slow, .put("a", 0), .listen("a"), isSuspended ? .congested : .drained)
            if !isSuspended { _ = hub.ask(slow, .listen("b")) }
            let told = hub.ask(
                slow, .put("c", 1), .onDisconnect([TreeWrite("gone", WriteValue(2))]), .revoke(notice: Array("expired".utf8)))
            #expect(told == ["ok 0", "ok 1", "expired", "close"], "suspended: \(isSuspended)")
            #expect(hub.ask(.make(), .get("c")).first == "value 0 1" && hub.ask(.make(), .get("gone")).first == "value 0 2")
            _ = hub.ask(.make(), .put("a", 3))
            #expect(hub.take(slow) == [], "nothing is pushed without a right to it")
            #expect(hub.database.counters.suspended == 0)
        }
    }

    @Test func answersBeyondTheWindow_waitUntilTheyAreTaken() {
        for (bytes, isHeld) in [(20, true), (200, false)] {
            var limits = EngineLimits()
            limits.answerBytes = bytes
            let hub = EngineHarness(root: ["a": .string(String(repeating: "x", count: 30))], limits: limits)
            let client = Client.make()
            let first = hub.ask(client, .get("a"), .get("a"))
            #expect(first.count == 2 && (first.last == "probe") == isHeld)
            #expect(hub.ask(client, .drained).count == (isHeld ? 2 : 0))
        }
    }

    /// Marks and probes survive a batch that is rolled back; a suspended client's missed changes include the rollback.
    @Test func givenUpBatch_losesNoMarkAndNoProbe_andSuspendedClientsConverge() {
        var limits = EngineLimits.patient
        limits.answerBytes = 20
        let log = FlakyLog()
        let hub = EngineHarness(root: ["a": ["x": 1], "long": .string(String(repeating: "x", count: 30))], log: log, limits: limits)
        let (slow, writer, asker) = (Client.make(), Client.make(lane: 1), Client.make())
        _ = hub.ask(slow, .listen("a"), .congested)
        _ = hub.ask(writer, .put("a/y", 2), .mark(bytes: 5))
        _ = hub.ask(asker, .get(.root), .mark(bytes: 6))
        #expect(hub.take(writer) == [] && hub.take(asker) == [])
        log.refuse()
        #expect(hub.take(writer) == ["error 0 unavailable", "marked 5"])
        let long = String(repeating: "x", count: 30)
        #expect(hub.take(asker) == ["value 0 {\"a\":{\"x\":1},\"long\":\"\(long)\"}", "probe"],
            "its mark is held until it has taken its answers")
        #expect(hub.ask(asker, .drained) == ["marked 6"])
        #expect(hub.ask(slow, .drained) == ["d a/y null"])
        #expect(log.isIdle)
    }

    @Test func requestBytes_areCountedUntilTheyAreCarriedOut() {
        var limits = EngineLimits()
        limits.waitingBytes = 100
        let hub = EngineHarness(limits: limits)
        let client = Client.make()
        #expect(hub.database.submit(.put("a", 1), from: client, size: 100) == false)
        hub.settle()
        #expect(hub.database.counters.waitingBytes == 0)
        #expect(hub.database.submit(.put("a", 2), from: client, size: 101))
        hub.settle()
        #expect(hub.database.counters.waitingBytes == 0)
    }
}
