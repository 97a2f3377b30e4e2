import DequeModule
import Journal
import JSONTree
import Scheduling
import Synchronization

/// Sends output in commit order: the output of a batch is sent when it and all earlier batches are durable.
///
/// ```
/// the running batch ── finish ──► waits for the log ──► durable, and all before it ──► its output is sent
///                                     └── the log refuses it: given up, with all later ones (Rollback)
/// ```
/// Confined to the database queue.
final class DurabilityQueue: @unchecked Sendable {
    // Sendable: completions of the log only hop back to the queue with it.

    /// A batch that was carried out and is not durable yet.
    struct WaitingBatch {
        let output: OutputBuffer
        let result: Batch.Result
        /// The content after the batch.
        let state: Content.State
        var isDurable: Bool
        let tally: RequestTally
        /// When it was handed to the journal, steady ns; 0 for a batch without commits.
        let handedOver: Int64
        /// Why the journal refused it.
        var refusal: JournalError?
        /// Bytes of consequences of earlier batches, whose authors wait for this batch too.
        var carried = DerivedBytes()
    }

    private let context: EngineContext
    private let content: Content
    private let batch: Batch
    private let outbox: Outbox
    private let journal: any Journal
    /// The epoch of this writer, and the id of its next batch.
    private var epoch: UInt64
    private var nextID = UInt64.random(in: 1..<1 << 46)
    private let outlet: Outlet
    /// Oldest first; strictly in order.
    private var waiting: Deque<WaitingBatch> = []
    /// Number of the oldest waiting batch.
    private(set) var firstWaiting = 0
    /// Commits in the waiting batches, and bytes of the consequences of their writes.
    private(set) var waitingCommits = 0
    private var waitingDerived = DerivedBytes()
    private var crowd = GroupCommitPacer()
    /// µs for which net loops that have read writes should pause before they read more, 0 for none; and until when, steady ns. From any
    /// thread.
    let pauseUs = Atomic(0)
    let pausesUntil = Atomic<Int64>(.min)
    /// The last durable content, to which a rollback returns.
    private(set) var durable: Content.State
    /// Called when the journal has refused the oldest waiting batch.
    var onRefused: (JournalError) -> Void = { _ in }
    /// Called when an immediate journal failed to store a batch whose output was already sent.
    var onLost: (JournalError) -> Void = { _ in }
    /// Whether the thread that runs the queue will itself commit the appended batches, right after it leaves the queue.
    var isHolding = false
    /// Called after the output of batches was sent.
    var onReleased: () -> Void = {}

    init(
        _ context: EngineContext, _ content: Content, _ batch: Batch, _ outbox: Outbox, journal: any Journal, epoch: UInt64 = 0,
        outlet: @escaping Outlet
    ) {
        self.context = context
        self.content = content
        self.batch = batch
        self.outbox = outbox
        self.journal = journal
        self.epoch = epoch
        self.outlet = outlet
        durable = content.state
    }

    /// The database becomes the writer, with an epoch of its own.
    func begin(epoch: UInt64) {
        self.epoch = epoch
        batch.keepsHistory = !journal.isImmediate
    }

    /// The database becomes a follower. Commits of another writer are never rolled back.
    func follow() { batch.keepsHistory = false }

    /// Whether an earlier batch, or a commit of the running one, waits for the log.
    var isBehind: Bool { !waiting.isEmpty || batch.hasCommits }

    /// Ends the running batch: its commits go to the log, and its output waits for that.
    func finishBatch() {
        context.meter.publish()
        outbox.releaseEarly(to: outlet)
        let tally = context.meter.endTally()
        let now = tally.since < .max || batch.hasCommits ? context.scheduler.steadyNs : 0
        tally.addCarriedOut(to: context.meter.latencies, now: now)
        let isStored = !batch.hasCommits || journal.isImmediate
        if isStored, waiting.isEmpty { return leaveAtOnce(tally, now) }
        let output = outbox.end(next: firstWaiting + waiting.count + 1)
        let result = batch.end()
        if isStored {
            if !result.journalled.isEmpty { journal.append(stamped(result.journalled), completion: storedAtOnce) }
            waitingDerived.add(result.derived)
            waiting.append(
                WaitingBatch(output: output, result: result, state: content.state, isDurable: true, tally: tally, handedOver: 0))
            return
        }
        let number = firstWaiting + waiting.count
        let stamped = stamped(result.journalled)
        waiting.append(
            WaitingBatch(
                output: output, result: result.with(stamped), state: content.state, isDurable: false, tally: tally, handedOver: now))
        waitingCommits += stamped.commitCount
        waitingDerived.add(result.derived)
        crowd.handedOver(waiting: waitingCommits, now: now, context.limits)
        publishPause()
        let completion: @Sendable (Result<Void, JournalError>) -> Void = { [self] result in
            // On success the output is sent on the journal's thread if the queue is idle. A refusal does more work and always uses the
            // queue.
            if case .success = result { return context.queue.run { [self] in completed(number, result) } }
            context.queue.async { [self] in completed(number, result) }
        }
        if isHolding { journal.hold(stamped, completion: completion) } else { journal.append(stamped, completion: completion) }
    }

    /// Ends a batch that waits for nothing: one with reads only, or with an in-memory journal. It skips the bookkeeping of waiting batches.
    private func leaveAtOnce(_ tally: RequestTally, _ now: Int64) {
        let ended = batch.endAtOnce()
        if let commits = ended.journalled { journal.append(stamped(commits), completion: storedAtOnce) }
        firstWaiting += 1
        context.meter.finish(ended.bytes)
        outbox.release(to: outlet, from: firstLane, next: firstWaiting)
        context.release(ended.retiring)
        tally.addWrites(to: context.meter.latencies, now: now)
    }

    /// The lane that is served first; it changes per batch for fairness.
    private var firstLane: Int { Int(truncatingIfNeeded: content.sequence % UInt64(context.lanes)) }

    private lazy var storedAtOnce: @Sendable (Result<Void, JournalError>) -> Void = { [weak self] result in
        guard case .failure(let error) = result, let self else { return }
        context.queue.async { [self] in onLost(error) }
    }

    /// Above this a batch and its turn end early. A few bytes of requests can ask for gigabytes, and no limit of a connection counts the
    /// output until it is sent.
    private static let outputBytesOfBatch = 2 << 20

    /// Bytes of output of the running batch so far.
    var outputBytes: Int { outbox.bytes }

    /// Ends the running batch, and its turn, if its output or its consequences are large.
    func finishLargeBatch() {
        guard outputBytes > Self.outputBytesOfBatch || batch.derived.all > context.limits.derivedBytes else { return }
        finishBatch()
        context.meter.spend(context.limits.turnWork)
    }

    /// Whether an author's next write must wait until the consequences of earlier ones are durable.
    func mustWait(_ author: @autoclosure () -> Owner) -> Bool {
        if waitingDerived.isEmpty, batch.derived.isEmpty { return false }
        let author = author()
        let (own, all) = (waitingDerived[author] + batch.derived[author], waitingDerived.all + batch.derived.all)
        return own > context.limits.derivedBytes || own > 0 && all > context.limits.derivedBytesOfAll
    }

    /// The batch with this writer's epoch and a new id, ready to append to the journal.
    func stamped(_ batch: JournalBatch) -> JournalBatch {
        var batch = batch
        nextID += 1
        (batch.id, batch.epoch) = (nextID, epoch)
        return batch
    }

    private func completed(_ number: Int, _ result: Result<Void, JournalError>) {
        context.queue.assertCurrent()
        // Below the first, the batch was given up together with an earlier one.
        guard number >= firstWaiting else { return }
        let now = context.scheduler.steadyNs
        switch result {
        case .success:
            waiting[number - firstWaiting].isDurable = true
            let handedOver = waiting[number - firstWaiting].handedOver
            if handedOver > 0 {
                context.meter.latencies.add(1, .journal, ns: now - handedOver)
                crowd.becameDurable(afterNs: now - handedOver)
            }
        case .failure(let error): waiting[number - firstWaiting].refusal = error
        }
        while let first = waiting.first, first.isDurable {
            waiting.removeFirst()
            firstWaiting += 1
            durable = first.state
            waitingDerived.remove(first.carried)
            // Their author's next write waits until the batches behind them are sent. Otherwise it would occupy the queue just before.
            if waiting.isEmpty {
                waitingDerived.remove(first.result.derived)
            } else if !first.result.derived.isEmpty {
                waiting[waiting.count - 1].carried.add(first.result.derived)
            }
            waitingCommits -= first.result.journalled.commitCount
            // Published before the loops are woken.
            publishPause()
            leave(first.output, first.result)
            first.tally.addWrites(to: context.meter.latencies, now: context.scheduler.steadyNs)
        }
        // While an earlier batch may still become durable, it is unknown what a refusal will roll back.
        if let refusal = waiting.first?.refusal { onRefused(refusal) } else { onReleased() }
    }

    private func publishPause() {
        let pause = crowd.pause(behind: waiting.first?.handedOver, context.limits)
        pausesUntil.store(pause.until, ordering: .relaxed)
        pauseUs.store(pause.us, ordering: .relaxed)
    }

    private func leave(_ output: OutputBuffer, _ result: Batch.Result) {
        context.meter.finish(result.bytes)
        output.release(to: outlet, from: firstLane)
        context.release(result.retiring)
    }

    /// Removes all waiting batches, because the log refused the first of them.
    func giveUp() -> [WaitingBatch] {
        defer {
            firstWaiting += waiting.count
            waiting = []
            (waitingCommits, waitingDerived) = (0, DerivedBytes())
            publishPause()
        }
        return Array(waiting)
    }

    /// Keeps the probes of batches that were given up: their clients are held back until the probes are answered.
    func keepProbes(of batches: [WaitingBatch]) {
        for batch in batches { outbox.moveProbes(of: batch.output) }
    }

    /// Marks the current content as durable.
    func confirm() { durable = content.state }
}

#if DEBUG
    extension DurabilityQueue {
        func check(_ found: inout Invariants) {
            found.check(waitingCommits, is: waiting.reduce(0) { $0 + $1.result.journalled.commitCount }, "commits that wait")
            found.check(waitingDerived.all, is: waiting.reduce(0) { $0 + $1.result.derived.all + $1.carried.all }, "bytes of consequences that wait")
            found.check(waiting.first?.isDurable != true, "a durable batch waits")
            found.check(durable.sequence <= content.sequence, "the durable content is newer than the current one")
            var last = durable.sequence
            for batch in waiting {
                found.check(batch.state.sequence >= last, "waiting batches are out of order")
                last = batch.state.sequence
            }
        }
    }
#endif
