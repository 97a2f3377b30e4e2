internal import CLinux
internal import DequeModule
internal import Synchronization

extension EventLoop {
    /// Turns after which a visit ends, so that other work on `queue` can run.
    private static let turnsPerVisit = 1000
    /// µs of a pause that count as a turn.
    private static let pauseUsOfTurn = 50
    /// Bytes of frames above which a turn flushes before more work runs.
    private static let settleAboveBytes = 8 << 20

    /// Runs turns while there is work. Called by the source or through `execute`.
    func visit() {
        assertOnLoop()
        inTurn = true
        awakeSinceNs = vigla_monotonic_ns()
        inbox.withLock { $0.wakeState = .awake }
        var mayWait = false
        var turnsLeft = Self.turnsPerVisit
        while turnsLeft > 0 {
            let due = postponed.count
            let worked = runInbox()
            let canWait = mayWait && !worked && !mustFinish && handshakes.isEmpty && postponed.isEmpty
            let events = phase == .closed ? 0 : runEvents(waiting: canWait)
            runHighVolume(due)
            runHandshakes()
            if worked || !handshakes.isEmpty || !postponed.isEmpty { hasSingleActivePeer = false }
            finishTurn()
            settle()
            counting.turns += 1
            turnsLeft -= 1 + gathering.pausedUs / Self.pauseUsOfTurn
            gathering.pausedUs = 0
            if phase == .closing, slots.occupied == 0 { finishClosing() }
            counting.handshakesWaiting = handshakes.count
            countBusy()
            published.withLock { $0 = counting }
            if worked || events > 0 || mustFinish || !handshakes.isEmpty || !postponed.isEmpty {
                idlePeriod.isQuiet = false
            } else if idlePeriod.isOver || settings.stayAwakeMs <= 0 || phase == .closed {
                break
            }
            mayWait = settings.stayAwakeMs > 0
        }
        inTurn = false
        leave()
    }

    private func runInbox() -> Bool {
        inbox.withLock { swap(&$0.work, &taken) }
        guard !taken.isEmpty else { return false }
        var batch: [@Sendable () -> Void] = []
        swap(&batch, &taken)
        for work in batch {
            work()
            settleIfLarge()
        }
        batch.removeAll(keepingCapacity: batch.count <= 1024)
        swap(&batch, &taken)
        return true
    }

    /// Runs a batch of events; returns the number of those that had an owner or an effect.
    private func runEvents(waiting: Bool) -> Int {
        let count = collect(waiting: waiting)
        var (idle, served) = (0, 0)
        let readBefore = lastReady
        isShared = areSeveralReady(count)
        for i in 0..<count {
            let event = poller.event(i)
            switch slots[event.tag] {
            case .connection(let connection) where isShared && connection.isHighVolume: highVolume.append(i)
            case .connection(let connection):
                connection.ready(event.readiness)
                served += 1
                lastReady = event.tag
            case .listener(let listener): listener.acceptBatch()
            case .connector(let connector): connector.ready()
            case nil: if !runOwnEvent(event.tag) { idle += 1 }
            }
            settleIfLarge()
        }
        if served + highVolume.count > 0 { gathering.served = served + highVolume.count }
        hasSingleActivePeer = count - idle == 1 && served == 1 && lastReady == readBefore
        return count - idle
    }

    /// Serves the connections that send a lot, and the work they postponed, after all others and only a little of it
    /// (``NetSettings/highVolumeTurnBytes``, ``NetSettings/highVolumeTurnUs``). A connection that sends little never waits for more of them,
    /// however many there are. epoll reports the rest again in the next turn, which begins with them.
    /// - Parameter due: how many pieces of postponed work are from earlier turns.
    private func runHighVolume(_ due: Int) {
        guard !highVolume.isEmpty || due > 0 else { return }
        let mostReceived = counting.bytesReceived + settings.highVolumeTurnBytes
        let endNs = vigla_monotonic_ns() + UInt64(settings.highVolumeTurnUs) * 1_000
        var (connections, works) = (highVolume.count, due)
        var next = firstHighVolume
        repeat {
            if connections > 0 {
                connections -= 1
                let event = poller.event(highVolume[next % highVolume.count])
                next += 1
                if case .connection(let connection)? = slots[event.tag] {
                    connection.ready(event.readiness)
                    lastReady = event.tag
                }
            }
            if works > 0, let work = postponed.popFirst() {
                works -= 1
                work()
            }
            settleIfLarge()
        } while connections + works > 0 && counting.bytesReceived < mostReceived && vigla_monotonic_ns() < endNs
        firstHighVolume = highVolume.isEmpty ? 0 : next % highVolume.count
        highVolume.removeAll(keepingCapacity: true)
    }

    /// Runs work that continues what a connection sent: in a later turn, when the output of this one is flushed, and after the connections
    /// that send little. On the loop.
    public func postpone(_ work: @escaping () -> Void) {
        assertOnLoop()
        postponed.append(work)
        if !inTurn { wakeToSettle() }
    }

    /// Reads some of the connections whose handshake is not done.
    private func runHandshakes() {
        var left = max(1, settings.handshakesPerTurn)
        while left > 0, let tag = handshakes.popFirst() {
            guard case .connection(let connection)? = slots[tag] else { continue }
            left -= 1
            connection.resumeHandshake()
        }
    }

    /// A connection with a handshake has input, which is not read yet.
    func delayHandshake(of connection: Connection, isAnswered: Bool) {
        let surplus = handshakes.append(connection.tag, of: connection.remoteAddress.network, isAnswered: isAnswered)
        if let surplus, case .connection(let last)? = slots[surplus] { last.abort(.handshakeOverload) }
    }

    /// Whether the batch has events of more than one descriptor, without the poller's own. Checks at most four.
    private func areSeveralReady(_ count: Int) -> Bool {
        if count > 3 { return true }
        var ready = 0
        for i in 0..<count where poller.event(i).tag < PollerTag.doorbell { ready += 1 }
        return ready > 1
    }

    /// Handles an event of the poller itself; false when it had no effect.
    private func runOwnEvent(_ tag: UInt64) -> Bool {
        poller.acknowledge(tag)
        switch tag {
        case PollerTag.timer: return fireTimers()
        case PollerTag.doorbell: break
        default: counting.staleEvents += 1
        }
        return true
    }

    /// Whether this turn has sent as much as one turn should (``NetSettings/turnBytes``). Senders with more output should submit it as separate
    /// work (``execute(_:)``): before that runs, the loop flushes and reads other connections.
    public var isTurnFull: Bool { frames.bytes > settings.turnBytes }

    /// Whether other connections also have output to flush in this turn.
    var isFlushingSeveral: Bool { dirty.count > 1 }

    /// Flushes this turn's output if it is large; call it between pieces of work that send. Staged frames are invalid afterwards.
    public func settleIfLarge() {
        if frames.bytes > Self.settleAboveBytes { settle() }
    }

    /// Flushes every dirty connection once, then calls the handlers' `ended`; output from those calls is flushed too.
    private func settle() {
        while !dirty.isEmpty || !endings.isEmpty {
            let count = dirty.count
            let isReversed = order.isReversed()
            for i in 0..<count { dirty[isReversed ? count - 1 - i : i]._withUnsafeGuaranteedRef { $0.flush() } }
            if dirty.count == count { dirty.removeAll(keepingCapacity: true) } else { dirty.removeFirst(count) }
            deliverEndings()
        }
        if !gone.isEmpty { gone.removeAll() }
        if frames.bytes > 0 {
            frames.reset()
            filling &+= 1
        }
    }

    private func deliverEndings() {
        guard !endings.isEmpty else { return }
        var batch: [(connection: Connection, reason: CloseReason)] = []
        swap(&batch, &endings)
        for ending in batch {
            let handler = ending.connection.handler
            ending.connection.handler = nil
            handler?.ended(ending.reason)
        }
    }

    /// From any call on the loop: has the closure set with ``beforeFlush(_:)`` called at the end of this turn.
    public func finishLater() {
        debugAssertOnLoop()
        guard !mustFinish else { return }
        mustFinish = true
        if !inTurn { wakeToSettle() }
    }

    private func finishTurn() {
        guard mustFinish, let finish else { return }
        // Requests from now on count for the next turn.
        mustFinish = false
        finish()
    }

    // MARK: reports of connections

    func willFlush(_ connection: Connection) {
        dirty.append(Unmanaged.passUnretained(connection))
        if !inTurn { wakeToSettle() }
    }

    func willEnd(_ connection: Connection, _ reason: CloseReason) {
        counting.endsByCode[reason.code] += 1
        endings.append((connection, reason))
        if !inTurn { wakeToSettle() }
    }

    /// Bytes were added to a connection's backlog, or removed from it.
    func backlogChanged(by bytes: Int) {
        counting.backlogBytes += bytes
        waitingBytes.add(bytes)
    }

    func didClose(_ connection: Connection) {
        counting.closed += 1
        population.wrappingSubtract(1, ordering: .relaxed)
        connection.admission?.leave(connection.remoteAddress)
        gone.append(connection)
        slots.free(connection.tag)
        if !inTurn { wakeToSettle() }
    }

    /// Schedules a settle for sends made outside a turn, through `queue.async`.
    private func wakeToSettle() {
        assertOnLoop()
        execute {}
    }
}
