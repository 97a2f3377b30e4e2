import Journal
import JSONTree

/// Hands the onDisconnect writes of all hubs' sessions over when the writer changes. As the writer, this hub keeps those of other hubs'
/// sessions, and applies them when the sessions do not come back.
///
/// ```
/// beginWriting: writes in the log ─┬─ of this hub's clients ──────► DisconnectWrites
///                                  ├─ of other hubs' clients ─────► RemoteRequests
///                                  └─ of hubs that are unknown ───► elsewhere ── presenceMs ──► applied
/// endWriting: all of them ─► Forwarding, Follower
/// ```
/// Confined to the database queue.
final class SessionHandover: @unchecked Sendable {
    // Sendable: timers only hop back to the queue with it.
    private let context: EngineContext
    private let durability: DurabilityQueue
    private let disconnects: DisconnectWrites
    /// Nil without a cluster.
    private let peers: PeerComponents?
    /// Pending onDisconnect writes of other hubs' sessions, while this hub is the writer.
    private var elsewhere: [PendingSession] = []
    /// Number of times that this hub became the writer, and whether it still is.
    private var terms = 0
    private var isWriting = false

    init(_ context: EngineContext, _ durability: DurabilityQueue, _ disconnects: DisconnectWrites, _ peers: PeerComponents?) {
        self.context = context
        self.durability = durability
        self.disconnects = disconnects
        self.peers = peers
    }

    /// The pending onDisconnect writes of all sessions, on the writer.
    var pending: [PendingSession] { disconnects.pendingSessions + elsewhere }

    /// This hub becomes the writer.
    /// - Parameter pending: the pending onDisconnect writes of all sessions.
    func beginWriting(_ pending: [PendingSession]) {
        let own = Set(disconnects.pendingSessions.map(\.id))
        disconnects.dropDeferred(besides: Set(pending.map(\.id)))
        elsewhere = pending.filter { !own.contains($0.id) }
        if let remote = peers?.remote { elsewhere = remote.begin(adopting: elsewhere) }
        peers?.forwarding?.isFollowing = false
        terms += 1
        isWriting = true
    }

    /// This hub is the writer and accepts writes.
    func hasBegunWriting() {
        peers?.forwarding?.writerChanged()
        if !elsewhere.isEmpty { applyLater() }
    }

    /// This hub accepts no more writes; its commits may still wait for the log.
    func stopWriting() { isWriting = false }

    /// Another hub is the writer from now on, and gets the pending writes of this hub's sessions.
    /// - Returns: the pending onDisconnect writes of all sessions.
    func endWriting() -> [PendingSession] {
        let pending = pending
        elsewhere = []
        if let peers {
            peers.remote?.end()
            disconnects.handOver { peers.forwarding?.takeOver($0, leaving: $1) } ended: { peers.hasEnded($0) }
        }
        return pending
    }

    /// This hub follows another one.
    func follow() { peers?.forwarding?.isFollowing = true }

    /// Sessions of vanished hubs end if they have not come back after `presenceMs`.
    private func applyLater() {
        context.later(ms: context.limits.presenceMs) { [weak self, terms] in
            guard let self, isWriting, terms == self.terms, !elsewhere.isEmpty else { return }
            let gone = elsewhere
            elsewhere = []
            applyAbandoned(gone)
        }
    }

    /// Applies the onDisconnect writes of sessions that are gone, a turn's work at a time. Requests wait until all are applied.
    func applyAbandoned(_ sessions: [PendingSession]) {
        disconnects.applyAbandoned(sessions)
        durability.finishBatch()
    }
}
