import Synchronization

/// The writer of a namespace.
public enum Writer: Sendable, Equatable {
    case here
    case hub(id: UInt64)
    /// No writer is known at the moment.
    case unknown
}

/// The current writer of each namespace of a cluster, as known to this hub: each shard has one writer, which may change. From any thread.
public final class Writers: Sendable {
    /// This hub's id, unique for each run of the process.
    public let hub: UInt64
    private let cluster: String
    private let shards: Int
    private let state: Mutex<State>
    private let listeners = Mutex<[@Sendable () -> Void]>([])

    private struct State {
        var writers: [Writer]
        var addresses: [UInt64: String] = [:]
        var isMembershipKnown = false
    }

    init(hub: UInt64, _ settings: ClusterSettings) {
        (self.hub, cluster, shards) = (hub, settings.name, settings.shards)
        state = Mutex(State(writers: Array(repeating: .unknown, count: settings.shards)))
    }

    public func writer(of namespace: String) -> Writer {
        let shard = LocalJournals.shard(of: namespace, among: shards)
        return state.withLock { $0.writers[shard] }
    }

    /// Whether a hub has sent a heartbeat recently; always true for this one.
    public func isAlive(_ hub: UInt64) -> Bool { hub == self.hub || state.withLock { $0.addresses[hub] != nil } }

    /// Whether this hub has received heartbeats for long enough to know that a missing hub is gone.
    public var isMembershipKnown: Bool { state.withLock { $0.isMembershipKnown } }

    /// The shown address of a namespace's writer; nil if this hub writes it, or no writer is known.
    public func address(ofWriterOf namespace: String) -> String? {
        guard case .hub(let id) = writer(of: namespace) else { return nil }
        return state.withLock { $0.addresses[id] }.flatMap { $0.isEmpty ? nil : $0 }
    }

    /// The NATS subject of a hub of this cluster.
    public func subject(of hub: UInt64) -> String { "vigla.hub.\(cluster).\(String(hub, radix: 16))" }

    /// Calls back when a namespace's writer changes, a hub comes or goes, or `isMembershipKnown` changes. On a queue of the cluster.
    public func whenChanged(_ listener: @escaping @Sendable () -> Void) { listeners.withLock { $0.append(listener) } }

    func update(_ writers: [Writer], addresses: [UInt64: String], isMembershipKnown: Bool) {
        let isOther = state.withLock { state in
            defer { state = State(writers: writers, addresses: addresses, isMembershipKnown: isMembershipKnown) }
            return state.writers != writers || state.addresses.keys != addresses.keys || state.isMembershipKnown != isMembershipKnown
        }
        guard isOther else { return }
        for listener in listeners.withLock({ $0 }) { listener() }
    }
}
