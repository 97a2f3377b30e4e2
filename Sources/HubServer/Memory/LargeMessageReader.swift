import DequeModule
import DispatchNet
import HubEngine
import JSONTree
import WireProtocols

/// A message to be parsed off the loop, with the lease that charges its bytes to the budget.
struct LargeText: Sendable {
    let message: Source
    let lease: MemoryLease?

    enum Source: Sendable {
        case socket(WebSocketLargeMessage)
        case text([UInt8])
        /// A message in chunks, joined on the other thread.
        case blocks(MessageBlocks)
    }
}

/// Parses one peer's large messages off the loop, one at a time. Messages that arrive behind one wait for it, so that order is kept.
///
///     large ─► LargeWork: inflate, read into values ─► loop: then(…) ─► queued messages, up to the next large one
///
/// Used on one loop: that of the session or carrier that owns it.
final class LargeMessageReader: @unchecked Sendable {
    // Sendable: everything declared here is used on one loop only.
    private let loop: EventLoop
    private let server: Server
    private let address: SocketAddress
    /// Called with true when reading from the peer should stop, with false when it may resume.
    private let hold: (Bool) -> Void
    /// Messages that arrived behind a large one, with their sizes.
    private var queue: Deque<(bytes: Int, arrival: () -> Void)> = []
    private(set) var isBusy = false
    /// The budget's lease for the messages in `queue`, and their bytes.
    private var queuedLease = IncomingBytes()
    private var queuedBytes = 0

    init(_ loop: EventLoop, _ server: Server, _ address: SocketAddress, hold: @escaping (Bool) -> Void) {
        self.loop = loop
        self.server = server
        self.address = address
        self.hold = hold
    }

    /// The result of parsing a large message.
    struct Outcome<Value: Sendable>: Sendable {
        /// The parsed value; a failure ends the connection.
        let value: Result<Value, Failure>
        /// Bytes of memory that its values take.
        var bytes = 0
        /// The budget's hold for those bytes.
        var hold: (any MemoryReservation)?

        enum Failure: Error, Sendable {
            case memory(MemoryShare.Refusal)
            case message(WebSocketError)
        }
    }

    /// Queues a message that arrived behind a large one. Nil on success, else the budget's refusal.
    func enqueue(_ bytes: Int, _ arrival: @escaping () -> Void) -> MemoryShare.Refusal? {
        queue.append((bytes, arrival))
        queuedBytes += bytes
        return queuedLease.become(queuedBytes, server.memory, address)
    }

    /// Parses a message off the loop. Only while `isBusy` is false.
    /// - Parameters:
    ///   - read: parses the text, on another thread.
    ///   - then: gets the result, on the loop; may begin the next message.
    func read<Value: Sendable>(
        _ text: LargeText, _ read: @escaping @Sendable (UnsafeRawBufferPointer, NodeAllowance) -> Value,
        then: @escaping (Outcome<Value>) -> Void
    ) {
        isBusy = true
        hold(true)
        let (memory, address) = (server.memory, address)
        let then = LoopBound(then)
        server.memory.largeWork.run(of: address) { [self] in
            let outcome = Self.outcome(text, read, memory, address)
            loop.execute { [self] in
                // `then` may not keep the values. In that case this holds the last reference, which is freed in the background.
                let last = Retired(outcome)
                finish { then.value(outcome) }
                loop.execute { last.retire() }
            }
        }
    }

    private static func outcome<Value: Sendable>(
        _ text: LargeText, _ read: (UnsafeRawBufferPointer, NodeAllowance) -> Value, _ memory: ServerMemory, _ address: SocketAddress
    ) -> Outcome<Value> {
        let inflated = memory.lease(of: address, for: .incoming)
        let bytes: [UInt8]
        switch text.message {
        case .text(let whole): bytes = whole
        case .blocks(let blocks):
            // The blocks and the joined text exist at the same time, so charge for both.
            guard inflated.become(blocks.count) else { return Outcome(value: .failure(.memory(inflated.refusal ?? .process))) }
            bytes = blocks.joined()
        case .socket(let message):
            do throws(WebSocketError) { bytes = try message.content { inflated.become($0) } } catch {
                return Outcome(value: .failure(inflated.refusal.map { .memory($0) } ?? .message(error)))
            }
        }
        let allowance = NodeAllowance(memory.lease(of: address, for: .parsing))
        let value = bytes.withUnsafeBytes { read($0, allowance) }
        let isRefused = allowance.isUsedUp
        let (cost, hold) = allowance.end()
        // Nothing is kept of a refused message, so the budget has room again when the client hears of the refusal.
        return Outcome(value: .success(value), bytes: cost, hold: isRefused ? nil : hold)
    }

    private func finish(_ then: () -> Void) {
        isBusy = false
        then()
        while !isBusy, let (bytes, arrival) = queue.popFirst() {
            // Shrinking a lease always succeeds.
            queuedBytes -= bytes
            _ = queuedLease.become(queuedBytes, server.memory, address)
            arrival()
        }
        guard !isBusy else { return }
        (queue, queuedBytes) = ([], 0)
        queuedLease = IncomingBytes()
        hold(false)
    }
}
