import DispatchNet
import HubEngine
import JSONTree
import Synchronization
import WireProtocols

/// One connected program: speaks one of the hub's protocols, whatever carries it.
///
///     request ─► (a credential is being checked: wait) ─► Database        in order of arrival (contract §2.5 rule 1)
///
/// Made and used on the loop of its lane, but for what the engine keeps in `Client`. How much may be under way in either
/// direction is in `Session+Flow`.
class Session: Client, SocketListener, LaneMember, @unchecked Sendable {
    // Sendable: everything declared here is constant and used on the lane's loop only.
    final let carrier: any Carrier
    final let database: Database
    unowned final let server: Server
    final var intake = Intake()
    /// The database waits to hear that the peer has taken everything.
    final var owesDrain = false
    /// What waits behind something large that is still being encoded; nil while nothing does.
    final var outgoing: Outgoing?

    /// Reads large messages; nil until there was one.
    final private(set) var aside: Aside?
    /// What is held of a message in parts.
    final var incoming = IncomingBytes()
    /// Who the database has been told last that the client is.
    private var told: Identity

    /// Requests that came behind a credential that is being checked; nil while none is.
    private var waiting: [() -> Void]?
    /// Bytes of them.
    final private(set) var waitingBytes = 0
    /// When the credential runs out and its leeway is over, ms since the epoch.
    private var endsAt: Int64?
    /// Hears when the account of the client's identity changes.
    private var signIn: SignIn?
    /// Credentials that were refused since the last one that was good.
    private var refusals = 0

    init(_ carrier: any Carrier, lane: Int, database: Database, server: Server, dialect: Dialect, identity: Identity = .anonymous) {
        self.carrier = carrier
        self.database = database
        self.server = server
        told = identity
        super.init(lane: lane, dialect: dialect, identity: identity)
        server.sessions.add(dialect, 1)
    }

    /// A whole text message; the bytes are valid during the call.
    func received(text: UnsafeRawBufferPointer) {}

    /// A whole text message that is large.
    func received(large: LargeText) {}

    /// What has come of a message in parts; nil while none is open.
    var openMessage: OpenMessage? { nil }

    /// The peer is gone. What it asked for before is still carried out, and then its end.
    final func ended() { ended(behind: aside) }

    /// - Parameter reading: what reads the session's large messages.
    final func ended(behind reading: Aside?) {
        server.sessions.add(dialect, -1)
        isGone.store(true, ordering: .relaxed)
        outgoing = nil
        incoming = IncomingBytes()
        expire(at: nil)
        if let reading, reading.isBusy { _ = reading.keep(0) { [self] in submitEnd() } } else { submitEnd() }
    }

    private func submitEnd() {
        // Until then, something may still be asked as the user.
        hold(nil)
        if isWaiting { waiting?.append { [self] in database.submit(.end, from: self) } } else { database.submit(.end, from: self) }
    }

    // MARK: Credentials

    final var isWaiting: Bool { waiting != nil }

    /// Carries a request out after the ones before it that wait for a credential.
    /// - Parameter size: bytes that it holds.
    final func wait(_ size: Int, _ carryOut: @escaping () -> Void) {
        waiting?.append(carryOut)
        waitingBytes += size
        holdIfNeeded()
        let limit = server.settings.limits.requestsBehindAuth
        if let count = waiting?.count, count > limit {
            carrier.close(WebSocketCloseCode.policyViolation, "more than \(limit) requests wait for a credential")
        }
    }

    /// Finds out who the client is, and answers; later requests wait for that (contract check 34).
    final func identify(_ credential: String, override: Node? = nil, token: Int64) {
        // What came behind the last one that was allowed is not worth a check any more.
        if refusals >= server.settings.limits.refusedCredentials { return }
        waiting = []
        let signIn = server.beginSignIn(credential, home)
        let counted = { [self] in server.countedAddress(address, carrier.peer) }
        Credentials(server).identify(credential, override: override, of: counted) { [self, home] result in
            if home.loop.isOnLoop { identified(result, signIn, token) } else { home.loop.execute { [self] in identified(result, signIn, token) } }
        }
    }

    private func identified(_ result: Result<Identity, Failure>, _ signIn: SignIn?, _ token: Int64) {
        switch home.signIns.settled(signIn, result) {
        case .success(let identity):
            hold(signIn)
            refusals = 0
            told = identity
            database.submit(.identify(identity), from: self, token: token)
            expire(at: identity.end(server.settings.limits.tokenLeewaySeconds))
        case .failure(let failure):
            database.submit(.answer(HubFormat().reply(.failed(failure), to: token, dialect: dialect)), from: self)
            refusals += 1
            if refusals >= server.settings.limits.refusedCredentials {
                carrier.close(WebSocketCloseCode.policyViolation, "\(refusals) credentials were refused, one after the other")
            }
        }
        let held = waiting ?? []
        waiting = nil
        waitingBytes = 0
        defer { holdIfNeeded() }
        for (i, carryOut) in held.enumerated() {
            carryOut()
            if isWaiting {
                waiting?.append(contentsOf: held[(i + 1)...])
                return
            }
        }
    }

    /// The session has the identity that ends then, or one that never does.
    final func expire(at time: Int64?) {
        endsAt = time
        if time == nil || isGone.load(ordering: .relaxed) { home.leave(self) } else { home.join(self) }
    }

    /// The session is the sign-in's from now on, or nobody's.
    final func hold(_ signIn: SignIn?) {
        if let before = self.signIn { home.signIns.end(before) }
        self.signIn = nil
        guard let signIn else { return }
        if isGone.load(ordering: .relaxed) { return home.signIns.end(signIn) }
        signIn.holder = self
        self.signIn = signIn
    }

    final func tick(seconds: Int, limits: ServerLimits) {
        guard let endsAt, Clock.nowMs() >= endsAt else { return }
        revoke()
    }

    /// The client is no longer who it was: it is told so, and its session ends with the rights it had. Its SDK then asks for a fresh
    /// token, or learns that it gets none (accounts contract §15).
    func revoke() {
        expire(at: nil)
        hold(nil)
        database.submit(.revoke(notice: HubFormat().revoked(Credentials.expiredToken, dialect: dialect)), from: self)
    }

    /// The client is nobody from now on; the database is to be told next.
    final func signedOut() {
        expire(at: nil)
        hold(nil)
        told = .anonymous
    }

    // MARK: Large messages

    final var home: Lane { server.lanes[lane] }

    /// Whether what comes now has to wait until a large message is read.
    final var isReadingAside: Bool { aside?.isBusy ?? false }

    /// Keeps a text that came behind a large message.
    final func keep(_ text: UnsafeRawBufferPointer) {
        let bytes = Array(text)
        keep(bytes.count) { [self] in bytes.withUnsafeBytes { received(text: $0) } }
    }

    final func keep(_ bytes: Int, _ arrival: @escaping () -> Void) {
        if let refusal = aside?.keep(bytes, arrival) { carrier.close(WebSocketCloseCode.tryAgainLater, refusal.text) }
    }

    /// Reads a large message off the loop.
    final func readAside<Value: Sendable>(
        _ text: LargeText, _ read: @escaping @Sendable (UnsafeRawBufferPointer, NodeAllowance) -> Value,
        then: @escaping (Value, _ bytes: Int, _ hold: (any NodeHold)?) -> Void
    ) {
        let aside = self.aside ?? Aside(home.loop, server, carrier.peer) { [carrier] in carrier.holdWhileReading($0) }
        self.aside = aside
        aside.read(text, read) { [carrier] outcome in
            switch outcome.value {
            case .success(let value): then(value, outcome.bytes, outcome.hold)
            case .failure(.memory(let refusal)): carrier.close(WebSocketCloseCode.tryAgainLater, refusal.text)
            case .failure(.message(let error)): carrier.close(error.closeCode, error.reason)
            }
        }
    }

    /// A text that has come whole, with what holds it.
    final func large(_ text: UnsafeRawBufferPointer) -> LargeText? {
        if let refusal = incoming.become(text.count, server.memory, carrier.peer) {
            carrier.close(WebSocketCloseCode.tryAgainLater, refusal.text)
            return nil
        }
        return LargeText(message: .text(Array(text)), lease: incoming.take())
    }

    /// Tells what is held of a message in parts.
    final func note(_ bytes: Int) {
        if let refusal = incoming.become(bytes, server.memory, carrier.peer) { carrier.close(WebSocketCloseCode.tryAgainLater, refusal.text) }
    }

    /// Says of a place whether some data could make the rules allow the client a write there; nil while nobody knows who it is.
    final var permits: (@Sendable (Path) -> Bool)? {
        guard !isWaiting, !told.isAdmin else { return nil }
        return { [server, database, told] in server.mayAllowWrite($0, in: database, by: told) }
    }
}

extension Session: NodePayer {
    final func makeHold() -> any NodeHold { server.memory.lease(of: carrier.peer, for: .parsing) }
}
