import JSONTree
import Synchronization

/// Begins, takes over, identifies and ends the sessions of a namespace, by id. Confined to the database queue.
final class Sessions {
    private let batch: Batch
    private let outbox: Outbox
    private let slowReaders: SlowReaders
    private let registry: ObserverRegistry
    private let disconnects: DisconnectWrites
    private let removalsAtOnce: Int
    private var byID: [String: Client] = [:]
    /// The client of another hub's session, on the writer.
    var remote: (String) -> Client? = { _ in nil }
    /// Called when the end of a client is undone, with its batch.
    var onRestored: (Client) -> Void = { _ in }
    /// Called at the end of a client that has pending writes at the writer.
    var onLeft: (Client) -> Void = { _ in }

    /// - Parameter removalsAtOnce: observers removed before the session's onDisconnect writes are applied, at most.
    init(
        _ batch: Batch, _ outbox: Outbox, _ slowReaders: SlowReaders, _ registry: ObserverRegistry, _ disconnects: DisconnectWrites,
        removalsAtOnce: Int
    ) {
        self.batch = batch
        self.outbox = outbox
        self.slowReaders = slowReaders
        self.registry = registry
        self.disconnects = disconnects
        self.removalsAtOnce = removalsAtOnce
    }

    func client(named id: String) -> Client? { byID[id] }

    /// The previous session that ends when a client begins one.
    func ended(by client: Client, replacing previous: String?) -> Client? {
        guard let previous, let old = byID[previous] ?? remote(previous), old !== client else { return nil }
        return old
    }

    /// - Parameter previous: the client's previous session, which ends now.
    func begin(_ client: Client, _ id: String, replacing previous: String?) {
        if let old = ended(by: client, replacing: previous) {
            end(old)
            outbox.close(old)
        }
        batch.record(.named(client, id, before: byID[id]))
        client.sessionID = id
        byID[id] = client
    }

    /// Ends a session: its observers are removed and its pending writes committed as one (contract §6.2).
    func end(_ client: Client) {
        client.hasEnded = true
        slowReaders.stop(client)
        let id = client.sessionID.flatMap { byID[$0] === client ? $0 : nil }
        if let id { byID[id] = nil }
        // A few observers are removed first, so that the onDisconnect writes have fewer receivers; many are removed later in slices.
        if client.observations.count <= removalsAtOnce { registry.removeAll(of: client) }
        disconnects.write(of: client)
        if client.forwarded?.mayHaveDisconnectWrites == true { onLeft(client) }
        if client.observations.count > 0 { registry.removeAll(of: client) }
        batch.record(.ended(client, wasNamed: id != nil))
    }

    /// The client's credential has expired. Its session ends later, after work in the background for one of its requests.
    func endRights(of client: Client) {
        client.isRevoked = true
        client.isGone.store(true, ordering: .relaxed)
        registry.removeAll(of: client)
    }

    /// - Returns: why another hub must not be notified of success.
    @discardableResult
    func identify(_ client: Client, as identity: Identity) -> Failure? {
        batch.record(.identified(client, before: client.identity))
        client.identity = identity
        return disconnects.identityChanged(of: client)
    }

    /// Undoes the changes of batches that are rolled back, in this order. The content has been rolled back already.
    func undo(_ changes: some Sequence<BatchHistory.SessionChange>) {
        for change in changes { undo(change) }
        // The changes recorded during the undo belong to no batch.
        batch.forgetHistory()
    }

    func undo(_ change: BatchHistory.SessionChange) {
        switch change {
        case .named(let client, let id, let before):
            client.sessionID = nil
            byID[id] = before
        case .ended(let client, let wasNamed):
            client.hasEnded = false
            if wasNamed, let id = client.sessionID { byID[id] = client }
            onRestored(client)
        case .identified(let client, let before): client.identity = before
        case .pendingChanged(let client, let before, let id): disconnects.restore(before, id: id, of: client)
        case .observed(let client, let observation): registry.remove(observation, of: client)
        // An expired credential stays expired, even if the log refuses the batch.
        case .unobserved(let client, _) where client.isRevoked: break
        case .unobserved(let client, let observation): registry.restore(observation, of: client)
        }
    }
}
