import Dispatch
@testable import HubEngine
import Journal
import JSONTree
import SecurityRules
import TestSupport
import Testing

/// Disconnect writes of clients: kept, cancelled, written when the session ends, and pending while the log refuses. After each step a new process
/// would restore the same state from the log.
@Suite(.timeLimit(.minutes(30))) struct DisconnectWritesTests {
    private static let rules = #"{"rules":{"open":{".write":true},"own":{".write":"auth.uid === 'u'"}}}"#

    private static func bench(limits: EngineLimits = EngineLimits()) throws -> Bench {
        Bench(rules: try RuleSet(parsing: rules), limits: limits)
    }

    private static func isDone(_ reply: Reply) -> Bool { if case .done = reply { true } else { false } }
    private static func code(_ reply: Reply) -> Failure.Code? { if case .failed(let failure) = reply { failure.code } else { nil } }

    /// Ends the batch.
    /// - Returns: whether the log's state equals the part's.
    private static func agrees(_ bench: Bench) -> Bool {
        _ = bench.finish()
        return bench.log.sessions.sorted { $0.id < $1.id } == bench.disconnects.pendingSessions.sorted { $0.id < $1.id }
    }

    @Test func writes_areKeptCancelledAndWritten() throws {
        let bench = try Self.bench()
        let client = Client.make()
        client.sessionID = "s"
        bench.run {
            #expect(Self.isDone(bench.disconnects.keep([TreeWrite("open/a", 1), TreeWrite("open/b", 2)], client)))
            #expect(Self.code(bench.disconnects.keep([TreeWrite("own", 1)], client)) == .permissionDenied)
        }
        #expect(bench.disconnects.pendingSessions.map(\.id) == ["s"] && client.pendingID == "s")
        #expect(Self.agrees(bench))
        bench.run { #expect(Self.isDone(bench.disconnects.cancel("open/a", of: client))) }
        #expect(client.pending.writes == [TreeWrite("open/b", 2)] && Self.agrees(bench))
        #expect(bench.content.root == .null, "nothing is written before the end")
        bench.run { bench.disconnects.write(of: client) }
        #expect(bench.content.root == ["open": ["b": 2]] && client.pendingID == nil && client.pendingBytes == 0)
        #expect(Self.agrees(bench) && bench.log.sessions.isEmpty)
    }

    @Test func writes_countAsWorkOfTheirTurn_byThoseThatWaitAlready() throws {
        let bench = try Self.bench()
        let client = Client.make()
        bench.run {
            func work(_ names: Range<Int>) -> Int {
                let before = bench.context.meter.work
                #expect(Self.isDone(bench.disconnects.keep(names.map { TreeWrite("open/n\($0)", 1) }, client)))
                return bench.context.meter.work - before
            }
            #expect(work(0..<512) == 512)
            // As many again, each compared with the pending ones.
            #expect(work(0..<256) == 256 + 512)
            #expect(client.pending.writes.count == 512)
        }
    }

    @Test func lastCancelled_isForgotten() throws {
        let bench = try Self.bench()
        let client = Client.make()
        bench.run {
            #expect(Self.isDone(bench.disconnects.cancel("open", of: client)), "there is nothing")
            #expect(bench.batch.commits.isEmpty)
            _ = bench.disconnects.keep([TreeWrite("open/a", 1)], client)
            let id = client.pendingID ?? ""
            _ = bench.disconnects.cancel(.root, of: client)
            #expect(bench.batch.commits.last?.pending == [.forget(session: id)])
        }
        #expect(client.pendingID == nil && client.pendingBytes == 0 && bench.disconnects.pendingSessions.isEmpty)
        #expect(Self.agrees(bench))
    }

    @Test func limits_areMetFromBothSides() throws {
        var limits = EngineLimits()
        limits.pendingWrites = 2
        limits.pendingBytes = 400
        limits.pendingBytesOfAll = 700
        let bench = try Self.bench(limits: limits)
        let (one, other, third) = (Client.make(), Client.make(), Client.make())
        func text(_ bytes: Int) -> Node { .string(Text(String(repeating: "x", count: bytes))) }
        let around = TreeWrite("open/a", text(0)).heldBytes(atMost: .max)
        bench.run {
            #expect(Self.code(bench.disconnects.keep([TreeWrite("open/a", text(401 - around))], one)) == .tooBig)
            #expect(Self.isDone(bench.disconnects.keep([TreeWrite("open/a", text(400 - around))], one)))
            // The overwritten value does not count.
            #expect(Self.isDone(bench.disconnects.keep([TreeWrite("open/a", text(400 - around))], one)))
            #expect(one.pendingBytes == 400)
            #expect(Self.code(bench.disconnects.keep([TreeWrite("open/b", text(301 - around))], other)) == .unavailable)
            #expect(Self.isDone(bench.disconnects.keep([TreeWrite("open/b", text(300 - around))], other)))
            bench.disconnects.write(of: one)
            #expect(Self.isDone(bench.disconnects.keep([TreeWrite("open/c", 1), TreeWrite("open/d", 1)], third)), "there is room again")
            #expect(Self.code(bench.disconnects.keep([TreeWrite("open/e", 1)], third)) == .failure, "one write too many")
        }
        #expect(Self.agrees(bench))
    }

    @Test func rights_areThoseOfTheEnd_pathByPath() throws {
        let bench = try Self.bench()
        let client = Client(lane: 0, dialect: .realtime, identity: Identity(auth: ["uid": "u"]))
        bench.run {
            _ = bench.disconnects.keep([TreeWrite("own/a", 1), TreeWrite("open/a", 1), TreeWrite("open/b", 2)], client)
            client.identity = .anonymous
            bench.disconnects.identityChanged(of: client)
        }
        #expect(Self.agrees(bench), "the log knows who it is by now")
        bench.run { bench.disconnects.write(of: client) }
        #expect(bench.content.root == ["open": ["a": 1, "b": 2]], "what is refused by now is dropped, the rest applies")
        #expect(bench.batch.commits.count == 1, "as one")
        #expect(Self.agrees(bench) && bench.log.sessions.isEmpty)
    }

    @Test func whatNothingAllows_isForgotten() throws {
        let bench = try Self.bench()
        bench.run { bench.disconnects.applyEnded(PendingSession(id: "old", writes: pending([TreeWrite("own", 1)]))) }
        #expect(bench.content.root == .null)
        #expect(bench.batch.commits.map(\.pending) == [[.forget(session: "old")]])
    }

    @Test func ends_areOwed_whileTheLogRefuses() throws {
        let bench = try Self.bench(limits: .patient)
        let (client, quiet) = (Client.make(), Client.make())
        (client.sessionID, quiet.sessionID) = ("s", "q")
        bench.run {
            _ = bench.disconnects.keep([TreeWrite("open/a", 1)], client)
            _ = bench.disconnects.keep([TreeWrite("open/q", 1)], quiet)
        }
        _ = bench.finish()
        bench.run {
            bench.logGuard.refused(.diskFull)
            #expect(Self.code(bench.disconnects.keep([TreeWrite("open/b", 1)], client)) == .unavailable)
            #expect(Self.code(bench.disconnects.cancel("open", of: client)) == .unavailable)
            #expect(client.pending.writes.count == 1, "it is kept as it was")
            quiet.identity = Identity(auth: ["uid": "u"])
            bench.disconnects.identityChanged(of: quiet)
            bench.disconnects.write(of: client)
            #expect(bench.batch.commits.isEmpty && bench.content.root == .null)
            #expect(bench.disconnects.pendingSessions.map(\.id) == ["s", "q"], "what is owed is not lost")
        }
        bench.run { bench.logGuard.tryLater() }
        bench.time.advance(ms: Int64(bench.context.limits.retryMs))
        bench.run {}
        bench.log.complete()
        bench.run { bench.disconnects.applyDeferred() }
        #expect(bench.content.root == ["open": ["a": 1]])
        #expect(Self.agrees(bench))
        #expect(bench.log.sessions.map(\.id) == ["q"] && bench.log.sessions[0].auth == ["uid": "u"])
        bench.run { bench.disconnects.applyDeferred() }
        #expect(bench.batch.commits.isEmpty, "once")
    }

    /// A bench whose log refused while this many sessions ended; it is retried, and accepts the retry.
    private static func withPending(_ sessions: Int, _ value: Node = 1, turnWork: Int) throws -> Bench {
        var limits = EngineLimits.patient
        limits.turnWork = turnWork
        let bench = try Self.bench(limits: limits)
        bench.logGuard.onTaken = { [weak bench] in bench?.loop.handle([]) }
        bench.run {
            bench.logGuard.refused(.diskFull)
            for i in 0..<sessions {
                bench.disconnects.applyEnded(PendingSession(id: "s\(i)", isAdmin: true, writes: [TreeWrite("open/k\(i)", value)]))
            }
            bench.logGuard.tryLater()
        }
        bench.time.advance(ms: Int64(limits.retryMs))
        bench.run {}
        return bench
    }

    @Test func owed_isWrittenATurnAtATime_beforeAnyOtherWrite() throws {
        // Two units each: one for the session, one for its write.
        let bench = try Self.withPending(20, turnWork: 8)
        let other = Client.make()
        let seen = ReceivedBox<(written: Int, work: Int, pending: [String], reply: Reply?)>((0, 0, [], nil))
        bench.run {
            bench.log.complete()
            // After the first turn, and before the second one.
            bench.queue.async {
                seen.value = (
                    bench.content.root.child("open").childCount, bench.context.meter.work, bench.disconnects.pendingSessions.map(\.id),
                    bench.disconnects.keep([TreeWrite("open/a", 1)], other)
                )
            }
        }
        bench.run {}
        #expect(seen.value.written == 4 && seen.value.work == 8)
        #expect(seen.value.pending == (4..<20).map { "s\($0)" }, "the others in their order")
        #expect(seen.value.reply.map(Self.code) == .unavailable)
        for _ in 0..<6 { bench.run {} }
        #expect(bench.content.root.child("open").childCount == 20 && bench.disconnects.pendingSessions.isEmpty)
        #expect(bench.log.appended == 1 + 5, "a batch for each turn, behind the try")
        bench.run { #expect(Self.isDone(bench.disconnects.keep([TreeWrite("open/a", 1)], other))) }
        #expect(Self.agrees(bench))
    }

    @Test func owed_ofMuchOutput_isMoreThanOneBatch() throws {
        let bench = try Self.withPending(500, .string(Text(String(repeating: "x", count: 10_000))), turnWork: 10_000_000)
        bench.observe(Observation("open"), by: .make())
        bench.log.complete()
        for _ in 0..<3 { bench.run {} }
        #expect(bench.content.root.child("open").childCount == 500)
        #expect(bench.log.appended == 1 + 3, "a batch has little more than 2 MiB to say, of 5 MB")
    }

    @Test func identitiesThatAreOwed_areStoredATurnAtATime() throws {
        var limits = EngineLimits.patient
        limits.turnWork = 4
        let bench = try Self.bench(limits: limits)
        bench.logGuard.onTaken = { [weak bench] in bench?.loop.handle([]) }
        let clients = (0..<10).map { _ in Client.make() }
        bench.run { for client in clients { _ = bench.disconnects.keep([TreeWrite("open/a", 1)], client) } }
        _ = bench.finish()
        let before = bench.log.appended
        bench.run {
            bench.logGuard.refused(.diskFull)
            for client in clients {
                client.identity = Identity(auth: ["uid": "u"])
                bench.disconnects.identityChanged(of: client)
            }
            bench.logGuard.tryLater()
        }
        bench.time.advance(ms: Int64(limits.retryMs))
        bench.run {}
        bench.log.complete()
        for _ in 0..<5 { bench.run {} }
        #expect(bench.log.appended == before + 1 + 3)
        #expect(Self.agrees(bench) && bench.log.sessions.allSatisfy { $0.auth == ["uid": "u"] })
    }

    @Test func restore_undoesAStep() throws {
        let bench = try Self.bench()
        let client = Client.make()
        client.sessionID = "s"
        bench.run {
            let nothing = client.pending
            _ = bench.disconnects.keep([TreeWrite("open/a", 1)], client)
            let (one, bytes) = (client.pending, client.pendingBytes)
            _ = bench.disconnects.keep([TreeWrite("open/b", 1)], client)
            bench.disconnects.restore(one, id: "s", of: client)
            #expect(client.pending.writes == [TreeWrite("open/a", 1)] && client.pendingBytes == bytes)
            #expect(bench.disconnects.pendingSessions.map(\.writes) == [one])
            bench.disconnects.restore(nothing, id: nil, of: client)
            #expect(client.pendingID == nil && client.pendingBytes == 0 && bench.disconnects.pendingSessions.isEmpty)
            // The end of the session is undone as well.
            bench.disconnects.restore(one, id: "s", of: client)
            #expect(bench.disconnects.pendingSessions.map(\.id) == ["s"])
        }
    }

    private func pending(_ writes: [TreeWrite]) -> PendingWrites {
        var pending = PendingWrites()
        for write in writes { pending.add(write) }
        return pending
    }
}
