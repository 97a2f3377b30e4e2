import DequeModule
import DispatchNet
import HubEngine
import Synchronization
import WireProtocols

/// A session's output queue behind a large frame that is still being encoded, or that waits for a turn of the loop.
///
///     deliveries ─► [ being encoded ][ bytes ][ bytes ][ probe ] ─► carrier        in order: nothing passes the first entry
///
/// Used on the loop of the session's lane.
final class OutputQueue {
    enum Entry {
        case later(DeferredBytes)
        case bytes([UInt8])
        case probe
        case marked(Int)
        case close
    }

    private var entries: Deque<Entry> = []
    /// Bytes queued; a frame that is still being encoded counts with its lower bound.
    private(set) var bytes = 0
    /// Whether the database was notified that the queue is over the soft limit.
    var isCongested = false
    /// Whether the queue is listed among its lane's senders; then only their turns send from it.
    var isWaitingForTurn = false

    var first: Entry? { entries.first }

    func add(_ entry: Entry) {
        entries.append(entry)
        bytes += entry.size
    }

    func removeFirst() {
        bytes -= entries.popFirst()?.size ?? 0
    }
}

extension OutputQueue.Entry {
    fileprivate var size: Int {
        switch self {
        case .later(let deferred): deferred.leastBytes
        case .bytes(let bytes): bytes.count
        case .probe, .marked, .close: 0
        }
    }
}

extension Session {
    /// Sends frames, in order behind frames that are still being encoded.
    @inline(__always)
    final func send(_ frames: [UInt8]) {
        if outputQueue == nil { carrier.send(frames) } else { appendOutput(.bytes(frames)) }
    }

    /// The same for frames that the loop has staged.
    @inline(__always)
    final func send(_ staged: StagedFrame, _ frames: [UInt8]) {
        if outputQueue == nil { carrier.send(staged, frames) } else { appendOutput(.bytes(frames)) }
    }

    /// Closes the session behind its queued output.
    final func finish() {
        if let outputQueue { return outputQueue.add(.close) }
        end()
    }

    /// An observe session is only ended this way when its identity ends; the close code also notifies its peer.
    private func end() {
        switch dialect {
        case .rest: dismissed()
        case .observe: carrier.close(WebSocketCloseCode.unauthorized, Credentials.expiredToken.message)
        case .realtime, .system: carrier.dismiss()
        }
    }

    /// Reserves the place of a frame that is still being encoded.
    final func reserve(_ deferred: DeferredBytes) {
        if isGone.load(ordering: .relaxed) { return }
        if outputQueue == nil { outputQueue = OutputQueue() }
        appendOutput(.later(deferred))
    }

    private func appendOutput(_ entry: OutputQueue.Entry) {
        guard let outputQueue else { return }
        outputQueue.add(entry)
        let limits = server.settings.limits.net
        if outputQueue.bytes > limits.outboundHardBytes {
            self.outputQueue = nil
            return carrier.close(WebSocketCloseCode.policyViolation, "too much waits to be sent")
        }
        guard outputQueue.bytes > limits.outboundSoftBytes, !outputQueue.isCongested else { return }
        outputQueue.isCongested = true
        congested()
    }

    /// Sends frames in a turn of the loop that is full: at once if they are small, else in a later turn.
    final func sendInTurn(_ frames: [UInt8]) {
        guard outputQueue == nil, frames.count > Self.smallBytes || carrier.isTurnFull else { return send(frames) }
        let outputQueue = OutputQueue()
        self.outputQueue = outputQueue
        outputQueue.isWaitingForTurn = true
        appendOutput(.bytes(frames))
        home.enqueue(self)
    }

    /// Frames up to this size do not wait for a turn, so that answers overtake other clients' large messages.
    private static let smallBytes = 16 << 10

    /// A frame is encoded. If it is first in the queue, it is sent with the ready entries behind it; in later turns if this one
    /// is full.
    /// - Parameter frame: its bytes as the loop has staged them; nil if it has none.
    final func isReady(_ deferred: DeferredBytes, _ outcome: DeferredBytes.Outcome, _ frame: StagedFrame?) {
        guard let outputQueue, !outputQueue.isWaitingForTurn, case .later(let first)? = outputQueue.first, first === deferred else { return }
        if frame == nil, home.loop.isTurnFull { return awaitTurn(outputQueue) }
        outputQueue.removeFirst()
        deliver(outcome, frame)
        guard !endIfEmpty(outputQueue) else { return }
        while sendReady(outputQueue) {
            if home.loop.isTurnFull { return awaitTurn(outputQueue) }
        }
    }

    private func awaitTurn(_ outputQueue: OutputQueue) {
        outputQueue.isWaitingForTurn = true
        home.enqueue(self)
    }

    /// Takes the session's turn: sends one entry of its queue.
    /// - Returns: whether another one is ready.
    final func sendNext() -> Bool {
        guard let outputQueue, outputQueue.isWaitingForTurn else { return false }
        if sendReady(outputQueue) { return true }
        outputQueue.isWaitingForTurn = false
        return false
    }

    /// Closes the connection because of its peer's input, behind the answers that are ready and wait for a turn. Do not call it from the
    /// queue itself.
    final func close(_ code: UInt16, _ reason: String) {
        sendWaiting()
        carrier.close(code, reason)
    }

    /// Sends all output that is ready: the last chance before the connection closes.
    final func sendWaiting() {
        guard let outputQueue, outputQueue.isWaitingForTurn else { return }
        while sendReady(outputQueue) {}
        outputQueue.isWaitingForTurn = false
    }

    /// Sends the first entry if it is ready.
    /// - Returns: whether another one is ready.
    private func sendReady(_ queue: OutputQueue) -> Bool {
        switch queue.first {
        case .later(let next)?:
            guard let outcome = next.outcome else { return false }
            deliver(outcome, nil)
        case .bytes(let bytes)?: carrier.send(bytes)
        case .probe?: isDrainExpected = true
        case .marked(let bytes)?: complete(bytes)
        case .close?: end()
        case nil: break
        }
        queue.removeFirst()
        return !endIfEmpty(queue)
    }

    /// Ends a queue behind its last entry. Also true when the session no longer has this queue, because sending has ended the session.
    private func endIfEmpty(_ queue: OutputQueue) -> Bool {
        guard outputQueue === queue else { return true }
        guard queue.first == nil else { return false }
        outputQueue = nil
        if isDrainExpected { carrier.reportDrain() }
        return true
    }

    private func deliver(_ outcome: DeferredBytes.Outcome, _ frame: StagedFrame?) {
        if let reply = outcome.reply { replied(reply) }
        if outcome.isTooLarge { return carrier.close(WebSocketCloseCode.messageTooBig, "what is observed has become too large") }
        if let frame { carrier.send(frame, outcome.bytes) } else if !outcome.bytes.isEmpty { carrier.send(outcome.bytes) }
    }
}
