import DequeModule
import Journal
import JSONTree
import Scheduling

/// Handles what a follower learns about its forwarded requests: replies of the writer, commits in the log, and deadlines.
///
/// ```
/// probe ─► state: differs from the sent stream? ─► sent again    commit that names a request ─► settled
///       ─► replies ─► when their commits are applied ─► settled  deadline ─► settled
/// ```
extension WriterStream {
    // MARK: Receiving

    func receive(_ frame: PeerInbox.PeerFrame, from hub: UInt64) {
        context.queue.assertCurrent()
        guard hub == target, hub == asked else { return }
        switch frame {
        case .state(let state): heard(state)
        case .replies(let term, let replies):
            guard term == place.term else { return }
            for reply in replies { heard(reply) }
            answerSettled()
            durability.finishBatch()
        case .join, .probe, .requests: break
        }
    }

    private func heard(_ state: PeerMessage.StreamPosition) {
        guard state.joined == place.joined, state.term != 0 else { return }
        if state.term != place.term {
            place.term = state.term
            return sendAgain()
        }
        if state.stream == place.stream, state.index == place.index { return }
        if state.stream == place.stream, state.index > received { (received, movedAt) = (state.index, context.scheduler.steadyMs) }
        if context.scheduler.steadyMs - movedAt >= limits.forwardAgainMs { sendAgain() }
    }

    private func heard(_ reply: PeerReply) {
        guard let i = index(of: reply.number), !entries[i].isSettled, entries[i].reply == nil else { return }
        entries[i].reply = reply
        heldReplyCount += 1
        if reply.sequence <= content.sequence { settleReplied(i) }
    }

    private func settleReplied(_ i: Int) {
        guard let reply = entries[i].reply else { return }
        switch reply.outcome {
        case .done: settle(i, .carriedOut(sequence: reply.sequence))
        case .stale: settle(i, .refused(.dataStale))
        case .failed(let failure): settle(i, .refused(failure))
        }
    }

    /// Handles an applied commit that concerns forwarded requests.
    func applied(_ change: PeerChange, _ sequence: UInt64) {
        switch change {
        case .join(link.hub, let sequence): join(sequence)
        case .gone(link.hub): wasGivenUp()
        case .done(let mark, _) where mark.hub == link.hub:
            if let i = index(of: mark.number), !entries[i].isSettled { settle(i, .carriedOut(sequence: sequence)) }
        default: break
        }
    }

    private func join(_ sequence: UInt64) {
        (place.joined, place.term) = (sequence, 0)
        probe()
    }

    /// The cluster gave this hub up as lost. Its unsettled requests no longer run under the old join commit, so the hub joins again.
    private func wasGivenUp() {
        place.joined = 0
        probe()
        tickLater()
    }

    /// Answers requests that waited for the commits just applied.
    func catchUp() {
        if heldReplyCount > 0 {
            for i in entries.indices where !entries[i].isSettled {
                if let reply = entries[i].reply, reply.sequence <= content.sequence { settleReplied(i) }
            }
        }
        answerSettled()
    }

    // MARK: Settling

    func settle(_ i: Int, _ outcome: Outcome) {
        if entries[i].reply != nil { heldReplyCount -= 1 }
        if i < cursor, let frame = entries[i].frame {
            inFlight -= frame.count
            _ = held.become(inFlight)
        }
        entries[i].isSettled = true
        (entries[i].frame, entries[i].request, entries[i].reply) = (nil, nil, nil)
        onSettled(base + UInt64(i), outcome)
    }

    /// Answers settled requests, removes answered ones, and sends as many more as the window allows.
    func answerSettled() {
        removeAnswered()
        if cursor < entries.count { pumpLater() }
    }

    /// - Returns: true if entries were removed from the front, so that more fit into the window.
    @discardableResult
    func removeAnswered() -> Bool {
        let before = base
        onMoved()
        while let first = entries.first, first.isSettled, !first.isAwaited {
            entries.removeFirst()
            base += 1
            cursor = max(0, cursor - 1)
        }
        return base != before
    }

    // MARK: Time

    /// The writer changed or is unknown, or another hub joined or left.
    func writerChanged() {
        guard isFollowing || !entries.isEmpty else { return }
        probe()
        pumpLater()
        tickLater()
    }

    /// Asks the writer to let this hub join, or asks how much of the stream has arrived.
    func probe() {
        guard let target else { return }
        if target != asked { (asked, place.term) = (target, 0) }
        if let joined = content.peers[link.hub]?.joined {
            if place.joined != joined { (place.joined, place.term) = (joined, 0) }
            post(PeerMessage.probe(here).encoded, target)
        } else {
            post(PeerMessage.join.encoded, target)
        }
    }

    func tickLater() {
        if isTicking { return }
        isTicking = true
        context.later(ms: limits.forwardCheckMs) { [weak self] in
            guard let self else { return }
            isTicking = false
            tick()
            if !entries.isEmpty || (isFollowing && place.term == 0) { tickLater() }
        }
    }

    private func tick() {
        let now = context.scheduler.steadyMs
        for i in entries.indices where !entries[i].isSettled {
            if entries[i].deadline == .max { continue }
            guard entries[i].deadline <= now else { break }
            settle(i, .failed(entries[i].wasSent ? .outcomeUnknown : .noWriter))
        }
        answerSettled()
        probe()
        if cursor < entries.count { pumpLater() }
        durability.finishBatch()
    }
}

extension Failure {
    fileprivate static let noWriter = Failure(
        .unavailable, "No hub of the cluster takes writes at the moment. Nothing of this was stored; try again.")
    fileprivate static let outcomeUnknown = Failure(
        .unavailable,
        """
        The hub that takes the writes was lost while it had this one. It is not known whether it is stored: read the place before you write \
        it again.
        """)
}
