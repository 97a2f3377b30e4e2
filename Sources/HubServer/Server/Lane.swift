import DispatchNet
import HubEngine
import JSONTree
import WireProtocols

/// One net loop with its sessions: sends what databases have for them and notices who has fallen silent.
final class Lane: @unchecked Sendable {
    // Sendable: mutable state is used on the loop's queue only, which every entry checks.
    let loop: EventLoop
    var index: Int { loop.index }
    private let limits: ServerLimits
    /// Compresses for those of the lane's sessions that have agreed to it.
    var compression: LaneCompression
    /// What streams over HTTP/1.0 are sent, without chunks.
    var unwrapped = UnwrappedEvents()
    /// What the message that is being read on the loop may cost.
    let allowance = NodeAllowance()
    /// Whose sessions and streams are here.
    var signIns = SignIns()
    private var members: [ObjectIdentifier: any LaneMember] = [:]
    /// Seconds since the lane began, counted by its own timer: reading it costs nothing.
    private var seconds = 0
    /// When something that happens now began, for comparison with what `LaneMember.tick` is given: the end of the second
    /// that runs, so that a limit of n seconds is never over before n seconds.
    var mark: Int { seconds + 1 }

    init(loop: EventLoop, limits: ServerLimits) {
        self.loop = loop
        self.limits = limits
        compression = LaneCompression(limits.deflate ?? DeflateSettings())
    }

    func startTicking() {
        _ = loop.schedule(afterMs: 1000, everyMs: 1000) { [weak self] in self?.tick() }
    }

    func join(_ member: any LaneMember) {
        loop.assertOnLoop()
        members[ObjectIdentifier(member)] = member
    }

    func leave(_ member: any LaneMember) {
        loop.assertOnLoop()
        members[ObjectIdentifier(member)] = nil
    }

    private func tick() {
        seconds += 1
        compression.tick()
        for member in members.values { member.tick(seconds: seconds, limits: limits) }
    }

    /// Tells the lane's members that the server stops. Callable from any thread; comes before whatever is handed over next.
    func announceStop() {
        loop.execute { [self] in
            for member in members.values { member.serverStops() }
        }
    }

    /// Sends a batch's output, in order. Callable from any thread.
    func deliver(_ deliveries: [Delivery]) {
        loop.execute { [self] in
            for delivery in deliveries {
                switch delivery {
                case .one(let client, let bytes): session(client).send(bytes)
                case .many(let clients, let bytes):
                    let frame = loop.stage(bytes)
                    for client in clients { session(client).send(frame, bytes) }
                case .later(let clients, let deferred): deliver(deferred, to: clients)
                case .reply(let client, let reply): client.replied(reply)
                case .close(let client):
                    if let session = client as? Session { session.finish() } else { client.dismissed() }
                case .probe(let client): session(client).probe()
                case .marked(let client, let bytes): session(client).marked(bytes)
                }
            }
        }
    }

    /// Keeps the place of what is being encoded, and sends it as soon as that is done: its bytes are copied once for the loop, and
    /// not at all for a single client that may not need them at once.
    private func deliver(_ deferred: DeferredBytes, to clients: [Client]) {
        for client in clients { session(client).hold(deferred) }
        deferred.whenReady { [loop] deferred, outcome in
            loop.execute { [loop] in
                let frame = clients.count < 2 || outcome.bytes.isEmpty ? nil : loop.stage(outcome.bytes)
                for client in clients { session(client).isReady(deferred, outcome, frame) }
            }
        }
    }
}

/// What a lane looks after once a second.
protocol LaneMember: AnyObject {
    /// - Parameter seconds: to compare with an earlier `Lane.mark`.
    func tick(seconds: Int, limits: ServerLimits)
    /// The server is about to close every connection: a last chance to say so.
    func serverStops()
}

extension LaneMember {
    func serverStops() {}
}

/// Every client that this server gives to an engine is a session, but those of single REST requests, which are only replied to.
@inline(__always)
private func session(_ client: Client) -> Session { unsafeDowncast(client, to: Session.self) }
