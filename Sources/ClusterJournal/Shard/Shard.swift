import DequeModule
import Dispatch
import Journal
import Logging
import Scheduling
import SQLiteJournal
import Synchronization

/// One shard of a cluster on this hub. Its namespaces' appends go to the shard's log, and the log's messages go to the local
/// journals, in the log's order. Each hub has one object for each shard.
///
/// ```
/// append ─► waiting ─► record ─► the log: behind the newest message ─► stored ─┐
///                        ▲          └─ another came first: follow it ──┘       ▼
///           the log ─► message ─► behind the newest? ─► record ─► ledger: does it count? ─► local journal ─► durable ─► completions
/// ```
/// One record is in flight at a time; when it is sent it takes all waiting batches. Confined to `queue`.
final class Shard: @unchecked Sendable {
    // Sendable: confined to `queue`; callbacks only hop to it.

    let queue: DispatchQueue
    let settings: ClusterSettings
    let log: ShardLog
    let local: LocalJournals
    let logger: Logger
    let scheduler: Scheduler
    let follower: LogFollower

    var ledger: Ledger
    /// Records being stored locally, oldest first.
    var applying: LocalApplyQueue
    /// Batches that wait for the next record.
    var waiting: Deque<Item> = []
    /// The record that is being appended to the log.
    var flight: Flight?
    /// The message, of another hub, that must be received before the next record is sent.
    var awaited: UInt64 = 0
    var lines: [String: OrderedCompletions] = [:]
    /// Id of this hub's next message.
    var nextID = UInt64.random(in: 1..<1 << 63)
    let hub: UInt64
    let number: Int
    /// Callers that wait until the local journals have stored all passed entries.
    var quiesceWaiters: [@Sendable () -> Void] = []
    var lag = LagClock()
    let snapshots: SnapshotStream
    var retention: LogRetention
    /// Whether a snapshot is being imported, and how many consecutive attempts found none.
    var isImporting = false
    var emptyImportAttempts = 0
    /// The next message is no longer in the log.
    var isBehindPurge = false
    /// Whether databases have read the folder, and callers that wait to do so.
    var isOpen = false
    var openers: [@Sendable () -> Void] = []
    var hasRequestedRestart = false
    let published = Mutex(ShardStatus())
    /// Called with the namespace of each batch of another hub.
    private var onForeignBatch: (String) -> Void = { _ in }
    /// Number of this hub's records that lost their place to another hub's, and were appended again.
    private(set) var conflicts = 0

    struct Item: Sendable {
        enum Work: Sendable {
            case append(JournalBatch)
            /// Work for the local journal, behind all earlier appends.
            case local(@Sendable (@escaping @Sendable (Result<Void, JournalError>) -> Void) -> Void)
        }

        let namespace: String
        let work: Work
        /// Number in the namespace's line of completions.
        let number: Int
        let sinceMs: Int64
    }

    struct Flight {
        let items: [Item]
        let entries: [LogRecord.Entry]
        let body: [UInt8]
        let first: UInt64
        let parts: Int

        func contains(_ id: UInt64) -> Bool { id &- first < UInt64(parts) }
        func isLast(_ id: UInt64) -> Bool { id &- first == UInt64(parts - 1) }
    }

    init(
        _ log: ShardLog, _ local: LocalJournals, number: Int, hub: UInt64, _ settings: ClusterSettings, _ scheduler: Scheduler,
        _ logger: Logger
    ) {
        (self.log, self.local, self.settings, self.scheduler, self.hub, self.number) = (log, local, settings, scheduler, hub, number)
        var logger = logger
        logger[metadataKey: "log"] = "\(log.name)"
        self.logger = logger
        queue = DispatchQueue(label: "vigla.cluster.shard.\(log.name)")
        let start = local.start(ofShard: number)
        ledger = start.ledger
        applying = LocalApplyQueue(complete: start.complete)
        follower = LogFollower(log, queue, settings, scheduler, logger)
        retention = LogRetention(keptBytes: settings.keptBytes, retryMs: settings.snapshotRetryMs)
        var snapshotLog = log.settings
        snapshotLog.window = 4
        snapshots = SnapshotStream(
            ShardLog(log.connection, name: settings.snapshotName(number), settings: snapshotLog), local.store, logger,
            isInShard: { LocalJournals.shard(of: $0, among: settings.shards) == number })
        follower.restart(created: start.created, at: start.complete)
    }

    var followState: FollowMachine.State { follower.state }
    /// When the log was created; 0 while unknown.
    var created: Int64 { follower.created }
    /// The newest message that was received in order.
    var newest: LogPlace { follower.newest }

    /// Continues callbacks of libnats, the log and the local journals on the queue.
    func hop(_ body: @escaping @Sendable (Shard) -> Void) { queue.async { [self] in body(self) } }

    /// Calls back with the namespace of each batch of another hub that counts.
    func whenForeignBatch(_ body: @escaping @Sendable (String) -> Void) { queue.async { [self] in onForeignBatch = body } }

    // MARK: Calls of the journals

    /// Adds a batch to the next record.
    func append(_ batch: JournalBatch, _ namespace: String, _ completion: @escaping OrderedCompletions.Completion) {
        add(namespace, .append(batch), completion)
    }

    /// Runs work on the local journal after everything appended before was passed to it.
    func locally(
        _ namespace: String, _ completion: @escaping OrderedCompletions.Completion,
        _ work: @escaping @Sendable (any Journal, @escaping @Sendable (Result<Void, JournalError>) -> Void) -> Void
    ) {
        let journal = local.journal(of: namespace)
        add(namespace, .local { work(journal, $0) }, completion)
    }

    private func add(_ namespace: String, _ work: Item.Work, _ completion: @escaping OrderedCompletions.Completion) {
        queue.async { [self] in
            let number = lines[namespace, default: OrderedCompletions()].add(completion)
            if followState == .closed { return decide(namespace, number, .failure(.closed)) }
            if case .refusing(let error) = followState, case .append = work { return decide(namespace, number, .failure(error)) }
            waiting.append(Item(namespace: namespace, work: work, number: number, sinceMs: scheduler.steadyMs))
            proceed()
        }
    }

    func decide(_ namespace: String, _ number: Int, _ result: Result<Void, JournalError>) {
        for call in lines[namespace]?.decide(number, result) ?? [] { call() }
    }

    func decide(_ items: [Item], _ error: JournalError) {
        for item in items { decide(item.namespace, item.number, .failure(error)) }
    }

    // MARK: Records

    /// Sends the next record with the waiting batches, if the log can be appended to.
    func proceed() {
        dispatchPrecondition(condition: .onQueue(queue))
        guard flight == nil else { return }
        var (projected, body) = (ledger, [UInt8]())
        var (items, entries): ([Item], [LogRecord.Entry]) = ([], [])
        taking: while let item = waiting.first {
            switch item.work {
            case .local(let work):
                // Keep the order with the appends around it.
                guard items.isEmpty else { break taking }
                waiting.removeFirst()
                work { [weak self] result in self?.hop { $0.decide(item.namespace, item.number, result) } }
            case .append(let batch):
                guard canSend, items.isEmpty || body.count < settings.recordBytes else { break taking }
                let mark = projected[item.namespace]
                if batch.id != 0, batch.sequence <= ledger[item.namespace].last {
                    // The local journal knows whether this batch is already stored.
                    waiting.removeFirst()
                    local.journal(of: item.namespace).append(batch) { [weak self] result in
                        self?.hop { $0.decide(item.namespace, item.number, result) }
                    }
                } else if let refusal = projected.refusal(of: batch, item.namespace) {
                    waiting.removeFirst()
                    decide(item.namespace, item.number, .failure(refusal))
                } else {
                    // The batches of a namespace in one record are of one epoch.
                    if mark != ledger[item.namespace], mark.epoch != batch.epoch { break taking }
                    waiting.removeFirst()
                    let entry = LogRecord.Entry(namespace: item.namespace, batch: batch)
                    LogRecord.encode(entry, into: &body)
                    projected.record(batch, item.namespace, at: newest.sequence + 1)
                    items.append(item)
                    entries.append(entry)
                }
            }
        }
        guard !items.isEmpty else { return }
        let most = log.settings.messageBytes - Self.marginBytes
        let parts = max(1, (body.count + most - 1) / most)
        flight = Flight(items: items, entries: entries, body: body, first: nextID, parts: parts)
        nextID &+= UInt64(parts)
        send(part: 0)
    }

    /// Bytes reserved in a message for the headers of NATS and of this protocol.
    private static let marginBytes = 1024

    private var canSend: Bool {
        followState == .following && awaited <= newest.sequence && applying.count < settings.recordsApplied
    }

    private func send(part: Int) {
        guard let flight else { return }
        let most = log.settings.messageBytes - Self.marginBytes
        let (from, to) = (part * most, min(flight.body.count, (part + 1) * most))
        let message = LogMessage(
            id: flight.first &+ UInt64(part), previous: newest.id, hub: hub, part: part, parts: flight.parts, body: flight.body[from..<to])
        log.append(message.encoded, id: message.id, after: newest.sequence) { [weak self] outcome in
            self?.hop { $0.sent(message, part, outcome) }
        }
    }

    private func sent(_ message: LogMessage, _ part: Int, _ outcome: AppendOutcome) {
        // Abandoned meanwhile, or already completed through the tail.
        guard followState != .closed else { return }
        switch outcome {
        case .stored(let sequence), .duplicate(let sequence):
            receive(message, at: sequence)
            // The received messages decide, whether the tail or the acknowledgement was faster.
            guard let flight, flight.contains(message.id) else { return proceed() }
            if flight.isLast(message.id) { return fail(.unknown(reason: "the log acknowledged a record and shows another in its place")) }
            // Another hub's message follows the part, so the remaining parts would not count.
            newest.id == message.id ? send(part: part + 1) : again()
        case _ where flight?.contains(message.id) != true: proceed()
        case .conflict(let last):
            awaited = max(awaited, last)
            // The log ends before the received messages: send nothing more until the reason is known.
            if last < newest.sequence { follower.doubt() }
            if followState == .opening { follower.check() }
            again()
        case .unknown(let reason) where flight?.isLast(message.id) == true:
            fail(.unknown(reason: "the cluster's log did not answer: \(reason)"))
        // Without its last part the record does not count as in the log.
        case .unknown(let reason): fail(.unavailable(reason: reason))
        case .unavailable(let reason): fail(.unavailable(reason: reason))
        }
    }

    /// Puts the record in flight back in front of the waiting batches: another hub was faster.
    private func again() {
        guard let flight else { return }
        self.flight = nil
        conflicts += 1
        for item in flight.items.reversed() { waiting.prepend(item) }
        proceed()
    }

    /// Fails the record in flight.
    func fail(_ error: JournalError) {
        guard let flight else { return }
        self.flight = nil
        logger.warning("a record was not taken by the cluster's log", metadata: ["reason": "\(error)"])
        decide(flight.items, error)
        proceed()
    }

    // MARK: Messages

    /// Handles a message of the log, from the tail or as the acknowledgement of an own one; nil for one that no hub has written.
    func receive(_ message: LogMessage?, at sequence: UInt64) {
        dispatchPrecondition(condition: .onQueue(queue))
        let step = follower.advance(to: message, at: sequence)
        if step == .damaged { return applying.skip(to: newest) }
        guard step == .next, let message else { return }
        if let flight, flight.contains(message.id) {
            follower.interruptRecord()
            guard flight.isLast(message.id) else { return applying.skip(to: nil) }
            self.flight = nil
            return apply(flight.entries, of: hub, numbers: flight.items.map(\.number))
        }
        guard let body = follower.assemble(message) else { return applying.skip(to: nil) }
        guard let record = LogRecord(decoding: body) else {
            logger.error("a record of the cluster's log is damaged and is ignored by all hubs", metadata: ["message": "\(sequence)"])
            return applying.skip(to: newest)
        }
        apply(record.entries, of: message.hub, numbers: nil)
    }

    /// - Parameter numbers: of the completions, for a record of this hub.
    private func apply(_ entries: [LogRecord.Entry], of writer: UInt64, numbers: [Int]?) {
        var taken: [LocalApplyQueue.Entry] = []
        for (i, entry) in entries.enumerated() {
            let verdict = ledger.verdict(on: entry.batch, entry.namespace, at: newest.sequence)
            switch verdict {
            case .applies:
                ledger.record(entry.batch, entry.namespace, at: newest.sequence)
                if writer != hub { onForeignBatch(entry.namespace) }
                taken.append(LocalApplyQueue.Entry(namespace: entry.namespace, batch: entry.batch, number: numbers?[i]))
            case .isKnown: break
            case .isRefused(let error):
                logger.warning("a record of the cluster's log does not count", metadata: [
                    "message": "\(newest.sequence)", "namespace": "\(entry.namespace)", "reason": "\(error)",
                ])
                if let numbers { decide(entry.namespace, numbers[i], .failure(error)) }
            }
        }
        applying.add(taken, at: newest)
        storeLocally()
    }
}
