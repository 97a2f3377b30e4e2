import CNats
import Dispatch
import Synchronization

/// Follows a shard's log with a consumer that the servers keep in memory. It is recreated when a message is missing in the sequence,
/// and when not even a heartbeat has arrived.
///
/// ```
/// libnats' thread: take a slot of the window, copy ─► deliveries: the next one? ─► receive … done: the slot is free again
///                                                                └─ a gap ─► calls: subscribe again from there
/// ```
/// The consumer is created for a plain subscription, not by `js_Subscribe`. libnats 3.4 replaces an ordered consumer on another
/// thread, and puts a subscription that ended meanwhile back into the connection's list, where it stays after it was freed.
final class LogTail: @unchecked Sendable {
    // Sendable: `next` and `hasGap` are confined to `deliveries`, `subscription` to `calls`; the rest is immutable or thread-safe.
    private let log: ShardLog
    /// Queue for calls that wait for the servers.
    private let calls: DispatchQueue
    private let deliveries: DispatchQueue
    private let receive: @Sendable (LogTail, UInt64, [UInt8]) -> Void
    private let missing: @Sendable (LogTail, UInt64) -> Void
    /// Limits the messages that are being processed: above it the server sends no more.
    private let window: DispatchSemaphore
    /// The sequence number of the next message.
    private var next: UInt64
    /// Whether the last subscription began with a gap.
    private var hasGap = false
    private var subscription: OpaquePointer?
    /// The current subscription's number: messages of earlier ones are ignored.
    private let generation = Atomic<Int>(0)
    private let isStopped = Atomic(false)
    private let refetchCount = Atomic<Int>(0)
    /// When the servers last sent something, steady ms.
    private let lastReceivedAt = Atomic<Int64>(0)

    init(
        _ log: ShardLog, _ calls: DispatchQueue, from sequence: UInt64, _ receive: @escaping @Sendable (LogTail, UInt64, [UInt8]) -> Void,
        _ missing: @escaping @Sendable (LogTail, UInt64) -> Void
    ) {
        (self.log, self.calls, self.receive, self.missing) = (log, calls, receive, missing)
        next = max(1, sequence)
        // Created with 0 and signalled: a semaphore must not be released with a lower count than it was created with.
        window = DispatchSemaphore(value: 0)
        for _ in 0..<log.settings.window { window.signal() }
        deliveries = DispatchQueue(label: "vigla.cluster.tail.\(log.name)")
        markReceived()
    }

    /// How often it resubscribed after a gap or a silence.
    var refetches: Int { refetchCount.load(ordering: .relaxed) }

    /// Interval of the servers' idle heartbeats, ms.
    private static let heartbeatMs: Int64 = 1_000
    /// Whether more than one heartbeat was missed, although all delivered messages were processed.
    var isSilent: Bool { Self.nowMs - lastReceivedAt.load(ordering: .relaxed) > 3 * Self.heartbeatMs }

    private func markReceived() { lastReceivedAt.store(Self.nowMs, ordering: .relaxed) }
    private static var nowMs: Int64 { Int64(DispatchTime.now().uptimeNanoseconds / 1_000_000) }

    func start() { deliveries.async { [self] in subscribe() } }

    /// Resubscribes behind the last message.
    func restart() {
        deliveries.async { [self] in
            refetchCount.add(1, ordering: .relaxed)
            subscribe()
        }
    }

    /// Ends delivery. After it returns at most one message, already being delivered, is still received.
    func stop() {
        isStopped.store(true, ordering: .relaxed)
        generation.add(1, ordering: .relaxed)
        calls.async { [self] in unsubscribe() }
    }

    /// Releases a received message's slot in the window.
    func done() { window.signal() }

    // MARK: Deliveries

    private func received(_ sequence: UInt64, _ bytes: [UInt8], _ number: Int) {
        guard number == generation.load(ordering: .relaxed), sequence >= next else { return done() }
        guard sequence == next else {
            done()
            // A second gap at the same place: the missing messages no longer exist.
            if hasGap { missing(self, sequence) }
            hasGap = true
            refetchCount.add(1, ordering: .relaxed)
            return subscribe()
        }
        next += 1
        hasGap = false
        receive(self, sequence, bytes)
    }

    /// Subscribes on `deliveries`.
    private func subscribe() {
        if isStopped.load(ordering: .relaxed) { return }
        let (number, start) = (generation.add(1, ordering: .relaxed).newValue, next)
        calls.async { [self] in subscribe(from: start, number) }
    }

    // MARK: Calls

    private func unsubscribe() {
        guard let subscription else { return }
        self.subscription = nil
        log.connection.end(subscription)
    }

    private func subscribe(from start: UInt64, _ number: Int) {
        unsubscribe()
        guard number == generation.load(ordering: .relaxed), !isStopped.load(ordering: .relaxed) else { return }
        markReceived()
        if makeSubscription(number).map({ makeConsumer(from: start, to: $0) }) != true {
            unsubscribe()
            calls.asyncAfter(deadline: .now() + .milliseconds(200)) { [self] in subscribe(from: start, number) }
        }
    }

    /// - Returns: the subject to which the servers are to send.
    private func makeSubscription(_ number: Int) -> String? {
        var inbox: UnsafeMutablePointer<CChar>?
        guard natsInbox_Create(&inbox) == NATS_OK, let inbox else { return nil }
        defer { natsInbox_Destroy(inbox) }
        var made: OpaquePointer?
        let delivery = Unmanaged.passRetained(Delivery(tail: self, number: number))
        let status = natsConnection_Subscribe(&made, log.connection.handle, inbox, { _, _, message, closure in
            guard let message else { return }
            defer { natsMsg_Destroy(message) }
            guard let closure else { return }
            Unmanaged<Delivery>.fromOpaque(closure).takeUnretainedValue().receive(message)
        }, delivery.toOpaque())
        guard status == NATS_OK, let made else {
            delivery.release()
            return nil
        }
        subscription = made
        // No message is sent to the subscription yet. If the callback cannot be set, the connection is closed and none ever will be.
        let kept = natsSubscription_SetOnCompleteCB(
            made, { closure in if let closure { Unmanaged<Delivery>.fromOpaque(closure).release() } }, delivery.toOpaque())
        if kept != NATS_OK { delivery.release() }
        return String(cString: inbox)
    }

    private func makeConsumer(from start: UInt64, to inbox: String) -> Bool {
        inbox.withCString { inbox in
            var config = jsConsumerConfig()
            jsConsumerConfig_Init(&config)
            config.DeliverSubject = inbox
            config.DeliverPolicy = js_DeliverByStartSequence
            config.OptStartSeq = start
            config.AckPolicy = js_AckNone
            config.MaxDeliver = 1
            config.FlowControl = true
            config.Heartbeat = Self.heartbeatMs * 1_000_000
            config.MemoryStorage = true
            config.Replicas = 1
            var made: UnsafeMutablePointer<jsConsumerInfo>?
            var code = jsErrCode(0)
            defer { jsConsumerInfo_Destroy(made) }
            // An ephemeral consumer: the servers remove it when its subject has no subscriber.
            return js_AddConsumer(&made, log.connection.stream, log.name, &config, nil, &code) == NATS_OK
        }
    }

    /// One subscription's messages, on the thread that libnats has for it.
    private final class Delivery: Sendable {
        private let tail: LogTail
        private let number: Int

        init(tail: LogTail, number: Int) { (self.tail, self.number) = (tail, number) }

        func receive(_ message: OpaquePointer) {
            tail.markReceived()
            if natsMsg_GetDataLength(message) == 0, header("Status", of: message) == "100" { return answer(message) }
            var found: UnsafeMutablePointer<jsMsgMetaData>?
            guard natsMsg_GetMetaData(&found, message) == NATS_OK, let found else { return }
            let sequence = found.pointee.Sequence.Stream
            jsMsgMetaData_Destroy(found)
            let bytes = ShardLog.bytes(of: message)
            while tail.window.wait(timeout: .now() + .milliseconds(100)) == .timedOut {
                if number != tail.generation.load(ordering: .relaxed) { return }
                tail.markReceived()
            }
            tail.deliveries.async { [tail, number] in tail.received(sequence, bytes, number) }
        }

        /// Answers the servers' control messages: flow control, which waits for a reply, and idle heartbeats.
        private func answer(_ message: OpaquePointer) {
            let reply = natsMsg_GetReply(message).map { String(cString: $0) } ?? header("Nats-Consumer-Stalled", of: message)
            if let reply { natsConnection_Publish(tail.log.connection.handle, reply, nil, 0) }
        }

        private func header(_ name: String, of message: OpaquePointer) -> String? {
            var value: UnsafePointer<CChar>?
            guard natsMsgHeader_Get(message, name, &value) == NATS_OK, let value else { return nil }
            return String(cString: value)
        }
    }
}
