import Synchronization

/// Bytes on their way to clients of one net loop ("lane").
public enum Delivery: Sendable {
    case one(Client, [UInt8])
    /// The same bytes for many clients.
    case many([Client], [UInt8])
    /// The same for a large message that is still being encoded. Later messages for these clients wait for it.
    case later([Client], DeferredBytes)
    /// The client's session has ended: a newer connection has taken it over, or its credential has expired. Close the connection after all earlier
    /// messages are sent.
    case close(Client)
    /// Report `drained` when all earlier messages to the client have been sent.
    case probe(Client)
    /// The answer to a client of the dialect `rest`.
    case reply(Client, Reply)
    /// All requests that the client made before its mark are done.
    case marked(Client, bytes: Int)
}

/// Hands deliveries to the net loop of a lane, in order. Called on the database queue.
public typealias Outlet = @Sendable (_ lane: Int, _ deliveries: [Delivery]) -> Void

/// The output of one batch of requests, in order, by lane.
struct OutputBuffer {
    private(set) var lanes: [[Delivery]]
    /// Bytes held. Bytes for many clients count once; a deferred message counts its minimum size.
    private(set) var bytes = 0
    /// Number of the batch, recorded in its receivers; nil records nothing.
    private(set) var number: Int?

    init(lanes: Int, number: Int? = nil) {
        self.lanes = Array(repeating: [], count: lanes)
        self.number = number
    }

    /// A loop: a key path here costs 860 instructions (measured), and this runs after each batch.
    var isEmpty: Bool {
        for deliveries in lanes where !deliveries.isEmpty { return false }
        return true
    }

    mutating func send(_ bytes: [UInt8], to client: Client) {
        guard !bytes.isEmpty, !client.hasEnded else { return }
        lanes[client.lane].append(.one(client, bytes))
        client.unprobedBytes += bytes.count
        self.bytes += bytes.count
        recordSent(client)
    }

    mutating func send(_ deferred: DeferredBytes, to client: Client) {
        guard !client.hasEnded else { return }
        send(deferred, to: [client], lane: client.lane)
        recordSent(client)
    }

    /// - Parameter clients: clients of this lane; not empty.
    mutating func send(_ deferred: DeferredBytes, to clients: [Client], lane: Int) {
        lanes[lane].append(.later(clients, deferred))
        bytes += deferred.leastBytes
    }

    private func recordSent(_ client: Client) {
        if let number { client.lastSent = number }
    }

    mutating func send(_ bytes: [UInt8], to audience: Audience) {
        guard !bytes.isEmpty else { return }
        self.bytes += bytes.count
        for lane in lanes.indices where !audience.lanes[lane].isEmpty {
            lanes[lane].append(.many(audience.lanes[lane], bytes))
        }
    }

    mutating func reply(_ reply: Reply, to client: Client) {
        guard !client.hasEnded else { return }
        lanes[client.lane].append(.reply(client, reply))
        recordSent(client)
    }

    mutating func probe(_ client: Client) { lanes[client.lane].append(.probe(client)) }
    mutating func mark(_ client: Client, _ bytes: Int) { lanes[client.lane].append(.marked(client, bytes: bytes)) }
    mutating func close(_ client: Client) {
        lanes[client.lane].append(.close(client))
        recordSent(client)
    }

    /// Drops the output of a rolled-back batch: its bytes no longer count as sent, and its deferred messages are not encoded.
    func giveUp() {
        for delivery in lanes.joined() {
            switch delivery {
            case .one(let client, let bytes): client.unprobedBytes = max(0, client.unprobedBytes - bytes.count)
            case .later(_, let deferred): deferred.isAbandoned.store(true, ordering: .relaxed)
            default: break
            }
        }
    }

    /// Keeps the probes of a rolled-back batch, since their clients are held back until the probes are answered.
    mutating func moveProbes(of other: OutputBuffer) {
        for (lane, deliveries) in other.lanes.enumerated() {
            for delivery in deliveries { if case .probe = delivery { lanes[lane].append(delivery) } }
        }
    }

    /// Starts the batch with this number. The held bytes count as sent; the caller takes them lane by lane.
    mutating func begin(_ number: Int) { (bytes, self.number) = (0, number) }

    mutating func takeDeliveries(_ lane: Int) -> [Delivery] {
        var deliveries: [Delivery] = []
        swap(&deliveries, &lanes[lane])
        return deliveries
    }

    /// - Parameter first: the lane that is served first.
    func release(to outlet: Outlet, from first: Int) {
        for i in lanes.indices {
            let lane = (first + i) % lanes.count
            if !lanes[lane].isEmpty { outlet(lane, lanes[lane]) }
        }
    }
}
