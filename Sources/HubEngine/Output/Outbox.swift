/// The output of the running batch. It is sent when the batch is durable, or early if it does not depend on the batch. Confined to the database
/// queue.
final class Outbox {
    /// When a message is sent.
    enum Channel {
        /// When the batch is durable.
        case batch
        /// At the end of the batch, without waiting for the log.
        case early
    }

    private var output: OutputBuffer
    private var early: OutputBuffer
    private let lanes: Int

    init(lanes: Int) {
        self.lanes = lanes
        output = OutputBuffer(lanes: lanes, number: 0)
        early = OutputBuffer(lanes: lanes)
    }

    /// Number of the running batch.
    var batchNumber: Int { output.number ?? 0 }
    /// Bytes of output so far: of both channels, and of the batch channel alone.
    var bytes: Int { output.bytes + early.bytes }
    var batchBytes: Int { output.bytes }

    func send(_ bytes: [UInt8], to client: Client, _ channel: Channel = .batch) {
        if channel == .batch { output.send(bytes, to: client) } else { early.send(bytes, to: client) }
    }

    func send(_ deferred: DeferredBytes, to client: Client, _ channel: Channel = .batch) {
        if channel == .batch { output.send(deferred, to: client) } else { early.send(deferred, to: client) }
    }

    func send(_ bytes: [UInt8], to audience: Audience) { output.send(bytes, to: audience) }

    /// - Parameter clients: clients of this lane; not empty.
    func send(_ deferred: DeferredBytes, to clients: [Client], lane: Int) { output.send(deferred, to: clients, lane: lane) }

    func reply(_ reply: Reply, to client: Client, _ channel: Channel) {
        if channel == .batch { output.reply(reply, to: client) } else { early.reply(reply, to: client) }
    }

    func probe(_ client: Client, _ channel: Channel = .batch) {
        if channel == .batch { output.probe(client) } else { early.probe(client) }
    }

    func mark(_ client: Client, _ bytes: Int) { output.mark(client, bytes) }
    func close(_ client: Client) { output.close(client) }

    /// Keeps the probes of a rolled-back batch, since their clients are held back until the probes are answered.
    func moveProbes(of other: OutputBuffer) { output.moveProbes(of: other) }

    /// Ends the batch. The next one gets this number.
    func end(next number: Int) -> OutputBuffer {
        defer { output = OutputBuffer(lanes: lanes, number: number) }
        return output
    }

    /// Ends a batch that need not wait for the log, and sends its output at once. The next batch gets this number.
    /// - Parameter first: the lane that is served first.
    func release(to outlet: Outlet, from first: Int, next number: Int) {
        output.begin(number)
        for i in 0..<lanes {
            let lane = (first + i) % lanes
            let deliveries = output.takeDeliveries(lane)
            if !deliveries.isEmpty { outlet(lane, deliveries) }
        }
    }

    func releaseEarly(to outlet: Outlet) {
        if early.isEmpty { return }
        let leaving = early
        early = OutputBuffer(lanes: lanes)
        leaving.release(to: outlet, from: 0)
    }
}
