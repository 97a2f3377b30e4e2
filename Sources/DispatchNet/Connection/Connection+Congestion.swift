/// A peer that is more than ``NetSettings/outboundSoftBytes`` behind.
///
/// ```
/// flowing ── over soft ──► congested ── nothing waits ──► flowing
///                              │ after `outboundSoftMs`: too little was read ──► writeStalled
///                              └─ over hard ──► writeOverflow
/// ```
final class Congestion {
    /// Bytes sent to the peer since the last check.
    var sentBytes = 0
    var timer: LoopTimer?
}

extension Connection {
    /// Whether the backlog was over the soft limit and has not been empty since.
    public var isCongested: Bool { congestion != nil }

    /// Checks the limits after the backlog has grown.
    func backlogGrew(_ bytes: Int) {
        if bytes > outboundHardBytes { return fail(.writeOverflow) }
        guard bytes > min(loop.settings.outboundCrowdedBytes, loop.settings.outboundSoftBytes) else { return }
        if loop.waitingBytes.value > loop.settings.outboundTotalBytes { return fail(.outputMemory) }
        guard bytes > loop.settings.outboundSoftBytes, congestion == nil, state == .open else { return }
        congestion = Congestion()
        loop.counting.congestions += 1
        watchCongestion()
        handler?.outboundCongested()
    }

    /// Counts backlog bytes that were sent.
    func backlogSent(_ bytes: Int, left: Int) {
        guard let congestion else { return }
        congestion.sentBytes += bytes
        if left == 0 { endCongestion() }
    }

    func endCongestion() {
        congestion?.timer?.cancel()
        congestion = nil
    }

    /// Checks a congested peer's rate periodically: a slow but steady reader stays, a stalled one is closed.
    private func watchCongestion() {
        congestion?.timer = loop.schedule(afterMs: loop.settings.outboundSoftMs, everyMs: nil) { [weak self] in
            guard let self, self.checkCongestion() else { return }
            self.watchCongestion()
        }
    }

    /// Closes a peer that has read less than the soft limit since the last check; true when it stays, congested.
    func checkCongestion() -> Bool {
        guard let congestion else { return false }
        if congestion.sentBytes < loop.settings.outboundSoftBytes {
            fail(.writeStalled)
            return false
        }
        congestion.sentBytes = 0
        return true
    }
}
