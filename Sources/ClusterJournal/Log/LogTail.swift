import CNats
import Dispatch
import Synchronization

/// Follows a shard's log by an ordered consumer, which the servers keep in memory and which is made anew at will. A message that is missing
/// between two is noticed, and the log is followed from there again.
///
/// ```
/// libnats' thread: take a place in the window, copy ─► deliveries: the next one? ─► receive … done: the place is free again
///                                                                 └─ a hole ─► calls: subscribe anew from there
/// ```
final class LogTail: @unchecked Sendable {
    // Sendable: `next` and `hasHole` are confined to `deliveries`, `subscription` to `calls`; the rest is immutable or guards itself.
    private let log: ShardLog
    /// Calls that wait for the servers.
    private let calls: DispatchQueue
    private let deliveries: DispatchQueue
    private let receive: @Sendable (LogTail, UInt64, [UInt8]) -> Void
    private let missing: @Sendable (UInt64) -> Void
    /// Messages that may be under way: the server sends no more meanwhile.
    private let window: DispatchSemaphore
    /// The message that comes next.
    private var next: UInt64
    /// Whether the last subscription began with a hole.
    private var hasHole = false
    private var subscription: OpaquePointer?
    /// Of the subscription: messages of an earlier one are not looked at.
    private let generation = Atomic<Int>(0)
    private let isStopped = Atomic(false)
    private let refetchCount = Atomic<Int>(0)

    init(
        _ log: ShardLog, _ calls: DispatchQueue, from sequence: UInt64, _ receive: @escaping @Sendable (LogTail, UInt64, [UInt8]) -> Void,
        _ missing: @escaping @Sendable (UInt64) -> Void
    ) {
        (self.log, self.calls, self.receive, self.missing) = (log, calls, receive, missing)
        next = max(1, sequence)
        // Not begun with its places: it may go away while some are taken.
        window = DispatchSemaphore(value: 0)
        for _ in 0..<log.settings.window { window.signal() }
        deliveries = DispatchQueue(label: "vigla.cluster.tail.\(log.name)")
    }

    /// How often it began anew behind a hole, or because nothing came.
    var refetches: Int { refetchCount.load(ordering: .relaxed) }

    func start() { deliveries.async { [self] in subscribe() } }

    /// Follows anew from behind the last message.
    func restart() {
        deliveries.async { [self] in
            refetchCount.add(1, ordering: .relaxed)
            subscribe()
        }
    }

    /// Nothing is received any more once this has returned, but for a message that is under way.
    func stop() {
        isStopped.store(true, ordering: .relaxed)
        generation.add(1, ordering: .relaxed)
        calls.async { [self] in unsubscribe() }
    }

    /// A received message is done with.
    func done() { window.signal() }

    // MARK: Deliveries

    private func received(_ sequence: UInt64, _ bytes: [UInt8], _ number: Int) {
        guard number == generation.load(ordering: .relaxed), sequence >= next else { return done() }
        guard sequence == next else {
            done()
            // Twice at the same place: nothing is left of what was there.
            if hasHole { missing(sequence) }
            hasHole = true
            refetchCount.add(1, ordering: .relaxed)
            return subscribe()
        }
        next += 1
        hasHole = false
        receive(self, sequence, bytes)
    }

    /// On `deliveries`.
    private func subscribe() {
        if isStopped.load(ordering: .relaxed) { return }
        let (number, start) = (generation.add(1, ordering: .relaxed).newValue, next)
        calls.async { [self] in subscribe(from: start, number) }
    }

    // MARK: Calls

    private func unsubscribe() {
        guard let subscription else { return }
        self.subscription = nil
        natsSubscription_Unsubscribe(subscription)
        natsSubscription_Destroy(subscription)
    }

    private func subscribe(from start: UInt64, _ number: Int) {
        unsubscribe()
        guard number == generation.load(ordering: .relaxed), !isStopped.load(ordering: .relaxed) else { return }
        var made: OpaquePointer?
        let delivery = Unmanaged.passRetained(Delivery(tail: self, number: number))
        let status = log.name.withCString { name in
            var options = jsSubOptions()
            jsSubOptions_Init(&options)
            options.Stream = name
            options.Ordered = true
            options.Config.DeliverPolicy = js_DeliverByStartSequence
            options.Config.OptStartSeq = start
            options.Config.Heartbeat = 1_000_000_000
            var code = jsErrCode(0)
            return js_Subscribe(&made, log.connection.stream, log.subject, { _, _, message, closure in
                guard let message else { return }
                defer { natsMsg_Destroy(message) }
                guard let closure else { return }
                Unmanaged<Delivery>.fromOpaque(closure).takeUnretainedValue().deliver(message)
            }, delivery.toOpaque(), nil, &options, &code)
        }
        guard status == NATS_OK, let made else {
            delivery.release()
            return calls.asyncAfter(deadline: .now() + .milliseconds(200)) { [self] in subscribe(from: start, number) }
        }
        subscription = made
        let kept = natsSubscription_SetOnCompleteCB(
            made, { closure in if let closure { Unmanaged<Delivery>.fromOpaque(closure).release() } }, delivery.toOpaque())
        // Closed already: nothing is delivered any more, and what is left of the delivery stays.
        if kept != NATS_OK { restart() }
    }

    /// One subscription's messages, on the thread that libnats has for it.
    private final class Delivery: Sendable {
        private let tail: LogTail
        private let number: Int

        init(tail: LogTail, number: Int) { (self.tail, self.number) = (tail, number) }

        func deliver(_ message: OpaquePointer) {
            var found: UnsafeMutablePointer<jsMsgMetaData>?
            guard natsMsg_GetMetaData(&found, message) == NATS_OK, let found else { return }
            let sequence = found.pointee.Sequence.Stream
            jsMsgMetaData_Destroy(found)
            let bytes = ShardLog.bytes(of: message)
            while tail.window.wait(timeout: .now() + .milliseconds(100)) == .timedOut {
                if number != tail.generation.load(ordering: .relaxed) { return }
            }
            tail.deliveries.async { [tail, number] in tail.received(sequence, bytes, number) }
        }
    }
}
