import Dispatch
import Journal
import Logging
import Scheduling
import Synchronization

/// A log on NATS JetStream that all hubs append to and follow: `SharedLog` over `ShardLog` and its tail. Records are split into
/// messages like those of the shards.
///
/// ```
/// follower ─► append ─► the log, message by message, each behind the one before ─► outcome
///     ▲ take
///  inbox ◄─ assembler ◄─ message: behind the newest? ◄─ tail ◄─ the log
/// ```
final class SharedStream: SharedLog, @unchecked Sendable {
    // Sendable: `inbox` and `gate` are thread-safe, the rest is confined to `queue`; callbacks only hop to it.

    struct Inbox {
        var entries: [(entry: SharedEntry, tail: LogTail)] = []
        /// Whether the follower waits for the next record.
        var isAwaited = false
        var arrived: (@Sendable () -> Void)?
    }

    /// State that appends read without the queue.
    struct Gate {
        /// Why appends are refused; nil when they are possible.
        var fault: JournalError?
        /// When the log was created.
        var created: Int64 = 0
    }

    /// A caller that waits until everything has arrived that the log contained at some moment.
    struct Waiter {
        /// The check that determines that moment's last message.
        let look: Int
        var target: UInt64?
        let untilMs: Int64
        let done: @Sendable (Bool) -> Void
    }

    /// Most messages of one record: 64 MB.
    static let mostParts = 64
    /// Time limit for `sync`, within which everything must have arrived.
    static let syncMs: Int64 = 2_000

    let queue: DispatchQueue
    let log: ShardLog
    let settings: ClusterSettings
    let scheduler: Scheduler
    let logger: Logger
    private let hub: UInt64
    /// Id of this hub's next message.
    private let nextID = Atomic<UInt64>(UInt64.random(in: 1..<1 << 63))
    private let inbox = Mutex(Inbox())
    private let came = DispatchSemaphore(value: 0)
    let gate = Mutex(Gate(fault: .unavailable(reason: "it is not followed yet")))

    var followState = Shard.FollowState.opening
    /// When the log was created; 0 while unknown.
    var created: Int64 = 0
    /// The newest message that was received in order.
    var newest = LogPlace()
    var assembler = RecordAssembler()
    var tail: LogTail?
    var inspection: LogVerifier
    var works: [ScheduledWork] = []
    var waiters: [Waiter] = []
    /// Number of checks that were started.
    var looks = 0
    var isLooking = false
    /// The newest message at the last regular check.
    var lookedAt = LogPlace()

    /// - Parameter hub: distinguishes this hub's messages from others'.
    init(_ connection: NatsConnection, name: String, hub: UInt64, _ settings: ClusterSettings, _ scheduler: Scheduler, _ logger: Logger) {
        var logSettings = settings.log
        // A follower's queue waits for the append.
        logSettings.appendMs = settings.sharedAppendMs
        logSettings.attemptMs = min(settings.attemptMs, settings.sharedAppendMs)
        log = ShardLog(connection, name: name, settings: logSettings)
        (self.settings, self.scheduler, self.hub) = (settings, scheduler, hub)
        var logger = logger
        logger[metadataKey: "log"] = "\(name)"
        self.logger = logger
        queue = DispatchQueue(label: "vigla.cluster.shared.\(name)")
        inspection = LogVerifier(patienceMs: settings.regressionPatienceMs)
    }

    func hop(_ body: @escaping @Sendable (SharedStream) -> Void) { queue.async { [self] in body(self) } }

    // MARK: The follower's calls

    func follow(from place: SharedPlace?, _ arrived: @escaping @Sendable () -> Void) {
        inbox.withLock { $0.arrived = arrived }
        hop { stream in
            let place = place ?? SharedPlace()
            stream.created = place.created
            stream.newest = LogPlace(sequence: place.sequence, id: place.id)
            stream.open()
        }
    }

    func receive(waitMs: Int) -> [SharedEntry] {
        let end = DispatchTime.now() + .milliseconds(waitMs)
        while true {
            let (taken, waits) = inbox.withLock { inbox in
                let taken = inbox.entries
                inbox.entries = []
                inbox.isAwaited = taken.isEmpty && waitMs > 0 && DispatchTime.now() < end
                return (taken, inbox.isAwaited)
            }
            for item in taken { item.tail.done() }
            guard waits else { return taken.map(\.entry) }
            _ = came.wait(timeout: end)
        }
    }

    func append(_ record: [UInt8], after place: SharedPlace) -> SharedOutcome {
        let (fault, created) = gate.withLock { ($0.fault, $0.created) }
        if let fault { return .refused(fault) }
        let most = log.settings.messageBytes - 1024
        let parts = max(1, (record.count + most - 1) / most)
        guard parts <= Self.mostParts else {
            return .refused(.unavailable(reason: "a change of \(record.count) bytes is too large; divide it"))
        }
        let first = nextID.add(UInt64(parts), ordering: .relaxed).oldValue
        var last = LogPlace(sequence: place.sequence, id: place.id)
        for part in 0..<parts {
            let message = LogMessage(
                id: first &+ UInt64(part), previous: last.id, hub: hub, part: part, parts: parts,
                body: record[part * most..<min(record.count, (part + 1) * most)])
            switch appendNow(message, after: last.sequence) {
            case .stored(let sequence), .duplicate(let sequence): last = LogPlace(sequence: sequence, id: message.id)
            case .conflict(let newest) where newest < last.sequence:
                let fault = JournalError.unavailable(reason: "the log ends before what was received")
                doubt(fault)
                return .refused(fault)
            case .conflict(let newest): return .conflict(last: newest)
            case .unknown(let reason):
                doubt(.unavailable(reason: reason))
                // Without its last part the record does not count as in the log.
                return part == parts - 1 ? .unknown(reason) : .refused(.unavailable(reason: reason))
            case .unavailable(let reason):
                doubt(.unavailable(reason: reason))
                return .refused(.unavailable(reason: reason))
            }
        }
        return .stored(SharedPlace(created: created, sequence: last.sequence, id: last.id))
    }

    private func appendNow(_ message: LogMessage, after sequence: UInt64) -> AppendOutcome {
        let answer = Answer()
        log.append(message.encoded, id: message.id, after: sequence) { answer.give($0) }
        return answer.wait(ms: Int(log.settings.appendMs + 2 * log.settings.attemptMs)) ?? .unknown("the log did not answer")
    }

    private final class Answer: Sendable {
        private let outcome = Mutex<AppendOutcome?>(nil)
        private let given = DispatchSemaphore(value: 0)

        func give(_ outcome: AppendOutcome) {
            self.outcome.withLock { $0 = outcome }
            given.signal()
        }

        func wait(ms: Int) -> AppendOutcome? {
            _ = given.wait(timeout: .now() + .milliseconds(ms))
            return outcome.withLock { $0 }
        }
    }

    func sync(_ done: @escaping @Sendable (Bool) -> Void) {
        hop { stream in
            if stream.followState == .closed { return done(false) }
            // A check in progress may have read the log too early.
            stream.waiters.append(Waiter(look: stream.looks + 1, untilMs: stream.scheduler.steadyMs + Self.syncMs, done: done))
            stream.look()
        }
    }

    // MARK: Messages

    /// Handles a message of the log; nil for one that no hub has written.
    func receive(_ message: LogMessage?, at sequence: UInt64, by tail: LogTail) {
        guard sequence == newest.sequence + 1, followState == .following else { return tail.done() }
        guard let message else {
            logger.error("a message of the cluster's log is damaged and is ignored by all hubs", metadata: ["message": "\(sequence)"])
            newest = LogPlace(sequence: sequence, id: 0)
            assembler.interrupt()
            return push(record: nil, isComplete: true, tail)
        }
        guard message.previous == newest.id else {
            tail.done()
            return refuse("message \(sequence) does not follow the one that this hub has received before it")
        }
        newest = LogPlace(sequence: sequence, id: message.id)
        let record = assembler.receive(message)
        push(record: record, isComplete: record != nil, tail)
    }

    private func push(record: [UInt8]?, isComplete: Bool, _ tail: LogTail) {
        let place = SharedPlace(created: created, sequence: newest.sequence, id: newest.id)
        let (isAwaited, arrived) = inbox.withLock { inbox in
            inbox.entries.append((SharedEntry(place, record: record, isComplete: isComplete), tail))
            defer { inbox.isAwaited = false }
            return (inbox.isAwaited, inbox.entries.count == 1 ? inbox.arrived : nil)
        }
        if isAwaited { came.signal() }
        arrived?()
        notifyWaiters()
    }

    // MARK: End

    /// Ends it: later appends are refused.
    func close(_ done: @escaping @Sendable () -> Void) {
        hop { stream in
            stream.end()
            stream.inbox.withLock { $0.arrived = nil }
            done()
        }
    }
}
