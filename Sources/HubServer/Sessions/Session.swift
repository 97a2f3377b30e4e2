import DispatchNet
import HubEngine
import JSONTree
import Scheduling
import Synchronization
import WireProtocols

/// The session of one connected client, in one of the hub's protocols, over any carrier.
///
///     request ─► (queued while a credential is verified) ─► Database        in order of arrival (contract §2.5 rule 1)
///
/// Created and used on the loop of its lane, except the fields of `Client`, which the engine uses. `Session+Flow` bounds the traffic in
/// both directions.
class Session: Client, SocketListener, LoopMember, @unchecked Sendable {
    // Sendable: everything declared here is constant and used on the lane's loop only.
    final let carrier: any Carrier
    final let database: Database
    /// The lane whose loop it is used on.
    final let home: LoopSessions
    final let server: Server
    final var unanswered = UnansweredRequests()
    /// How to close the session once everything is answered; nil while it stays open.
    final var closing: SessionClose?
    /// The database expects a `drained` report.
    final var isDrainExpected = false
    /// The output queue behind a frame that is still being encoded; nil when all output was sent.
    final var outputQueue: OutputQueue?

    /// Parses large messages; nil before the first one.
    final private(set) var largeReader: LargeMessageReader?
    /// The lease for an incomplete message.
    final var incoming = IncomingBytes()
    /// The identity last submitted to the database.
    private var submittedIdentity: Identity

    /// Requests that wait for a credential to be verified; nil while none is.
    private var waitingRequests: [() -> Void]?
    /// Bytes of those requests.
    final private(set) var waitingBytes = 0
    /// When the credential and its leeway expire, ms since the epoch.
    private var endsAt: Int64?
    /// When the credential ends because its own session has changed the account; in steady ms, which clock changes do not affect.
    private var leewayEndsAt: Int64?
    /// The sign-in of the client's identity; a change of the account revokes it.
    private var signIn: SignIn?
    /// Credentials refused since the last accepted one.
    private var refusals = 0

    init(_ carrier: any Carrier, lane: Int, database: Database, server: Server, dialect: Dialect, identity: Identity = .anonymous) {
        self.carrier = carrier
        self.database = database
        self.server = server
        home = server.lanes[lane]
        submittedIdentity = identity
        super.init(lane: lane, dialect: dialect, identity: identity)
        server.sessions.add(dialect, 1)
        home.add(self)
        // Its request may have waited for a credential while the database was removed: `closeSessions` has run before.
        if !server.serves(database) { home.loop.execute { [weak self] in self?.databaseIsRemoved() } }
    }

    /// A complete text message; the bytes are valid during the call.
    func received(text: UnsafeRawBufferPointer) {}

    /// A complete text message above `largeRequestBytes`.
    func received(large: LargeText) {}

    /// The incomplete protocol message; nil while there is none.
    var openMessage: OpenMessage? { nil }

    /// Releases an incomplete message in the background: the session has ended, and all before it is processed.
    func retireInput() {}

    /// The connection has ended. Requests from before are still carried out, then the session's end.
    final func ended() { ended(behind: largeReader) }

    /// - Parameter reading: the reader of the session's large messages.
    final func ended(behind reading: LargeMessageReader?) {
        server.sessions.add(dialect, -1)
        home.remove(self)
        isGone.store(true, ordering: .relaxed)
        outputQueue = nil
        incoming = IncomingBytes()
        expire(at: nil)
        if let reading, reading.isBusy { _ = reading.enqueue(0) { [self] in submitEnd() } } else { submitEnd() }
    }

    private func submitEnd() {
        retireInput()
        // The sign-in ends here: requests from before may still need it.
        attach(nil)
        if isWaiting { waitingRequests?.append { [self] in database.submit(.end, from: self) } } else { database.submit(.end, from: self) }
    }

    // MARK: Credentials

    final var isWaiting: Bool { waitingRequests != nil }

    /// Queues a request behind those that wait for a credential.
    /// - Parameter size: bytes that the request holds.
    final func waitForCredential(_ size: Int, _ carryOut: @escaping () -> Void) {
        waitingRequests?.append(carryOut)
        waitingBytes += size
        holdIfNeeded()
        let limit = server.settings.limits.requestsBehindAuth
        if let count = waitingRequests?.count, count > limit {
            close(WebSocketCloseCode.policyViolation, "more than \(limit) requests wait for a credential")
        }
    }

    /// Verifies a credential and answers; later requests wait for it (contract check 34).
    final func identify(_ credential: String, override: Node? = nil, token: Int64) {
        // The session is being closed: further credentials are not verified.
        if refusals >= server.settings.limits.refusedCredentials { return }
        waitingRequests = []
        let signIn = server.beginSignIn(credential, to: database, home)
        let counted = { [self] in server.countedAddress(address, carrier.peer) }
        Credentials(server, database.name).identify(credential, override: override, of: counted) { [self, home] result in
            if home.loop.isOnLoop { identified(result, signIn, token) } else {
                home.loop.execute { [self] in identified(result, signIn, token) }
            }
        }
    }

    private func identified(_ result: Result<Identity, Failure>, _ signIn: SignIn?, _ token: Int64) {
        switch home.signIns.settle(signIn, result) {
        case .success(let identity):
            refusals = 0
            submittedIdentity = identity
            carrier.countSent(with: server.byteCounter(of: identity))
            database.submit(.identify(identity), from: self, token: token)
            expire(at: identity.end(server.settings.limits.tokenLeewaySeconds))
            attach(signIn)
        case .failure(let failure):
            database.submit(.answer(HubFormat().reply(.failed(failure), to: token, dialect: dialect)), from: self)
            refusals += 1
            if refusals >= server.settings.limits.refusedCredentials {
                close(WebSocketCloseCode.policyViolation, "\(refusals) credentials were refused, one after the other")
            }
        }
        let held = waitingRequests ?? []
        waitingRequests = nil
        waitingBytes = 0
        defer { holdIfNeeded() }
        for (i, carryOut) in held.enumerated() {
            carryOut()
            if isWaiting {
                waitingRequests?.append(contentsOf: held[(i + 1)...])
                return
            }
        }
    }

    /// Sets when the session's identity expires; nil for never.
    final func expire(at time: Int64?) { end(at: time, steadily: nil) }

    private func end(at time: Int64?, steadily: Int64?) {
        (endsAt, leewayEndsAt) = (time, steadily)
        let never = time == nil && steadily == nil
        if never || isGone.load(ordering: .relaxed) { home.leave(self) } else { home.join(self) }
    }

    /// Attaches a sign-in to the session in place of the one before; nil only detaches. Follows `expire`.
    final func attach(_ signIn: SignIn?) {
        if let before = self.signIn { home.signIns.end(before) }
        self.signIn = nil
        guard let signIn else { return }
        if isGone.load(ordering: .relaxed) { return home.signIns.end(signIn) }
        signIn.holder = self
        self.signIn = signIn
        if signIn.isExpiring { expireAfterLeeway() }
    }

    final func tick(seconds: Int, limits: ServerLimits) {
        let hasExpired = endsAt.map { server.scheduler.wallMs >= $0 } ?? false
        let hasRunOut = leewayEndsAt.map { server.scheduler.steadyMs >= $0 } ?? false
        if hasExpired || hasRunOut { revoke() }
    }

    /// Revokes the client's identity. The client is notified, and its session ends with the rights it had. Its SDK then requests a fresh
    /// token, or learns that it gets none (accounts contract §15).
    func revoke() {
        expire(at: nil)
        attach(nil)
        database.submit(.revoke(notice: HubFormat().revoked(Credentials.expiredToken, dialect: dialect)), from: self)
    }

    /// Ends the client's identity as if its token expired now: after `tokenLeewaySeconds`, or with its token if that is sooner. A new
    /// sign-in before then prevents it.
    final func expireAfterLeeway() {
        let end = server.scheduler.steadyMs + Int64(server.settings.limits.tokenLeewaySeconds) * 1000
        self.end(at: endsAt, steadily: min(leewayEndsAt ?? .max, end))
    }

    /// Sets when the session's credential expires, keeping an earlier `expireAfterLeeway`.
    final func expireOrRunOut(at time: Int64?) { end(at: time, steadily: leewayEndsAt) }

    /// Makes the client anonymous. The caller then submits `signOut` to the database.
    final func signedOut() {
        expire(at: nil)
        attach(nil)
        submittedIdentity = .anonymous
        carrier.countSent(with: nil)
    }

    /// Its database was removed: notifies the client and closes the connection. An SDK does not connect again then.
    func databaseIsRemoved() {
        if isGone.load(ordering: .relaxed) { return }
        let text = "The database was removed."
        let notice = HubFormat().ended(text, dialect: dialect)
        if !notice.isEmpty { carrier.send(notice) }
        close(WebSocketCloseCode.policyViolation, text)
    }

    // MARK: Large messages

    /// Whether messages must wait because a large one is being parsed.
    final var isReadingLarge: Bool { largeReader?.isBusy ?? false }

    /// Queues a text that arrived behind a large message.
    final func enqueue(_ text: UnsafeRawBufferPointer) {
        let bytes = Array(text)
        enqueue(bytes.count) { [self] in bytes.withUnsafeBytes { received(text: $0) } }
    }

    final func enqueue(_ bytes: Int, _ arrival: @escaping () -> Void) {
        if let refusal = largeReader?.enqueue(bytes, arrival) { carrier.close(WebSocketCloseCode.tryAgainLater, refusal.text) }
    }

    /// Parses a large message off the loop.
    final func readLarge<Value: Sendable>(
        _ text: LargeText, _ read: @escaping @Sendable (UnsafeRawBufferPointer, NodeAllowance) -> Value,
        then: @escaping (Value, _ bytes: Int, _ hold: (any MemoryReservation)?) -> Void
    ) {
        let largeReader = self.largeReader ?? LargeMessageReader(home.loop, server, carrier.peer) {
            [carrier] in carrier.holdWhileReading($0)
        }
        self.largeReader = largeReader
        largeReader.read(text, read) { [self] outcome in
            switch outcome.value {
            case .success(let value): then(value, outcome.bytes, outcome.hold)
            case .failure(.memory(let refusal)): carrier.close(WebSocketCloseCode.tryAgainLater, refusal.text)
            case .failure(.message(let error)): close(error.closeCode, error.reason)
            }
        }
    }

    /// A complete text with a lease for it; nil after the session was closed because the budget refused.
    final func large(_ text: @autoclosure () -> LargeText.Source, bytes: Int) -> LargeText? {
        if let refusal = incoming.become(bytes, server.memory, carrier.peer) {
            carrier.close(WebSocketCloseCode.tryAgainLater, refusal.text)
            return nil
        }
        return LargeText(message: text(), lease: incoming.detachLease())
    }

    /// Charges the budget for an incomplete message.
    final func chargeIncoming(_ bytes: Int) {
        if let refusal = incoming.become(bytes, server.memory, carrier.peer) {
            carrier.close(WebSocketCloseCode.tryAgainLater, refusal.text)
        }
    }

    /// Tests for a place whether the rules could allow the client some write there; nil while its identity is being verified, and for
    /// administrators.
    final var permits: (@Sendable (Path) -> Bool)? {
        guard !isWaiting, !submittedIdentity.isAdmin else { return nil }
        return { [server, database, submittedIdentity] in server.mayAllowWrite($0, in: database, by: submittedIdentity) }
    }
}

extension Session: ReservationMaker {
    final func makeReservation() -> any MemoryReservation { server.memory.lease(of: carrier.peer, for: .parsing) }
}
