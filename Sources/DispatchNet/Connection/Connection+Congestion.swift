/// A peer that is more than ``NetSettings/outboundSoftBytes`` behind.
///
/// ```
/// flowing ── over soft ──► congested ── nothing waits ──► flowing
///                              │ after `outboundSoftMs`: too little was taken ──► writeStalled
///                              └─ over hard ──► writeOverflow
/// ```
final class Congestion {
    /// Bytes that the peer has taken since the last look at the clock.
    var taken = 0
    var timer: LoopTimer?
}

extension Connection {
    /// Whether more than the soft limit has waited for the peer, and it has not taken all of it yet.
    public var isCongested: Bool { congestion != nil }

    /// The backlog has grown.
    func noteBacklog(_ bytes: Int) {
        if bytes > outboundHardBytes { return fail(.writeOverflow) }
        guard bytes > min(loop.settings.outboundCrowdedBytes, loop.settings.outboundSoftBytes) else { return }
        if loop.counting.backlogBytes > loop.settings.outboundLoopBytes { return fail(.outputMemory) }
        guard bytes > loop.settings.outboundSoftBytes, congestion == nil, state == .open else { return }
        congestion = Congestion()
        loop.counting.congestions += 1
        watchCongestion()
        handler?.outboundCongested()
    }

    /// The peer has taken some of the backlog.
    func noteTaken(_ bytes: Int, left: Int) {
        guard let congestion else { return }
        congestion.taken += bytes
        if left == 0 { endCongestion() }
    }

    func endCongestion() {
        congestion?.timer?.cancel()
        congestion = nil
    }

    /// A peer that takes large answers slowly but steadily goes on; one that has all but stopped does not.
    private func watchCongestion() {
        congestion?.timer = loop.schedule(afterMs: loop.settings.outboundSoftMs, everyMs: nil) { [weak self] in
            guard let self, self.judgeCongestion() else { return }
            self.watchCongestion()
        }
    }

    /// Fails a peer that has taken less than the soft limit since the last time; true when it goes on congested.
    func judgeCongestion() -> Bool {
        guard let congestion else { return false }
        if congestion.taken < loop.settings.outboundSoftBytes {
            fail(.writeStalled)
            return false
        }
        congestion.taken = 0
        return true
    }
}
