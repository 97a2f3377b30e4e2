@testable import HubEngine
import Journal
import JSONTree
import SecurityRules
import Synchronization
import TestSupport
import Testing

/// Content, batch, outbox, the pipeline of batches that wait for the log, and its circuit breaker, each built separately.
@Suite(.timeLimit(.minutes(30))) struct DurabilityTests {
    @Test func content_countsCommits_andGoesBack() {
        let content = Content(.init(root: 1, sequence: 7), rules: .denyAll)
        #expect(content.install(2) == 1)
        #expect(content.skip() == 9)
        #expect(content.root == 2 && content.sequence == 9)
        #expect(content.rollBack(to: .init(root: 1, sequence: 7)) == 2)
        #expect(content.root == 1 && content.sequence == 7 && content.rulesNumber == 0)
        content.deploy(.allowAll)
        #expect(content.rulesNumber == 1)
        #expect(content.publishedRules.allowsRead(.root, root: .null, auth: .null, now: 0))
    }

    @Test func batch_keepsHistory_onlyWhereItCanBeTakenBack() {
        for keeps in [true, false] {
            let batch = Batch(keepsHistory: keeps)
            batch.record(.relog("s"))
            batch.record(.identified(.make(), before: .anonymous))
            batch.append([], pending: [], as: 1)
            batch.count(5)
            batch.count(6)
            let result = batch.end()
            #expect(result.history.steps.count == (keeps ? 1 : 0))
            #expect(result.history.changes.count == (keeps ? 1 : 0))
            #expect(result.journalled.commitCount == 1 && result.bytes == 11)
            let next = batch.end()
            #expect(next.journalled.isEmpty && next.bytes == 0 && next.history.steps.isEmpty)
        }
    }

    @Test func outbox_leavesEarly_whatWaitsForNothing() {
        let outbox = Outbox(lanes: 2)
        let (one, other) = (Client.make(), Client.make(lane: 1))
        outbox.send([1, 2, 3], to: one)
        outbox.send([4], to: other, .early)
        #expect(outbox.bytes == 4 && outbox.batchBytes == 3)
        let early = Mutex<[Int]>([])
        outbox.releaseEarly { lane, deliveries in early.withLock { $0 += [lane, deliveries.count] } }
        #expect(early.withLock { $0 } == [1, 1])
        #expect(one.lastSent == 0 && other.lastSent == -1, "what left early waits for no batch")
        #expect(outbox.end(next: 9).lanes.map(\.count) == [1, 0])
        #expect(outbox.batchNumber == 9 && outbox.bytes == 0)
    }

    @Test func outbox_movesProbes_ofAGivenUpBatch() {
        let outbox = Outbox(lanes: 1)
        let client = Client.make()
        outbox.send([1], to: client)
        outbox.probe(client)
        let old = outbox.end(next: 1)
        outbox.moveProbes(of: old)
        #expect(outbox.end(next: 2).lanes[0].count == 1)
    }

    @Test func line_releasesBatches_inOrderAndWhenDurable() {
        let bench = Bench()
        let client = Client.make()
        bench.run {
            for i in 1...3 {
                _ = bench.content.install(Node.int(Int64(i)))
                bench.batch.append([], pending: [], as: bench.content.sequence)
                bench.outbox.send(Array("batch \(i)".utf8), to: client)
                bench.durability.finishBatch()
            }
            // This batch wrote nothing, but still waits behind the others.
            bench.outbox.send(Array("read".utf8), to: client)
            bench.durability.finishBatch()
            #expect(bench.durability.waitingCommits == 3)
        }
        #expect(bench.lines().isEmpty)
        bench.log.complete()
        bench.run {}
        #expect(bench.lines() == ["batch 1"])
        #expect(bench.durability.durable.root == 1 && bench.durability.durable.sequence == 1)
        bench.log.completeAll()
        bench.run {}
        #expect(bench.lines() == ["batch 2", "batch 3", "read"])
        #expect(bench.durability.waitingCommits == 0 && bench.durability.durable.root == 3)
    }

    @Test func line_givesUpTheRest_whenTheLogRefuses() {
        let bench = Bench()
        var reasons: [CommitRefusal] = []
        bench.durability.onRefused = { [weak bench] error in
            guard let bench else { return }
            reasons.append(CommitRefusal(error))
            #expect(bench.durability.giveUp().count == 2)
        }
        bench.run {
            for _ in 1...2 {
                bench.batch.append([], pending: [], as: bench.content.skip())
                bench.durability.finishBatch()
            }
        }
        bench.log.refuse(.diskFull)
        bench.run {}
        #expect(reasons == [.diskFull], "the second refusal is of a batch that is given up")
        #expect(bench.durability.waitingCommits == 0 && bench.durability.durable.sequence == 0)
    }

    @Test func line_givesUpNothing_thatMayStillBecomeDurable() {
        let bench = Bench()
        let client = Client.make()
        var refused: [(CommitRefusal, Int)] = []
        bench.durability.onRefused = { [weak bench] error in
            guard let bench else { return }
            refused.append((CommitRefusal(error), bench.durability.giveUp().count))
        }
        bench.run {
            for i in 1...3 {
                bench.batch.append([], pending: [], as: bench.content.skip())
                bench.outbox.send(Array("batch \(i)".utf8), to: client)
                bench.durability.finishBatch()
            }
        }
        // The closing journal refuses the last batches on another queue, ahead of those being stored.
        bench.log.refuseNewest(.stopping)
        bench.log.refuseNewest(.stopping)
        bench.run {}
        #expect(refused.isEmpty && bench.lines().isEmpty)
        bench.log.complete()
        bench.run {}
        #expect(bench.lines() == ["batch 1"] && bench.durability.durable.sequence == 1)
        #expect(refused.map(\.0) == [.stopping] && refused.map(\.1) == [2], "the other two, once")
    }

    @Test func tryOfUnknownOutcome_isFoundAgain() throws {
        for isStored in [true, false] {
            let bench = Bench(limits: .patient)
            bench.run {
                bench.logGuard.refused(.diskFull)
                bench.logGuard.tryLater()
            }
            bench.time.advance(ms: Int64(bench.context.limits.retryMs))
            bench.run {}
            if isStored { bench.log.storeWithUnknownOutcome() } else { bench.log.complete(.failure(.outcomeUnknown)) }
            bench.run {}
            #expect(throws: Failure.self) { try bench.run { try bench.logGuard.mustAcceptWrites() } }
            bench.time.advance(ms: Int64(bench.context.limits.retryMs))
            bench.run {}
            #expect(bench.log.appended == 2, "it is tried again")
            bench.log.complete()
            bench.run {}
            try bench.run { try bench.logGuard.mustAcceptWrites() }
            #expect(bench.log.last == 1 && bench.content.sequence == 1 && bench.durability.durable.sequence == 1)
        }
    }

    @Test func breaker_opensTriesAndCloses() {
        var breaker = LogBreaker.closed
        #expect(breaker.reason == nil)
        var began = breaker.begin()
        #expect(!began, "there is nothing to try")
        breaker.refused(.outcomeUnknown)
        #expect(breaker.reason == .outcomeUnknown, "what is given up was given to the log")
        breaker.settle()
        #expect(breaker.reason == .diskFailed, "what comes now is not")
        began = breaker.begin()
        #expect(began)
        began = breaker.begin()
        #expect(!began, "one try at a time")
        breaker.tried(.diskFull)
        #expect(breaker.reason == .diskFull)
        began = breaker.begin()
        #expect(began)
        breaker.tried(nil)
        #expect(breaker.reason == nil)
    }

    @Test func guard_refusesWrites_untilTheLogTakesOne() throws {
        let bench = Bench()
        let taken = Counted()
        bench.logGuard.onTaken = { taken.count += 1 }
        bench.run { bench.logGuard.refused(.diskFull(reason: "test")) }
        #expect(throws: Failure.self) { try bench.run { try bench.logGuard.mustAcceptWrites() } }
        bench.run { bench.logGuard.tryLater() }
        bench.time.advance(ms: Int64(bench.context.limits.retryMs) - 1)
        bench.run {}
        #expect(bench.log.appended == 0, "not yet")
        bench.time.advance(ms: 1)
        bench.run {}
        #expect(bench.log.appended == 1)
        bench.log.complete()
        bench.run {}
        try bench.run { try bench.logGuard.mustAcceptWrites() }
        #expect(taken.count == 1)
        #expect(bench.content.sequence == 1 && bench.durability.durable.sequence == 1, "the try was a commit")
    }

    private final class Counted { var count = 0 }
}
