import Synchronization

/// Who writes a namespace.
public enum Writer: Sendable, Equatable {
    case here
    case hub(id: UInt64)
    /// None is known at the moment.
    case unknown
}

/// Who writes which namespace of a cluster now, as far as this hub has heard: each shard has one writer, which changes. From any thread.
public final class Writers: Sendable {
    /// This hub: a number of its own for each life of the process.
    public let hub: UInt64
    private let cluster: String
    private let shards: Int
    private let state: Mutex<State>
    private let listeners = Mutex<[@Sendable () -> Void]>([])

    private struct State {
        var writers: [Writer]
        var addresses: [UInt64: String] = [:]
        var hears = false
    }

    init(hub: UInt64, _ settings: ClusterSettings) {
        (self.hub, cluster, shards) = (hub, settings.name, settings.shards)
        state = Mutex(State(writers: Array(repeating: .unknown, count: settings.shards)))
    }

    public func writer(of namespace: String) -> Writer {
        let shard = LocalJournals.shard(of: namespace, among: shards)
        return state.withLock { $0.writers[shard] }
    }

    /// Whether a hub was heard of lately; this one always is.
    public func isAlive(_ hub: UInt64) -> Bool { hub == self.hub || state.withLock { $0.addresses[hub] != nil } }

    /// Whether this hub has heard all others for long enough to say that one is not there.
    public var hears: Bool { state.withLock { $0.hears } }

    /// How the hub that writes a namespace is shown; nil where this one does, or none is known.
    public func address(ofWriterOf namespace: String) -> String? {
        guard case .hub(let id) = writer(of: namespace) else { return nil }
        return state.withLock { $0.addresses[id] }.flatMap { $0.isEmpty ? nil : $0 }
    }

    /// By which a hub of this cluster is reached.
    public func subject(of hub: UInt64) -> String { "vigla.hub.\(cluster).\(String(hub, radix: 16))" }

    /// Calls back when another one writes some namespace, a hub came or went, or `hears` has changed. On a queue of the cluster.
    public func whenChanged(_ listener: @escaping @Sendable () -> Void) { listeners.withLock { $0.append(listener) } }

    func update(_ writers: [Writer], addresses: [UInt64: String], hears: Bool) {
        let isOther = state.withLock { state in
            defer { state = State(writers: writers, addresses: addresses, hears: hears) }
            return state.writers != writers || state.addresses.keys != addresses.keys || state.hears != hears
        }
        guard isOther else { return }
        for listener in listeners.withLock({ $0 }) { listener() }
    }
}
