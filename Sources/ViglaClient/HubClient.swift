public import DispatchNet
public import JSONTree
public import LiveQueries
internal import Synchronization
public import WireProtocols

/// One user of a hub, over the observe protocol (`docs/observe-protocol.md`).
///
///     let client = HubClient(address, on: loop)
///     client.connect()
///     client.authenticate(token)
///     let feed = client.observe("/timeline/ana", .children) { print($0) }
///     client.set("/users/ana/name", WriteValue("Ana")) { result in … }
///
/// With `await` and for a program's own types: `HubClient+Async.swift`, `HubClient+Codable.swift`.
/// Every method may be called from any thread, at any time, also before `connect`: requests wait until they can be sent.
/// Calls of one thread keep their order. All closures are called on the client's loop and must not block.
///
/// ```
/// calls ─► ObserveClientState (open requests, observers) ─► Link (HTTP upgrade, frames) ─► socket
///                       ▲  after a loss: credential and observers are restored       │
///                       └─────────────── waits, with back-off and jitter ◄───────────┘
/// ```
/// The loop keeps a connected client alive until `close`. A client costs a few hundred bytes in addition to its connection, so one
/// loop carries thousands.
public final class HubClient: @unchecked Sendable {
    // because all mutable state below `loop` is used on the loop's queue only; `nextID` is atomic.

    public let address: HubAddress
    public let settings: HubClientSettings
    /// The loop on which the client runs and every closure is called.
    public let loop: EventLoop
    let onState: (@Sendable (State) -> Void)?

    private let nextID = Atomic<Int64>(1)
    var observeState = ObserveClientState()
    var phase = Phase.idle
    /// Verifies the hub's certificate; nil without TLS.
    var tlsClient: TLSClient?
    var backoff: Backoff

    enum Phase {
        /// `connect` has not been called.
        case idle
        /// A connection is being established.
        case connecting
        /// The hub has accepted the upgrade.
        case open(Link)
        /// Between two attempts; the timer starts the next one.
        case waiting(LoopTimer)
        /// `close` was called, or the first failure occurred with `reconnects` off.
        case closed
    }

    /// The state of the client, for display.
    public enum State: Sendable {
        case connecting
        case connected
        /// Not connected because of this error; the next attempt starts after this time.
        case waiting(ClientError, retryMs: Int)
        /// The restored credential was refused: the client is now anonymous.
        case credentialRefused(ObserveFailure)
        case closed
    }

    /// - Parameter onState: called on the loop at every change.
    public init(
        _ address: HubAddress, on loop: EventLoop, settings: HubClientSettings = HubClientSettings(),
        onState: (@Sendable (State) -> Void)? = nil
    ) {
        self.address = address
        self.loop = loop
        self.settings = settings
        self.onState = onState
        backoff = Backoff(settings.firstRetryMs, settings.lastRetryMs)
    }

    // MARK: lifetime

    /// Connects, and stays connected until `close`.
    public func connect() {
        onLoop { if case .idle = self.phase { self.attempt() } }
    }

    /// Closes the client: open requests and observers end with `.closed`.
    public func close() {
        onLoop { self.finish(.closed) }
    }

    // MARK: identity

    /// Acts as the token's user from now on, on this connection and all later ones. The answer is the uid.
    public func authenticate(_ token: String, _ done: (@Sendable (Result<String, ClientError>) -> Void)? = nil) {
        let id = makeID()
        let reply: ObserveClientState.Done? = if let done { { result in done(result.map { $0.uid ?? "" }) } } else { nil }
        onLoop { self.carryOut(self.observeState.authenticate(id, token, reply)) }
    }

    // MARK: observing

    /// Observes a place: first its current data, then every change. After a reconnect it continues where it was: the handler gets the missed
    /// events, or `.reset` and all current data.
    /// - Parameters:
    ///   - query: which children; nil for the whole place.
    ///   - maxHz: maximum values or counts per second, 0.001 to 1000; intermediate ones are skipped. Nil reports each.
    ///   - handler: called in the order of commits, with all events of a commit or none.
    public func observe(
        _ path: Path, _ events: ObserveEvents = .value, query: Query? = nil, maxHz: Double? = nil,
        _ handler: @escaping @Sendable (Observation) -> Void
    ) -> ObserverID {
        let id = makeID()
        let observer = ObserverState(path, events, query: query, maxHz: maxHz, handler)
        onLoop { self.carryOut(self.observeState.observe(id, observer)) }
        return ObserverID(rawValue: id)
    }

    /// Whether the rules do not declare the order of an observer's query (`.indexOn`), if the hub has said so.
    public func lacksIndex(_ observer: ObserverID, _ done: @escaping @Sendable (Bool) -> Void) {
        onLoop { done(self.observeState.lacksIndex(observer.rawValue)) }
    }

    /// Moves the centre of an observer whose query has a `near`; the handler gets the difference. In degrees.
    public func move(
        _ observer: ObserverID, latitude: Double, longitude: Double, _ done: (@Sendable (Result<Void, ClientError>) -> Void)? = nil
    ) {
        guard let centre = GeoPoint(latitude: latitude, longitude: longitude) else {
            let failure = ObserveFailure(code: ObserveCode.badRequest.rawValue, message: "That is no place on the earth.", member: "near")
            return onLoop { done?(.failure(.refused(failure))) }
        }
        move(observer, to: .centre(centre), done)
    }

    /// Changes the region of an observer whose query has a `within`, such as the viewport of a map; the handler gets the difference.
    public func move(_ observer: ObserverID, within: WithinQuery, _ done: (@Sendable (Result<Void, ClientError>) -> Void)? = nil) {
        move(observer, to: .within(within), done)
    }

    private func move(_ observer: ObserverID, to target: QueryMove, _ done: (@Sendable (Result<Void, ClientError>) -> Void)?) {
        let id = makeID()
        let reply: ObserveClientState.Done? = if let done { { result in done(result.map { _ in }) } } else { nil }
        onLoop { self.carryOut(self.observeState.move(id, observer.rawValue, to: target, reply)) }
    }

    /// Ends an observer. On the loop its handler is not called after this.
    public func unobserve(_ observer: ObserverID) {
        let id = makeID()
        onLoop { self.carryOut(self.observeState.unobserve(id, observer.rawValue)) }
    }

    // MARK: requests

    /// Sends one request. If the connection is lost before the answer, it fails with `.connectionLost`: it may have been
    /// carried out. A request that was never sent waits for the next connection.
    /// - Parameter operation: any except `auth`, `observe` and `unobserve`, which have their own methods.
    public func perform(_ operation: ObserveOperation, _ done: (@Sendable (Result<ObserveSuccess, ClientError>) -> Void)? = nil) {
        let id = makeID()
        onLoop { self.carryOut(self.observeState.ask(ObserveRequest(id: id, operation), done)) }
    }

    private func makeID() -> Int64 { nextID.wrappingAdd(1, ordering: .relaxed).oldValue }

    func onLoop(_ work: @escaping @Sendable () -> Void) {
        if loop.isOnLoop { work() } else { loop.execute(work) }
    }
}

/// Identifies one observer of one client.
public struct ObserverID: Hashable, Sendable {
    let rawValue: Int64
}
