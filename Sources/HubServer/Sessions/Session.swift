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

    /// Requests that came behind a credential that is being checked; nil while none is.
    private var waiting: [() -> Void]?
    /// When the credential runs out and its leeway is over, ms since the epoch.
    private var endsAt: Int64?
    /// Hears when the account of the client's identity changes.
    private var signIn: SignIn?

    init(_ carrier: any Carrier, lane: Int, database: Database, server: Server, dialect: Dialect, identity: Identity = .anonymous) {
        self.carrier = carrier
        self.database = database
        self.server = server
        super.init(lane: lane, dialect: dialect, identity: identity)
        server.sessions.add(dialect, 1)
    }

    /// A whole text message; the bytes are valid during the call.
    func received(text: UnsafeRawBufferPointer) {}

    /// The peer is gone. What it asked for before is still carried out, and then its end.
    final func ended() {
        server.sessions.add(dialect, -1)
        isGone.store(true, ordering: .relaxed)
        outgoing = nil
        expire(at: nil)
        hold(nil)
        if isWaiting { waiting?.append { [self] in database.submit(.end, from: self) } } else { database.submit(.end, from: self) }
    }

    // MARK: Credentials

    final var isWaiting: Bool { waiting != nil }

    /// Carries a request out after the ones before it that wait for a credential.
    final func wait(_ carryOut: @escaping () -> Void) {
        waiting?.append(carryOut)
        let limit = server.settings.limits.requestsBehindAuth
        if let count = waiting?.count, count > limit {
            carrier.close(WebSocketCloseCode.policyViolation, "more than \(limit) requests wait for a credential")
        }
    }

    /// Finds out who the client is, and answers; later requests wait for that (contract check 34).
    final func identify(_ credential: String, override: Node? = nil, token: Int64) {
        waiting = []
        let signIn = server.beginSignIn(credential, home)
        Credentials(server).identify(credential, override: override) { [self, home] result in
            if home.loop.isOnLoop { identified(result, signIn, token) } else { home.loop.execute { [self] in identified(result, signIn, token) } }
        }
    }

    private func identified(_ result: Result<Identity, Failure>, _ signIn: SignIn?, _ token: Int64) {
        switch home.signIns.settled(signIn, result) {
        case .success(let identity):
            hold(signIn)
            database.submit(.identify(identity), from: self, token: token)
            expire(at: identity.end(server.settings.limits.tokenLeewaySeconds))
        case .failure(let failure):
            database.submit(.answer(HubFormat().reply(.failed(failure), to: token, dialect: dialect)), from: self)
        }
        let held = waiting ?? []
        waiting = nil
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

    private var home: Lane { server.lanes[lane] }
}
