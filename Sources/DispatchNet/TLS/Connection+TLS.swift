internal import CLinux
internal import Glibc

/// The TLS path of `Connection+Reading` and `Connection+Writing`.
extension Connection {
    /// Begins the connection with a handshake; its handler is created after that.
    func beginTLS(_ role: TLSRole, _ whenOpen: @escaping (Connection) -> any ConnectionHandler) {
        handler = role.dial
        let wire: TLSWire
        let tls: TLSChannel
        do throws(NetError) {
            wire = try loop.sharedTLSWire()
            tls = TLSChannel(
                try TLSEngine(role.context, expecting: role.host, through: wire), plainHTTPAnswer: role.plainHTTPAnswer, whenOpen: whenOpen)
        } catch {
            role.dial?.failure = error
            return fail(.tlsFailed)
        }
        self.tls = tls
        tls.deadline = loop.schedule(afterMs: loop.settings.handshakeTimeoutMs, everyMs: nil) { [weak self] in
            guard let self, self.state == .open, self.tls?.engine.state == .handshaking else { return }
            self.fail(.handshakeTimeout)
        }
        if role.dial != nil { process(tls.engine.start(through: wire), tls, wire) }
    }

    // MARK: reading

    /// Leaves the input in the kernel until the handshake's turn. Reading stops meanwhile: repeated events would cost more than the turns of others.
    func delayHandshake(_ tls: TLSChannel) {
        setInterest(.read, false)
        loop.delayHandshake(of: self, isAnswered: tls.isAnswered)
    }

    /// Reads the handshake in its turn.
    func resumeHandshake() {
        guard !peerFinished else { return }
        setInterest(.read, true)
        readable()
    }

    func receivedRecords(_ records: UnsafeRawBufferPointer, _ tls: TLSChannel) {
        // Input on a closing connection is discarded.
        guard state == .open, let wire = loop.tlsWire else { return }
        process(tls.engine.receive(records, through: wire), tls, wire)
    }

    private func process(_ step: TLSEngine.Step, _ tls: TLSChannel, _ wire: TLSWire) {
        if !wire.outgoing.isEmpty {
            // Leaves at the end of the turn, with the handler's output. A peer that requests TLS responses (KeyUpdate) and does not read
            // them meets the limits there.
            tls.storeUnsent(wire.outgoing)
            wire.clearOutgoing()
            markDirty()
            tls.isAnswered = true
        }
        if step.opened, let makeHandler = tls.finishHandshake() {
            loop.counting.handshakes += 1
            if tls.engine.isResumed { loop.counting.resumedHandshakes += 1 }
            handler = makeHandler(self)
        }
        if !step.plaintext.isEmpty, state == .open { handler?.received(step.plaintext) }
        guard state == .open else { return }
        switch step.end {
        case nil: break
        case .finished: finishedByPeer()
        case .plainHTTP:
            tls.dropUnsent()
            tls.plainHTTPAnswer.withUnsafeBytes { tls.storeUnsent($0) }
            refuse(.protocolError(400))
        case .failed(let reason):
            (handler as? TLSDial)?.reason = reason
            refuse(.tlsFailed)
        }
    }

    /// Closes after a TLS error: application data is dropped, the alert is still sent.
    private func refuse(_ reason: CloseReason) {
        dropPending()
        dropBacklog()
        close(reason)
    }

    /// A FIN without close_notify: the peer or an attacker may have truncated the stream (RFC 8446 §6.1). The connection closes without
    /// calling the handler's `peerFinishedSending`.
    func finishedWithoutCloseNotify(_ tls: TLSChannel) {
        guard state == .open else { return finishedByPeer() }
        peerFinished = true
        setInterest(.read, false)
        close(tls.engine.state == .handshaking ? .peerClosed : .truncated)
    }

    // MARK: writing

    /// Encrypts and sends this turn's frames, as many as the kernel has room for.
    func flushRecords(_ tls: TLSChannel) {
        guard let wire = loop.tlsWire else { return }
        defer { countUnsent(tls) }
        if interest.contains(.write) {
            // The kernel has no room; the poller reports when it has.
            if pendingBytes > 0 { keepPending(skipping: 0) }
            return
        }
        if pendingBytes > 0 {
            guard let taken = encrypt(describePending(), tls, wire) else { return }
            if taken == pendingBytes { dropPending() } else { keepPending(skipping: taken) }
        }
        sendPortions(tls, wire)
        guard state != .closed else { return }
        setInterest(.write, !hasLeft)
    }

    /// The kernel has room again.
    func writableRecords(_ tls: TLSChannel) {
        guard let wire = loop.tlsWire else { return }
        let waiting = backlogBytes
        sendPortions(tls, wire)
        guard state != .closed else { return }
        countUnsent(tls)
        backlogSent(max(0, waiting - backlogBytes), left: backlogBytes)
        guard hasLeft else { return }
        setInterest(.write, false)
        if state == .draining { finishWriting() } else { handler?.outboundDrained() }
    }

    /// Sends the unsent records, and encrypts more of the backlog while the kernel accepts them.
    private func sendPortions(_ tls: TLSChannel, _ wire: TLSWire) {
        for _ in 0..<TLSChannel.portionsPerTurn {
            guard sendRecords(tls, wire), let filled = backlog?.fill(loop.vectors, limit: 64) else { return }
            guard let taken = encrypt(filled.vectors, tls, wire) else { return }
            backlog?.consume(taken)
            loop.backlogChanged(by: -taken)
            if backlog?.isEmpty == true { backlog = nil }
        }
        _ = sendRecords(tls, wire)
    }

    /// Counts unsent records as backlog, as their plaintext was before.
    private func countUnsent(_ tls: TLSChannel) {
        guard state != .closed, tls.countedBytes != tls.unsentBytes else { return }
        loop.backlogChanged(by: tls.unsentBytes - tls.countedBytes)
        tls.countedBytes = tls.unsentBytes
    }

    /// Encrypts a portion of the loop's first `count` vectors; nil when the connection has failed.
    private func encrypt(_ count: Int, _ tls: TLSChannel, _ wire: TLSWire) -> Int? {
        if let taken = tls.engine.encrypt(loop.vectors, count, limit: TLSChannel.portionBytes, through: wire) { return taken }
        wire.clearOutgoing()
        fail(.tlsFailed)
        return nil
    }

    /// Sends unsent and new records in one system call. True when none are left.
    private func sendRecords(_ tls: TLSChannel, _ wire: TLSWire) -> Bool {
        defer { wire.clearOutgoing() }
        let fresh = wire.outgoing
        let older = tls.unsentBytes
        guard older + fresh.count > 0 else { return true }
        loop.vectors[0] = iovec(fresh)
        let sent = older == 0 ? transmit(1) : tls.withUnsent { unsent in
            loop.vectors[0] = iovec(unsent)
            loop.vectors[1] = iovec(fresh)
            return transmit(fresh.isEmpty ? 1 : 2)
        }
        guard sent >= 0 else { return false }
        // The usual case: the kernel accepted everything.
        if older == 0, sent == fresh.count { return true }
        tls.consumeUnsent(min(sent, older))
        let left = UnsafeRawBufferPointer(rebasing: fresh.dropFirst(max(0, sent - older)))
        if !left.isEmpty { tls.storeUnsent(left) }
        return tls.unsentBytes == 0
    }

    /// Sends close_notify behind the last byte. False while the kernel has no room for it.
    func sendCloseNotify(_ tls: TLSChannel) -> Bool {
        guard tls.engine.state == .open, let wire = loop.tlsWire else { return true }
        tls.engine.sendCloseNotify()
        let isSent = sendRecords(tls, wire)
        countUnsent(tls)
        if !isSent, state != .closed { setInterest(.write, true) }
        return isSent
    }
}

extension iovec {
    fileprivate init(_ bytes: UnsafeRawBufferPointer) {
        self.init(iov_base: UnsafeMutableRawPointer(mutating: bytes.baseAddress), iov_len: bytes.count)
    }
}

/// The handler of an outgoing connection until its handshake is done.
final class TLSDial: ConnectionHandler {
    /// OpenSSL's text for the failure.
    var reason: String?
    /// The failure before the handshake.
    var failure: NetError?
    private let peer: String
    private let failed: @Sendable (NetError) -> Void

    init(peer: String, failed: @escaping @Sendable (NetError) -> Void) {
        self.peer = peer
        self.failed = failed
    }

    func received(_ bytes: UnsafeMutableRawBufferPointer) {}

    func ended(_ end: CloseReason) {
        let fault = reason.map { NetError.handshakeFailed(peer: peer, openSSL: $0) } ?? .tlsFailed(peer: peer, reason: Self.words(end))
        failed(failure ?? fault)
    }

    private static func words(_ end: CloseReason) -> String {
        switch end {
        case .handshakeTimeout: "no answer in time"
        case .peerClosed, .peerReset: "it ended the connection during the handshake"
        default: end.name
        }
    }
}

extension NetError {
    /// A failed handshake, in words for people.
    /// - Parameter reason: OpenSSL's text.
    public static func handshakeFailed(peer: String, openSSL reason: String) -> NetError {
        let words = switch reason {
        case "wrong version number", "packet length too long": "it does not speak TLS"
        case "unable to get local issuer certificate", "self-signed certificate", "self-signed certificate in certificate chain",
            "unable to verify the first certificate":
            "its certificate comes from an authority that is not trusted here (\(reason))"
        case "hostname mismatch", "IP address mismatch": "its certificate is for another host (\(reason))"
        default: reason
        }
        return .tlsFailed(peer: peer, reason: words)
    }
}
