import Dispatch
import Glibc
import HubEngine
import Journal
import JSONTree
import Scheduling
import SecurityRules
import SQLiteJournal
import Synchronization
import Testing
import TestSupport

/// Databases that apply another one's commits.
@Suite(.timeLimit(.minutes(30))) struct FollowerTests {
    enum Kind: CaseIterable { case memory, sqlite }

    /// Records the events of a journal's tail.
    private final class Events: Sendable {
        private let heard = Mutex<[String]>([])
        var listener: @Sendable (JournalEvent) -> Void {
            { event in
                self.heard.withLock {
                    switch event {
                    case .refuses(let reason, _): $0.append("refuses \(reason.rawValue)")
                    case .takesCommits: $0.append("takes")
                    case .followingEnded(let error): $0.append("ended: \(error)")
                    }
                }
            }
        }
        var all: [String] { heard.withLock { $0 } }
    }

    private struct State: Equatable {
        var root: Node
        var sequence: UInt64
        var pending: [PendingSession]
    }

    private func state(_ hub: EngineHarness) -> State {
        let state = Mutex(State(root: .null, sequence: 0, pending: []))
        hub.database.snapshot { root, sequence, pending in state.withLock { $0 = State(root: root, sequence: sequence, pending: pending) } }
        hub.database.queue.sync {}
        return state.withLock { $0 }
    }

    /// Waits until a follower has everything that its leader has made durable.
    private func catchUp(_ follower: EngineHarness, with leader: EngineHarness) {
        let marker = Client.make()
        leader.database.submit(.mark(bytes: 1), from: marker)
        // The marker's answer arrives once everything before it is durable and sent.
        while leader.take(marker).isEmpty { sched_yield() }
        let sequence = state(leader).sequence
        while state(follower).sequence < sequence { sched_yield() }
        follower.settle()
    }

    /// Two clients that listen to the same place: one at the leader, one at the follower.
    private final class Pair {
        let path: Path
        let clients: [Client]
        var caches: [Node] = [.null, .null]
        var lines: [[String]] = [[], []]
        init(_ path: Path, lane: Int) {
            self.path = path
            clients = [Client.make(lane: lane), Client.make(lane: lane)]
        }

        func collect(_ hubs: [EngineHarness]) throws {
            for (i, hub) in hubs.enumerated() {
                for line in hub.take(clients[i]) {
                    lines[i].append(line)
                    let parts = line.split(separator: " ", maxSplits: 2, omittingEmptySubsequences: false).map(String.init)
                    switch parts[0] {
                    case "d": caches[i].set(try Node(json: parts[2]), at: try Path(parsing: parts[1]).dropping(path.depth))
                    case "m":
                        let base = try Path(parsing: parts[1])
                        for (key, value) in try mergeMembers(parts[2]) {
                            caches[i].set(value, at: base.appending(key).dropping(path.depth))
                        }
                    case "cancelled": caches[i] = "cancelled"
                    default: break
                    }
                }
            }
        }
    }

    private static let rules = #"""
        {"rules":{".write":true,"a":{".read":"root.child('open').val() !== 0",".indexOn":["n"]},"b":{".read":true,".indexOn":["n"]},
            "open":{".read":true},"c":{".read":true}}}
        """#

    @Test(arguments: Kind.allCases, [1, 2, 3] as [UInt64])
    func follower_andAllItsObservers_agreeWithTheLeader(kind: Kind, seed: UInt64) throws {
        var random = SeededRandom(seed)
        func roll(_ sides: Int) -> Int { Int.random(in: 0..<sides, using: &random) }
        let folder = try TemporaryFolder()
        var settings = JournalStore.Settings()
        settings.sliceBytes = 2_000
        let store = kind == .sqlite ? try JournalStore.open(folder: folder.path, settings: settings, scheduler: .system()) : nil
        let journal: any Journal = store?.journal(for: "main") ?? MemoryJournal(keeping: 5)
        let rules = try RuleSet(parsing: Self.rules)
        let leader = EngineHarness(rules: rules, log: journal)
        let follower = EngineHarness(rules: rules, log: journal, follows: true)
        let hubs = [leader, follower]
        let writers = [Client.make(), Client.make(lane: 1)]
        let keys = ["x", "y", "z", "1", "10"]
        func path() -> Path {
            Path(([["a", "b", "c", "open"][roll(4)]] + (0..<roll(4)).map { _ in keys[roll(5)] }).map { Key($0) })
        }
        func value(_ depth: Int = 0) -> Node {
            switch roll(depth < 2 ? 8 : 4) {
            case 0: .null
            case 1: .string("s\(roll(3))")
            case 2, 3: .int(Int64(roll(5)))
            case 4: .int(Int64(roll(5))).with(priority: .int(Int64(roll(3))))
            default: .object((0..<1 + roll(3)).map { _ in (Key(keys[roll(5)]), value(depth + 1)) })
            }
        }
        var pairs: [Pair] = []
        for round in 0..<60 {
            if round % 4 == 0, pairs.count < 14 {
                let pair = Pair(["a", "a/x", "b", "b/y", "c", "open"][roll(6)], lane: roll(2))
                let index = [TreeQuery.Index.key, .child("n"), .priority]
                let query = roll(2) == 0 ? nil : TreeQuery(index: index[roll(3)], limit: 1 + roll(3), viewFrom: .first)
                for (hub, client) in zip(hubs, pair.clients) {
                    hub.database.submit(.observe(pair.path, query: query, style: .patches(tag: nil), hash: ""), from: client)
                }
                try pair.collect(hubs)
                pairs.append(pair)
            }
            let gate = DispatchGate(leader.database)
            for _ in 0..<1 + roll(6) {
                let writer = writers[roll(2)]
                switch roll(8) {
                case 0: leader.database.submit(.write([TreeWrite("open", WriteValue(.int(Int64(roll(2)))))]), from: writer)
                case 1: leader.database.submit(.increments([path()]), from: writer)
                case 2: leader.database.submit(.onDisconnect([TreeWrite(path(), WriteValue(value()))]), from: writer)
                case 3: leader.database.submit(.write([TreeWrite(path(), part: .priority, WriteValue(.int(Int64(roll(4)))))]), from: writer)
                case 4:
                    let places: [Path] = ["a/x", "b/y", "c"]
                    leader.database.submit(.write(places.map { TreeWrite($0, WriteValue(value())) }), from: writer)
                case 5 where kind == .sqlite && roll(3) == 0:
                    let wide = Node.object((0..<200).map { (Key("w\($0)"), .string("wide value \(roll(9))")) })
                    leader.database.submit(.put(["a", "b/wide"][roll(2)], wide), from: writer)
                default: leader.database.submit(.put(path(), value()), from: writer)
                }
            }
            gate.open()
            catchUp(follower, with: leader)
            #expect(state(follower) == state(leader), "round \(round)")
            for pair in pairs {
                try pair.collect(hubs)
                #expect(pair.caches[0] == pair.caches[1], "round \(round) at \(pair.path)")
                #expect(pair.lines[0].filter { $0.hasPrefix("cancelled") } == pair.lines[1].filter { $0.hasPrefix("cancelled") })
            }
        }
        #expect(pairs.contains { !$0.lines[1].isEmpty } && pairs.contains { $0.caches[1] == "cancelled" })
        // A follower that starts after a snapshot of the leader, and continues from there.
        let now = state(leader)
        let late = EngineHarness(rules: rules, root: now.root, pending: now.pending, sequence: now.sequence, log: journal, follows: true)
        _ = leader.ask(writers[0], .put("b/late", 1))
        catchUp(late, with: leader)
        #expect(state(late) == state(leader))
        try store?.close()
    }

    @Test func follower_refusesWrites_andAnswersReads() throws {
        let journal = MemoryJournal()
        let (leader, events) = (EngineHarness(log: journal), Events())
        let follower = EngineHarness(log: journal, limits: .tight, follows: true, onJournal: events.listener)
        let (writer, client) = (Client.make(), Client.make())
        #expect(leader.ask(writer, .put("a", 1)) == ["ok 0"])
        catchUp(follower, with: leader)
        let replies = follower.ask(
            client, .put("a", 2), .get("a"), .onDisconnect([TreeWrite("b", WriteValue(1))]), .merge(["x": 1, "y": 2, "z": 3]))
        #expect(replies == [
            "error 0 unavailable", "value 1 1", "error 2 unavailable", "error 3 unavailable",
        ])
        #expect(follower.ask(client, .end) == [])
        #expect(state(follower) == state(leader) && events.all.isEmpty && follower.database.counters.refusal == nil)
        #expect(CommitRefusal.following.text.contains("follows another"))
    }

    @Test func follower_thatHearsNoMore_saysSo_andShowsWhatItHad() async throws {
        let journal = MemoryJournal()
        let (leader, events) = (EngineHarness(log: journal), Events())
        let follower = EngineHarness(log: journal, follows: true, onJournal: events.listener)
        _ = leader.ask(.make(), .put("a", 1))
        catchUp(follower, with: leader)
        await withCheckedContinuation { continuation in journal.close { _ in continuation.resume() } }
        #expect(follower.ask(.make(), .put("a", 2), .get("a")) == ["error 0 unavailable", "value 1 1"])
        #expect(events.all == ["ended: \(JournalError.closed)"] && follower.database.counters.refusal == .cutOff)
    }

    /// A journal whose tail events come from the test.
    private final class ScriptedTailJournal: Journal {
        struct Receiver { let receive: @Sendable (TailEvent) -> Void }
        let receiver = Mutex<Receiver?>(nil)
        let tailed = Mutex(JournalTail())
        var isImmediate: Bool { false }
        func append(_ batch: JournalBatch, completion: @escaping @Sendable (Result<Void, JournalError>) -> Void) {}
        func tail(from position: UInt64, _ receive: @escaping @Sendable (TailEvent) -> Void) -> JournalTail {
            receiver.withLock { $0 = Receiver(receive: receive) }
            return tailed.withLock { $0 }
        }
        func send(_ batch: JournalBatch) { receiver.withLock { $0 }?.receive(.batch(batch)) }
    }

    @Test func gap_orOlderWriter_endsTheFollowing() {
        let good = JournalBatch(sequence: 2, after: 0, operations: [.set("a", 1)], epoch: 4)
        let faults = [
            JournalBatch(sequence: 4, after: 3, operations: [.set("a", 2)], epoch: 4),
            JournalBatch(sequence: 3, after: 1, operations: [.set("a", 2)], epoch: 4),
            JournalBatch(sequence: 2, after: 0, operations: [.set("a", 2)], epoch: 4),
            JournalBatch(sequence: 3, after: 2, operations: [.set("a", 2)], epoch: 3),
        ]
        for fault in faults {
            let (journal, events) = (ScriptedTailJournal(), Events())
            let follower = EngineHarness(log: journal, follows: true, onJournal: events.listener)
            journal.send(good)
            journal.send(fault)
            // Even the batch that would fit is not applied any more.
            journal.send(JournalBatch(sequence: 3, after: 2, operations: [.set("a", 3)], epoch: 4))
            follower.settle()
            #expect(state(follower) == State(root: ["a": 1], sequence: 2, pending: []))
            #expect(events.all.count == 1 && follower.database.counters.refusal == .cutOff)
            #expect(journal.tailed.withLock { $0 }.isCancelled)
        }
    }

    // MARK: Writers

    @Test func writer_thatAnotherHasOvertaken_takesItsBatchBack_andWritesNoMore() {
        for epochs in [(0, 0), (1, 2)] as [(UInt64, UInt64)] {
            let (journal, events) = (MemoryJournal(), Events())
            let one = EngineHarness(log: journal, epoch: epochs.0, limits: .patient, onJournal: events.listener)
            let other = EngineHarness(log: journal, epoch: epochs.1)
            let (client, watcher) = (Client.make(), Client.make())
            #expect(other.ask(.make(), .put("a", "theirs")) == ["ok 0"])
            #expect(one.ask(watcher, .listen("a")) == ["ok 0"])
            #expect(one.ask(client, .put("a", "ours"), .get("a")) == ["error 0 unavailable", "value 1 null"])
            #expect(one.take(watcher) == [] && one.database.counters.refusal == .conflict)
            one.passRetryTime()
            #expect(one.ask(client, .put("a", "again")) == ["error 0 unavailable"])
            #expect(events.all == ["refuses conflict"] && state(one).sequence == 0)
            #expect(other.ask(.make(), .put("b", 1)) == ["ok 0"])
        }
    }

    @Test func unknownBatch_thatIsStored_isFound_andTold() {
        let (log, events) = (FlakyLog(), Events())
        let hub = EngineHarness(log: log, limits: .patient, onJournal: events.listener)
        let (client, watcher) = (Client.make(), Client.make())
        _ = hub.ask(watcher, .listen("a"))
        let gone = TreeWrite("gone", WriteValue(1))
        _ = hub.ask(client, .begin(sessionID: "s1", replacing: nil), .put("a", 1), .onDisconnect([gone]))
        _ = hub.ask(client, .put("a", 2))
        log.storeWithUnknownOutcome()
        log.completeAll(.failure(.diskFailed))
        _ = hub.take(watcher)
        #expect(hub.take(client).suffix(3) == ["error 1 unavailable", "error 2 unavailable", "error 0 unavailable"])
        #expect(state(hub).root == .null && hub.database.counters.refusal == .diskFailed)
        hub.passRetryTime()
        hub.settle()
        while !log.isIdle {
            log.complete()
            hub.settle()
        }
        #expect(state(hub).root == ["a": 1] && log.root == ["a": 1] && hub.take(watcher) == ["d a 1"])
        #expect(log.sessions.isEmpty, "the client was told that it leaves nothing")
        #expect(events.all == ["refuses outcome_unknown", "takes"])
        #expect(hub.ask(client, .put("a", 3)) == [])
        log.completeAll()
        #expect(hub.take(client) == ["ok 0"] && log.root == ["a": 3] && state(hub).sequence == log.last)
    }

    @Test func unknownBatch_thatIsNotStored_isForgotten() {
        let log = FlakyLog()
        let hub = EngineHarness(log: log, limits: .patient)
        let client = Client.make()
        _ = hub.ask(client, .put("a", 1))
        log.complete(.failure(.outcomeUnknown))
        #expect(hub.take(client) == ["error 0 unavailable"])
        hub.passRetryTime()
        hub.settle()
        log.completeAll()
        #expect(hub.ask(client, .get("a")) == ["value 0 null"] && log.root == .null && hub.database.counters.refusal == nil)
    }

    @Test func unknownBatch_thatAnotherHasWrittenOver_isAConflict() {
        let (log, events) = (FlakyLog(), Events())
        let hub = EngineHarness(log: log, limits: .patient, onJournal: events.listener)
        let client = Client.make()
        _ = hub.ask(client, .put("a", 1))
        log.complete(.failure(.outcomeUnknown))
        log.storeForeignBatch([.set("a", "theirs")])
        hub.passRetryTime()
        hub.settle()
        while !log.isIdle {
            log.complete()
            hub.settle()
        }
        #expect(hub.database.counters.refusal == .conflict && log.root == ["a": "theirs"])
        #expect(events.all == ["refuses outcome_unknown", "refuses conflict"])
        #expect(hub.ask(client, .put("a", 2)).last == "error 0 unavailable")
    }
}
