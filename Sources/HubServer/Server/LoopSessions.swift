import DequeModule
import DispatchNet
import HubEngine
import JSONTree
import Synchronization
import WireProtocols

/// One net loop with its sessions: passes their requests to the databases, delivers the output, and checks timeouts once a second.
///
/// ```
/// a turn of the loop:  read ─► request ─► Database.enqueue … ─► start: the requests of the turn, together ──┐
///                      flush ◄── deliveries, in order ◄── mailbox ◄── a database that was idle: on the loop ┤
///                                                            ▲─────── else on its queue, meanwhile ◄────────┘
/// ```
final class LoopSessions: @unchecked Sendable {
    // Sendable: mutable state is used on the loop's queue only, which every entry checks.
    let loop: EventLoop
    var index: Int { loop.index }
    private let limits: ServerLimits
    /// Compresses messages for the sessions that negotiated permessage-deflate.
    var compression: LoopCompression
    /// Events without transfer coding, for streams over HTTP/1.0.
    var unwrapped = UnchunkedEvents()
    /// Bounds the memory of the message that is being parsed on the loop.
    let allowance = NodeAllowance()
    /// Limits of the protocols' messages, with that allowance.
    let messages: RealtimeLimits
    /// The sign-ins of the lane's sessions and streams.
    var signIns = SignIns()
    /// Databases that received a request in this turn of the loop.
    private var asked: [Database] = []
    /// Whether one of those requests is a write.
    private var isWriting = false
    /// The database of the last turn with a write, until the loop takes its pause. Weak: databases reference the lanes.
    private weak var written: Database?
    private let mailbox = Mutex(Mailbox())
    private var members: [ObjectIdentifier: any LoopMember] = [:]
    /// Open sessions and event streams, by database.
    private var sessions: [ObjectIdentifier: [ObjectIdentifier: Session]] = [:]
    /// Sessions whose output waits for later turns of the loop, each once; and whether the next turn is scheduled.
    private var senders = Deque<Session>()
    private var isSendingScheduled = false
    /// Seconds since the lane began, counted by its timer.
    private var seconds = 0
    /// The time stamp of an event that happens now, to compare with the seconds of `LoopMember.tick`. It is the end of the current
    /// second, so that a limit of n seconds never ends before n seconds.
    var mark: Int { seconds + 1 }

    init(loop: EventLoop, limits: ServerLimits) {
        self.loop = loop
        self.limits = limits
        compression = LoopCompression(limits.deflate ?? DeflateSettings())
        var messages = limits.realtime
        messages.write.allowance = allowance
        self.messages = messages
        loop.execute { [weak self, loop] in
            loop.beforeFlush { self?.startRequests() }
            loop.beforeWait { self?.takePauseUs() ?? 0 }
        }
    }

    func startTicking() {
        _ = loop.schedule(afterMs: 1000, everyMs: 1000) { [weak self] in self?.tick() }
    }

    func join(_ member: any LoopMember) {
        loop.assertOnLoop()
        members[ObjectIdentifier(member)] = member
    }

    func leave(_ member: any LoopMember) {
        loop.assertOnLoop()
        members[ObjectIdentifier(member)] = nil
    }

    func add(_ session: Session) {
        loop.assertOnLoop()
        sessions[ObjectIdentifier(session.database), default: [:]][ObjectIdentifier(session)] = session
    }

    func remove(_ session: Session) {
        loop.assertOnLoop()
        guard let database = sessions.index(forKey: ObjectIdentifier(session.database)) else { return }
        sessions.values[database][ObjectIdentifier(session)] = nil
        if sessions.values[database].isEmpty { sessions.remove(at: database) }
    }

    /// Notifies the clients of a removed database, and closes their connections. O(sessions of the database)
    func closeSessions(of database: Database) {
        loop.assertOnLoop()
        for session in sessions[ObjectIdentifier(database)]?.values.map({ $0 }) ?? [] { session.databaseIsRemoved() }
    }

    private func tick() {
        seconds += 1
        compression.tick()
        for member in members.values { member.tick(seconds: seconds, limits: limits) }
    }

    /// Notifies the lane's members that the server stops. From any thread; runs before later work of the loop.
    func announceStop() {
        loop.execute { [self] in
            while let sender = senders.popFirst() { sender.sendWaiting() }
            for member in members.values { member.serverStops() }
        }
    }

    // MARK: Requests

    /// Registers a database that has received a request; it starts at the end of this turn of the loop.
    @inline(__always)
    func willStart(_ database: Database, isWrite: Bool) {
        if isWrite { isWriting = true }
        if asked.last === database { return }
        asked.append(database)
        loop.finishLater()
    }

    /// Starts the requests of this turn. Output that is ready at once leaves with this turn's flush.
    private func startRequests() {
        mailbox.withLock { $0.isExpected = true }
        // Commit on the loop only for a single database: the commits of several share one on the journal's queue.
        let mayCommit = isWriting && asked.count == 1
        while let database = asked.popLast() {
            let isCrowd = mayCommit && database.pauseUs > 0
            database.start(mayRunHere: true, mayCommitHere: loop.hasSingleActivePeer || isCrowd)
            if isWriting { written = database }
        }
        isWriting = false
        // Requests that these deliveries cause run in the next turn.
        deliver()
    }

    /// µs for which the loop should pause: one of its clients has written, and so many writes are waiting that reading them singly is inefficient.
    private func takePauseUs() -> Int {
        guard let database = written else { return 0 }
        written = nil
        return database.pauseUs
    }

    // MARK: Deliveries

    /// Database output for the lane's sessions.
    private struct Mailbox {
        var deliveries: [Delivery] = []
        /// The loop is going to read the mailbox anyway.
        var isExpected = false
    }

    /// Sends a batch's output, in order. Callable from any thread.
    func deliver(_ deliveries: [Delivery]) {
        let mustHop = mailbox.withLock { mailbox in
            if mailbox.deliveries.isEmpty { mailbox.deliveries = deliveries } else { mailbox.deliveries += deliveries }
            defer { mailbox.isExpected = true }
            return !mailbox.isExpected
        }
        if mustHop { loop.execute { [self] in deliver() } }
    }

    private func deliver() {
        var deliveries = mailbox.withLock { mailbox in
            defer { mailbox = Mailbox() }
            return mailbox.deliveries
        }
        // Popped from the end, so that each is moved out and not copied.
        deliveries.reverse()
        while let delivery = deliveries.popLast() {
            switch delivery {
            case .one(let client, let bytes):
                if loop.isTurnFull { session(client).sendInTurn(bytes) } else { session(client).send(bytes) }
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
            loop.settleIfLarge()
        }
    }

    /// Reserves the place of a frame that is still being encoded, in each client's output, and sends it when it is ready. Its bytes are
    /// copied once for the loop, or not at all for a single client.
    private func deliver(_ deferred: DeferredBytes, to clients: [Client]) {
        for client in clients { session(client).reserve(deferred) }
        deferred.whenReady { [loop] deferred, outcome in
            loop.execute { [loop] in
                let frame = clients.count < 2 || outcome.bytes.isEmpty ? nil : loop.stage(outcome.bytes)
                for client in clients { session(client).isReady(deferred, outcome, frame) }
            }
        }
    }
}

// MARK: Turns

/// Sends large output over several turns of the loop. Between turns the sent bytes leave, and other connections are read and answered.
///
///     a turn is full ─► senders ─► next turn: a frame of each, round robin, until it is full ─► senders ─► …
extension LoopSessions {
    /// Appends a session to those whose output waits.
    func enqueue(_ sender: Session) {
        senders.append(sender)
        scheduleSending()
    }

    private func scheduleSending() {
        guard !isSendingScheduled, !senders.isEmpty else { return }
        isSendingScheduled = true
        loop.execute { [self] in
            isSendingScheduled = false
            while !loop.isTurnFull, let sender = senders.popFirst() {
                if sender.sendNext() { senders.append(sender) }
            }
            scheduleSending()
        }
    }
}

/// An object whose timeouts a lane checks once a second.
protocol LoopMember: AnyObject {
    /// - Parameter seconds: the current time, to compare with an earlier `LoopSessions.mark`.
    func tick(seconds: Int, limits: ServerLimits)
    /// The server is about to close every connection: the last chance to send a close message.
    func serverStops()
}

extension LoopMember {
    func serverStops() {}
}

/// All clients that this server submits to an engine are sessions, except single REST requests, which only get replies.
@inline(__always)
private func session(_ client: Client) -> Session { unsafeDowncast(client, to: Session.self) }
