import JSONTree
import SecurityRules
import Synchronization
import Testing
import TestSupport

@testable import HubEngine
@testable import Journal

/// Databases of several hubs on one journal, which take turns as the writer.
@Suite(.timeLimit(.minutes(30))) struct RoleTests {
    // MARK: Decisions

    @Test func role_stepsWhenItIsWished_andOnlyThen() {
        let claim = JournalBatch(sequence: 1, after: 0, operations: [], id: 5, epoch: 2)
        #expect(Role.following.step(requestedRole: .write, isBehind: false) == .claim)
        #expect(Role.following.step(requestedRole: .follow, isBehind: false) == nil)
        #expect(Role.claiming(claim).step(requestedRole: .write, isBehind: false) == nil)
        #expect(Role.claiming(claim).step(requestedRole: .follow, isBehind: false) == .withdraw)
        #expect(Role.writing.step(requestedRole: .write, isBehind: true) == nil)
        #expect(Role.writing.step(requestedRole: .follow, isBehind: true) == .yield)
        // Work in progress is settled first, whichever role is requested by then.
        for role in [WriterRole.RequestedRole.write, .follow] {
            #expect(Role.yielding.step(requestedRole: role, isBehind: true) == nil)
            #expect(Role.yielding.step(requestedRole: role, isBehind: false) == .follow)
        }
    }

    @Test func claim_isTheBatchOfItsIdAndEpoch() {
        let claim = JournalBatch(sequence: 1, after: 0, operations: [], id: 5, epoch: 2)
        #expect(Role.claiming(claim).isClaimed(by: claim))
        for (id, epoch) in [(5, 3), (6, 2)] as [(UInt64, UInt64)] {
            #expect(!Role.claiming(claim).isClaimed(by: JournalBatch(sequence: 1, after: 0, operations: [], id: id, epoch: epoch)))
        }
        #expect(!Role.writing.isClaimed(by: claim))
    }

    // MARK: Databases

    private final class Hub: Sendable {
        let harness: EngineHarness
        let writerRole: WriterRole
        private let recorder: EventRecorder

        private final class EventRecorder: Sendable {
            let roles = Mutex<[(WriterRole.Role, JournalError?)]>([])
        }

        init(_ journal: any Journal, rules: RuleSet = .allowAll) {
            let recorder = EventRecorder()
            self.recorder = recorder
            let writerRole = WriterRole(writer: { "http://other" }) { role, reason in recorder.roles.withLock { $0.append((role, reason)) } }
            self.writerRole = writerRole
            harness = EngineHarness(rules: rules, log: journal, epoch: 1, limits: .patient, follows: true, writerRole: writerRole)
        }

        /// Requests a role and waits for it; a claim that finds unapplied commits is retried by the clock.
        func become(_ role: WriterRole.Role) {
            writerRole.request(role == .writing ? .write : .follow)
            for _ in 0..<1_000 where writerRole.role != role {
                harness.settle()
                harness.time.advance(ms: 20)
            }
            harness.settle()
        }

        var roles: [WriterRole.Role] { recorder.roles.withLock { $0.map(\.0) } }
        var lastReason: JournalError? { recorder.roles.withLock { $0.last?.1 } }
        var sequence: UInt64 { harness.database.queue.sync { harness.database.engine.content.sequence } }
        var root: Node { harness.database.queue.sync { harness.database.engine.content.root } }
    }

    private func agree(_ hubs: [Hub]) {
        let last = hubs.map(\.sequence).max()
        for _ in 0..<1_000 where !hubs.allSatisfy({ $0.sequence == last }) { for hub in hubs { hub.harness.settle() } }
        for hub in hubs { #expect(hub.sequence == last && hub.root == hubs[0].root) }
    }

    @Test func database_thatIsToWrite_writes_andItsObserversStay() {
        let journal = MemoryJournal()
        let (one, two) = (Hub(journal), Hub(journal))
        let (client, watcher, writer) = (Client.make(), Client.make(), Client.make())
        #expect(one.harness.ask(client, .put("a", 0)) == ["error 0 unavailable"])
        one.become(.writing)
        #expect(one.roles == [.claiming, .writing])
        _ = two.harness.ask(watcher, .observe("a", query: TreeQuery?.none, style: .patches(tag: nil), hash: ""))
        #expect(one.harness.ask(client, .put("a", 1)) == ["ok 0"])
        agree([one, two])
        // After the handover the old writer refuses writes and the new one accepts them; the observer gets the changes of both.
        one.become(.following)
        two.become(.writing)
        #expect(one.lastReason == nil && one.roles.suffix(2) == [.yielding, .following])
        #expect(one.harness.ask(client, .put("a", 9)) == ["error 0 unavailable"])
        #expect(two.harness.ask(writer, .put("a", 2)) == ["ok 0"])
        agree([one, two])
        #expect(one.root.node(at: "a") == 2)
        let heard = two.harness.ask(watcher)
        #expect(heard.contains { $0.contains("2") }, "\(heard)")
        // And back.
        two.become(.following)
        one.become(.writing)
        #expect(one.harness.ask(client, .put("b", 3)) == ["ok 0"])
        agree([one, two])
    }

    @Test func writer_thatAnotherHasOvertaken_followsByItself_andShowsTheSame() {
        let journal = MemoryJournal()
        let (one, two) = (Hub(journal), Hub(journal))
        let client = Client.make()
        one.become(.writing)
        #expect(one.harness.ask(client, .put("a", 1)) == ["ok 0"])
        // Another hub takes over while this one still believes that it is the writer.
        two.become(.writing)
        #expect(two.harness.ask(.make(), .put("a", 2)) == ["ok 0"])
        #expect(one.harness.ask(client, .put("a", 3), .get("a")).first == "error 0 unavailable")
        for _ in 0..<100 where one.writerRole.role != .following { one.harness.settle() }
        #expect(one.writerRole.role == .following)
        guard case .superseded = one.lastReason else {
            Issue.record("\(String(describing: one.lastReason))")
            return
        }
        agree([one, two])
        #expect(one.root.node(at: "a") == 2 && one.harness.database.counters.refusal == nil)
        #expect(two.harness.ask(.make(), .put("b", 4)) == ["ok 0"])
        agree([one, two])
        // It writes again once it is elected.
        two.become(.following)
        one.become(.writing)
        #expect(one.harness.ask(client, .put("a", 5)) == ["ok 0"])
        agree([one, two])
    }

    /// Only the writer maintains the derived data of the rules.
    @Test func countersAndEnds_areKeptByTheOneThatWrites() throws {
        let rules = try RuleSet(parsing: #"""
            {"rules": {".read": true, ".write": true, "n": {"$k": {".expire": "data.child('until').val()"}}}}
            """#)
        let journal = MemoryJournal()
        let (one, two) = (Hub(journal, rules: rules), Hub(journal, rules: rules))
        one.become(.writing)
        let now = one.harness.time.ms
        #expect(one.harness.ask(.make(), .put("n/x", ["until": .int(now + 60_000)])) == ["ok 0"])
        agree([one, two])
        one.become(.following)
        two.become(.writing)
        let before = two.sequence
        for hub in [one, two] { hub.harness.time.advance(ms: 120_000) }
        for _ in 0..<1_000 where two.root.node(at: "n/x").exists { two.harness.settle() }
        agree([one, two])
        #expect(!one.root.node(at: "n/x").exists && two.sequence == before + 1)
    }
}
