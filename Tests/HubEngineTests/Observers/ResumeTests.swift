import HubEngine
import JSONTree
import LiveQueries
import SecurityRules
import Testing
import TestSupport

/// `since`: which events an observer is sent when it comes back, and when it starts from scratch.
@Suite(.timeLimit(.minutes(30))) struct ResumeTests {
    private static let kinds: EventKinds = [.added, .changed, .removed, .ready, .resumable]

    private func observe(_ path: Path, since: Position? = nil, _ kinds: EventKinds = kinds) -> Request {
        .observe(path, style: .events(id: 7, kinds: kinds), hash: "", since: since)
    }

    /// The position of a client that has seen everything and disconnected.
    private func gone(_ hub: EngineHarness, _ path: Path) throws -> Position {
        let client = Client(lane: 0, dialect: .observe)
        let lines = hub.ask(client, observe(path))
        hub.database.submit(.end, from: client)
        hub.settle()
        let words = try #require(lines.first).split(separator: " ")
        return Position(epoch: String(words[3]), sequence: UInt64(words[2].split(separator: "\n")[0]) ?? 0)
    }

    private func hub(_ change: (inout EngineLimits) -> Void = { _ in }, rules: RuleSet = .allowAll) -> EngineHarness {
        var limits = EngineLimits()
        change(&limits)
        return EngineHarness(rules: rules, root: ["a": ["x": 1]], limits: limits, format: EventLines())
    }

    private func comeBack(_ hub: EngineHarness, _ path: Path, _ position: Position, _ client: Client? = nil) -> String {
        hub.ask(client ?? Client(lane: 0, dialect: .observe), observe(path, since: position)).joined().replacing(position.epoch, with: "E")
    }

    private let client = Client(lane: 0, dialect: .observe)
    private let writer = Client(lane: 0, dialect: .observe)
    private let later = Client(lane: 0, dialect: .observe)

    @Test func missedCommits_areToldInOrder_eachWithItsNumber() throws {
        let hub = hub()
        let position = try gone(hub, "a")
        _ = hub.ask(writer, .put("a/y", 2), .put("other", 1), .merge(["a/x": 5, "a/z": 3]), .put("a/y", .null))
        #expect(comeBack(hub, "a", position, later) == """
            observed 0 4 E -
            added 7 y x 2 @1
            added 7 z y 3 @3 more
            changed 7 x - 5 @3
            removed 7 y - 2 @4
            ready 7 @4

            """)
        _ = hub.ask(writer, .put("a/x", 6))
        #expect(hub.take(later) == ["changed 7 x - 6 @5\n"], "and goes on")
    }

    @Test func whoMissedMoreThanIsKept_beginsAnew() throws {
        for (most, isReset) in [(4, false), (3, true)] {
            let hub = hub { $0.resumeCommits = most }
            let position = try gone(hub, "a")
            for number in 1...4 { _ = hub.ask(Client(lane: 0, dialect: .observe), .put("b", .int(Int64(number)))) }
            let told = comeBack(hub, "a", position)
            #expect(told.hasPrefix("observed 0 4 E \(isReset ? "reset\nadded 7 x - 1 @4 more" : "-")\nready 7 @4"), "\(told)")
        }
        // Events, bytes and time.
        for (most, isReset) in [(2, false), (1, true)] {
            let hub = hub { $0.resumeEvents = most }
            let position = try gone(hub, "a")
            for key in ["b", "c"] as [Key] { _ = hub.ask(Client(lane: 0, dialect: .observe), .put(Path(["a", key]), 1)) }
            #expect(comeBack(hub, "a", position).contains("reset") == isReset)
        }
        for (most, isReset) in [(1 << 20, false), (1_000, true)] {
            let hub = hub { $0.resumeBytes = most }
            let position = try gone(hub, "a")
            for number in 1...20 { _ = hub.ask(Client(lane: 0, dialect: .observe), .put("b", .int(Int64(number)))) }
            #expect(comeBack(hub, "a", position).contains("reset") == isReset)
        }
        for (ms, isReset) in [(299_999, false), (300_001, true)] as [(Int64, Bool)] {
            let hub = hub()
            let position = try gone(hub, "a")
            _ = hub.ask(Client(lane: 0, dialect: .observe), .put("b", 1))
            hub.time.advance(ms: ms)
            #expect(comeBack(hub, "a", position).contains("reset") == isReset)
        }
    }

    /// The ring may have moved meanwhile: what is missed of the new one does not follow from the commits.
    @Test func observerOfAStoredRegion_startsFromScratch() throws {
        let rules = try RuleSet(parsing: #"{"rules":{".read":true,".write":true,"p":{".geoIndex":{"lat":"lat","lng":"lng"}}}}"#)
        let kinds: [EventKinds] = [[.added, .removed, .resumable], [.value, .resumable]]
        for kinds in kinds {
            let hub = EngineHarness(rules: rules, format: EventLines())
            _ = hub.ask(writer, .put("", ["p": ["a": ["lat": 1, "lng": 1], "b": ["lat": 5, "lng": 5]], "zone": try Node(json: "[0,0,2,2]")]))
            let query = try Query(TreeQuery(index: nil), within: WithinQuery(.stored("zone")))
            func observe(_ since: Position?) -> String {
                let client = Client(lane: 0, dialect: .observe)
                defer { hub.database.submit(.end, from: client) }
                return hub.ask(client, .observe("p", query: query, style: .events(id: 7, kinds: kinds), hash: "", since: since)).joined()
            }
            let first = observe(nil)
            let words = first.split { " \n".contains($0) }
            #expect(first.contains(#"{"lat":1,"lng":1}"#) && !first.contains(#"{"lat":5,"lng":5}"#), "\(first)")
            let position = Position(epoch: String(words[3]), sequence: UInt64(words[2]) ?? 0)
            _ = hub.ask(writer, .put("zone", try Node(json: "[4,4,6,6]")))
            let back = observe(position)
            #expect(back.contains(" reset\n"), "\(back)")
            #expect(back.contains(#"{"lat":5,"lng":5}"#) && !back.contains(#"{"lat":1,"lng":1}"#), "\(back)")
        }
    }

    /// Removing an empty place keeps no tree, but its path is kept: paths may be long and many.
    @Test func placesOfCommits_areCounted_asBytesAndAsWork() throws {
        let long = Path((0..<28).map { Key(String(repeating: "k", count: 760) + "\($0)") })
        for (most, isReset) in [(1 << 20, false), (100_000, true)] {
            let hub = hub { $0.resumeBytes = most }
            let position = try gone(hub, "a")
            for _ in 1...10 { _ = hub.ask(Client(lane: 0, dialect: .observe), .put(long, .null)) }
            #expect(comeBack(hub, "a", position).contains("reset") == isReset)
        }
        for (most, isReset) in [(50, false), (49, true)] {
            let hub = hub { $0.resumePlaces = most }
            let position = try gone(hub, "a")
            for _ in 1...10 {
                let writes = (1...5).map { TreeWrite(Path([Key("p\($0)")]), WriteValue(.null)) }
                _ = hub.ask(Client(lane: 0, dialect: .observe), .write(writes))
            }
            #expect(comeBack(hub, "a", position).contains("reset") == isReset)
        }
    }

    /// A query that shows one child gets no events for the others, but they are checked.
    @Test func childrenThatAQueryDoesNotShow_areCounted_overAllCommits() throws {
        let query = TreeQuery(index: .child("n"), limit: 1, viewFrom: .first)
        for (most, isReset) in [(30, false), (29, true)] {
            let hub = hub { $0.inlineChildren = most }
            var request = Request.observe("a", query: query, style: .events(id: 7, kinds: Self.kinds), hash: "")
            _ = hub.ask(writer, .put("a", ["first": ["n": 0]]))
            let first = Client(lane: 0, dialect: .observe)
            let line = try #require(hub.ask(first, request).first)
            let words = line.split(separator: " ")
            let position = Position(epoch: String(words[3]), sequence: UInt64(words[2].split(separator: "\n")[0]) ?? 0)
            hub.database.submit(.end, from: first)
            for round in 1...10 {
                let writes = (1...3).map { TreeWrite(Path(["a", Key("k\($0)"), "n"]), WriteValue(.int(Int64(round)))) }
                _ = hub.ask(Client(lane: 0, dialect: .observe), .write(writes))
            }
            request = .observe("a", query: query, style: .events(id: 7, kinds: Self.kinds), hash: "", since: position)
            let told = hub.ask(Client(lane: 0, dialect: .observe), request).joined()
            #expect(told.contains("reset") == isReset, "\(told)")
        }
    }

    @Test func positionOfAnother_beginsAnew() throws {
        let hub = hub()
        var position = try gone(hub, "a")
        position.epoch = "other"
        #expect(comeBack(hub, "a", position).contains("reset\n"))
        position = try gone(hub, "a")
        position.sequence = 99
        #expect(comeBack(hub, "a", position).contains("reset\n"), "one that was not yet")
    }

    /// A change that was unreadable at its commit is not sent later, even if the place is readable by now.
    @Test func commitsThatMightNotBeRead_areNotTold() throws {
        let rules = try RuleSet(parsing: #"{"rules":{".write":true,"a":{".read":"root.child('open').val() == 1"},"open":{".read":true}}}"#)
        let hub = hub(rules: rules)
        _ = hub.ask(writer, .put("open", 1))
        let position = try gone(hub, "a")
        _ = hub.ask(writer, .put("open", 2), .put("a/secret", 1), .put("a/secret", .null), .put("open", 1))
        let told = comeBack(hub, "a", position, later)
        #expect(told.contains("reset\n") && !told.contains("secret"), "\(told)")
        // Nor after a deploy of other rules.
        let again = try gone(hub, "a")
        _ = hub.ask(writer, .put("a/x", 7))
        hub.database.replace(rules)
        #expect(comeBack(hub, "a", again).contains("reset\n"))
    }

    @Test func states_areToldAgain_whenTheyDiffer() throws {
        let hub = hub()
        for kinds in [[.value, .ready, .resumable], [.count, .ready, .resumable]] as [EventKinds] {
            let position = try gone(hub, "a")
            let first = Client(lane: 0, dialect: .observe)
            let same = hub.ask(first, observe("a", since: position, kinds)).joined()
            #expect(!same.contains("reset") && !same.contains("value") && !same.contains("count"), "\(same)")
            _ = hub.ask(writer, .put(Path(["a", Key("n\(kinds.rawValue)")]), 1))
            let second = Client(lane: 0, dialect: .observe)
            let other = hub.ask(second, observe("a", since: position, kinds)).joined()
            #expect(!other.contains("reset") && other.contains(kinds.contains(.value) ? "value 7 {" : "count 7 "), "\(other)")
        }
    }

    @Test func commits_areKeptOnlyForThoseWhoAsked() throws {
        let hub = hub()
        _ = hub.ask(client, .events("a"))
        _ = hub.ask(writer, .put("a/y", 1))
        let position = try gone(hub, "a")
        #expect(position.sequence == 1)
        let old = Position(epoch: position.epoch, sequence: 0)
        #expect(comeBack(hub, "a", old).contains("reset\n"), "before anybody asked, nothing was kept")
    }
}
