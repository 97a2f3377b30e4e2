import DequeModule
import DispatchNet
import HubEngine
import Synchronization
import WireProtocols

/// What a session has to say behind something large that is still being encoded, in order.
///
///     deliveries ─► [ being encoded ][ bytes ][ bytes ][ probe ] ─► carrier        nothing passes the first
///
/// Used on the loop of the session's lane.
final class Outgoing {
    enum Entry {
        case later(DeferredBytes)
        case bytes([UInt8])
        case probe
        case marked(Int)
        case close
    }

    private var entries: Deque<Entry> = []
    /// Bytes that wait; of what is being encoded the least that it will have.
    private(set) var bytes = 0
    /// Whether the database knows that too much waits.
    var isCongested = false

    var first: Entry? { entries.first }

    func add(_ entry: Entry) {
        entries.append(entry)
        bytes += entry.size
    }

    func removeFirst() {
        bytes -= entries.popFirst()?.size ?? 0
    }
}

extension Outgoing.Entry {
    fileprivate var size: Int {
        switch self {
        case .later(let deferred): deferred.leastBytes
        case .bytes(let bytes): bytes.count
        case .probe, .marked, .close: 0
        }
    }
}

extension Session {
    /// Sends frames, behind what is still being encoded.
    @inline(__always)
    final func send(_ frames: [UInt8]) {
        if outgoing == nil { carrier.send(frames) } else { hold(.bytes(frames)) }
    }

    /// The same for frames that the loop has staged.
    @inline(__always)
    final func send(_ staged: StagedFrame, _ frames: [UInt8]) {
        if outgoing == nil { carrier.send(staged, frames) } else { hold(.bytes(frames)) }
    }

    /// The session is over behind all that is still to be said.
    final func finish() {
        if let outgoing { return outgoing.add(.close) }
        dialect == .rest ? dismissed() : carrier.dismiss()
    }

    /// Keeps a place in the order.
    final func hold(_ deferred: DeferredBytes) {
        if isGone.load(ordering: .relaxed) { return }
        if outgoing == nil { outgoing = Outgoing() }
        hold(.later(deferred))
    }

    private func hold(_ entry: Outgoing.Entry) {
        guard let outgoing else { return }
        outgoing.add(entry)
        let limits = server.settings.limits.net
        if outgoing.bytes > limits.outboundHardBytes {
            self.outgoing = nil
            return carrier.close(WebSocketCloseCode.policyViolation, "too much waits to be sent")
        }
        guard outgoing.bytes > limits.outboundSoftBytes, !outgoing.isCongested else { return }
        outgoing.isCongested = true
        congested()
    }

    /// Something is encoded. If it stands first, it leaves, and what was only waiting for it.
    /// - Parameter frame: its bytes as the loop has staged them; nil for none.
    final func isReady(_ deferred: DeferredBytes, _ outcome: DeferredBytes.Outcome, _ frame: StagedFrame?) {
        guard case .later(let first)? = outgoing?.first, first === deferred else { return }
        outgoing?.removeFirst()
        say(outcome, frame)
        // Sending may end the session, and with it what is still to be said.
        while let outgoing, let entry = outgoing.first {
            switch entry {
            case .later(let next):
                guard let outcome = next.outcome else { return }
                say(outcome, nil)
            case .bytes(let bytes): carrier.send(bytes)
            case .probe: owesDrain = true
            case .marked(let bytes): isDone(bytes)
            case .close: dialect == .rest ? dismissed() : carrier.dismiss()
            }
            outgoing.removeFirst()
        }
        outgoing = nil
        if owesDrain { carrier.reportDrain() }
    }

    private func say(_ outcome: DeferredBytes.Outcome, _ frame: StagedFrame?) {
        if let reply = outcome.reply { replied(reply) }
        if outcome.isTooLarge { return carrier.close(WebSocketCloseCode.messageTooBig, "what is observed has become too large") }
        if let frame { carrier.send(frame, outcome.bytes) } else if !outcome.bytes.isEmpty { carrier.send(outcome.bytes) }
    }
}
