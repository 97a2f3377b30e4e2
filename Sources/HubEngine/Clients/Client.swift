import JSONTree
public import Synchronization

/// One connected program as the engine sees it. HubServer subclasses it with the state for sending bytes.
///
/// Created on a net loop; afterwards the mutable parts belong to the database queue of the client's namespace.
open class Client: @unchecked Sendable {
    // Sendable: `lane` and `dialect` never change; the rest is confined to the database queue, which its users check.

    /// Index of the net loop that owns the connection.
    public let lane: Int
    /// The protocol in which replies and events are written.
    public let dialect: Dialect

    var identity = Identity.anonymous
    var sessionID: String?
    /// The peer's address: observers of a client without a user are charged to it. Nil: to no owner. Set before the first request.
    public var address: String?
    /// The observations of the client.
    var observations = Observations()
    /// The client's charge for its observers and for the shared state it pays for, and the owners charged. Maintained by `ListenCounts`.
    var charge = ListenCharge()
    var chargedOwners: [Owner] = []
    var paid: Set<SharedState> = []
    /// The observations whose permission depends on data; maintained by `ObserverRegistry`.
    var dependents: [Observation: Dependent] = [:]
    var pending = PendingWrites()
    /// Upper bound of the pending writes' bytes: overwritten ones count until the next recount.
    var pendingBytes = 0
    /// The owners charged for these bytes.
    var pendingOwners: [Owner] = []
    /// The id of the pending writes in the log; nil while there are none.
    var pendingID: String?
    var hasEnded = false
    /// Set while the client reads too slowly.
    var lag: Lag?
    /// Set while requests of the client wait for their turn.
    var requestQueue: ClientQueue?
    /// Set while a request of the client is prepared off the queue.
    var suspendedRequest: SuspendedRequest?
    /// Number of the last batch with output for this client alone.
    var lastSent = -1
    /// Bytes sent to this client alone since its lane last reported that everything had left.
    var unprobedBytes = 0
    /// Set on a follower, for a client whose writes are forwarded.
    var forwarded: ForwardedClient?
    /// Set on the writer, for a client of another hub.
    var remote: RemoteMarks?
    /// Set when the client's credential expires while one of its requests is suspended: it observes nothing from then on, and its session
    /// ends after that request.
    var isRevoked = false
    /// Set on the net loop when the connection is lost, and before a session that lags or has a suspended request is ended. From then on no
    /// content is sent; writes still count.
    public let isGone = Atomic<Bool>(false)

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
