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

    /// Most messages of one record: 64 MB.
    static let mostParts = 64
    /// Time limit for `sync`, within which everything must have arrived.
    static let syncMs: Int64 = 2_000

    let queue: DispatchQueue
    let log: ShardLog
    let follower: LogFollower
    let logger: Logger
    private let hub: UInt64
    /// Id of this hub's next message.
    private let nextID = Atomic<UInt64>(UInt64.random(in: 1..<1 << 63))
    private let inbox = Mutex(Inbox())
    private let came = DispatchSemaphore(value: 0)
    let gate = Mutex(Gate(fault: .unavailable(reason: "it is not followed yet")))

    /// - Parameter hub: distinguishes this hub's messages from others'.
    init(_ connection: NatsConnection, name: String, hub: UInt64, _ settings: ClusterSettings, _ scheduler: Scheduler, _ logger: Logger) {
        var logSettings = settings.log
        // A follower's queue waits for the append.
        logSettings.appendMs = settings.sharedAppendMs
        logSettings.attemptMs = min(settings.attemptMs, settings.sharedAppendMs)
        log = ShardLog(connection, name: name, settings: logSettings)
        self.hub = hub
        var logger = logger
        logger[metadataKey: "log"] = "\(name)"
        self.logger = logger
        queue = DispatchQueue(label: "vigla.cluster.shared.\(name)")
        follower = LogFollower(log, queue, settings, scheduler, logger)
    }

    func hop(_ body: @escaping @Sendable (SharedStream) -> Void) { queue.async { [self] in body(self) } }

    // MARK: The follower's calls

    func follow(from place: SharedPlace?, _ arrived: @escaping @Sendable () -> Void) {
        inbox.withLock { $0.arrived = arrived }
        hop { stream in
            let place = place ?? SharedPlace()
            stream.follower.restart(created: place.created, at: LogPlace(sequence: place.sequence, id: place.id))
            stream.follower.start(stream)
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
            if stream.follower.state == .closed { return done(false) }
            stream.follower.whenCaughtUp(withinMs: Self.syncMs, done)
        }
    }

    // MARK: Messages

    func delivered(_ message: LogMessage?, at sequence: UInt64, by tail: LogTail) {
        switch (follower.advance(to: message, at: sequence), message) {
        case (.damaged, _): push(record: nil, isComplete: true, tail)
        case (.next, let message?):
            let record = follower.assemble(message)
            push(record: record, isComplete: record != nil, tail)
        default: tail.done()
        }
    }

    private func push(record: [UInt8]?, isComplete: Bool, _ tail: LogTail) {
        let newest = follower.newest
        let place = SharedPlace(created: follower.created, sequence: newest.sequence, id: newest.id)
        let (isAwaited, arrived) = inbox.withLock { inbox in
            inbox.entries.append((SharedEntry(place, record: record, isComplete: isComplete), tail))
            defer { inbox.isAwaited = false }
            return (inbox.isAwaited, inbox.entries.count == 1 ? inbox.arrived : nil)
        }
        if isAwaited { came.signal() }
        arrived?()
        follower.reached(newest.sequence)
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
