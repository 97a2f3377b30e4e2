public import Commits
package import JSONTree
public import Synchronization

/// One connected program as the engine sees it. HubServer subclasses it with the state for sending bytes. The properties are final, so
/// that the engine reads them without dispatch.
///
/// Created on a net loop; afterwards the mutable parts belong to the database queue of the client's namespace.
open class Client: @unchecked Sendable {
    // Sendable: `lane` and `dialect` never change; the rest is confined to the database queue, which its users check.

    /// Index of the net loop that owns the connection.
    public final let lane: Int
    /// The protocol in which replies and events are written.
    public final let dialect: Dialect

    package final var identity = Identity.anonymous
    package final var sessionID: String?
    /// The peer's address: observers of a client without a user are charged to it. Nil: to no owner. Set before the first request.
    public final var address: String?
    /// The observations of the client.
    package final var observations = Observations()
    /// The client's charge for its observers and for the shared state it pays for, and the owners charged. Maintained by `ListenCounts`.
    package internal(set) final var charge = ListenCharge()
    package internal(set) final var chargedOwners: [Owner] = []
    package internal(set) final var paid: Set<SharedState> = []
    /// The observations whose permission depends on data; maintained by `ObserverRegistry`.
    package final var dependents: [Observation: Dependent] = [:]
    package final var pending = PendingWrites()
    /// Upper bound of the pending writes' bytes: overwritten ones count until the next recount.
    package final var pendingBytes = 0
    /// The owners charged for these bytes.
    package final var pendingOwners: [Owner] = []
    /// The id of the pending writes in the log; nil while there are none.
    package final var pendingID: String?
    package final var hasEnded = false
    /// Set while the client reads too slowly.
    package final var lag: Lag?
    /// Set while requests of the client wait for their turn.
    package final var requestQueue: ClientQueue?
    /// Set while a request of the client is prepared off the queue.
    package final var suspendedRequest: SuspendedRequest?
    /// Number of the last batch with output for this client alone.
    package final var lastSent = -1
    /// Bytes sent to this client alone since its lane last reported that everything had left.
    package final var unprobedBytes = 0
    /// Set on a follower, for a client whose writes are forwarded.
    package final var forwarded: ForwardedClient?
    /// Set on the writer, for a client of another hub.
    package final var remote: RemoteMarks?
    /// Set when the client's credential expires while one of its requests is suspended: it observes nothing from then on, and its session
    /// ends after that request.
    package final var isRevoked = false
    /// Set on the net loop when the connection is lost, and before a session that lags or has a suspended request is ended. From then on no
    /// content is sent; writes still count.
    public final let isGone = Atomic<Bool>(false)

    /// - Parameter identity: the initial identity; requests can change it.
    public init(lane: Int, dialect: Dialect, identity: Identity = .anonymous) {
        self.lane = lane
        self.dialect = dialect
        self.identity = identity
    }

    /// An answer to a client of the dialects `rest` and `system`. Called on the net loop of the client.
    open func replied(_ reply: Reply) {}

    /// The session of a client of the dialect `rest` has ended (`Delivery.close`). Called on the net loop of the client.
    open func dismissed() {}
}
