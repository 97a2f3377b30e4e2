import DequeModule
import DispatchNet
import HubEngine
import JSONTree
import WireProtocols

/// A message that is read off the loop, with the bytes of the budget that hold it.
struct LargeText: Sendable {
    let message: Source
    let lease: MemoryLease?

    enum Source: Sendable {
        case socket(WebSocketLargeMessage)
        case text([UInt8])
    }
}

/// Large messages of one peer: they are read off the loop one at a time, and what comes behind one waits for it, so that
/// nothing overtakes.
///
///     large ─► LargeWork: inflate, read into values ─► loop: then(…) ─► what came behind, up to the next large one
///
/// Used on the loop of whoever has it.
final class Aside: @unchecked Sendable {
    // Sendable: everything declared here is used on one loop only.
    private let loop: EventLoop
    private unowned let server: Server
    private let address: SocketAddress
    /// Hears when nothing more should be read from the peer, and when it may go on.
    private let hold: (Bool) -> Void
    /// What came behind a large message, with its bytes.
    private var behind: Deque<(bytes: Int, arrival: () -> Void)> = []
    private(set) var isBusy = false
    /// The bytes of what came behind, as the budget knows them.
    private var kept = IncomingBytes()
    private var keptBytes = 0

    init(_ loop: EventLoop, _ server: Server, _ address: SocketAddress, hold: @escaping (Bool) -> Void) {
        self.loop = loop
        self.server = server
        self.address = address
        self.hold = hold
    }

    /// What came of a large message.
    struct Outcome<Value: Sendable>: Sendable {
        /// What was made of it; a failure ends the connection.
        let value: Result<Value, Failure>
        /// What its values cost.
        var bytes = 0
        /// Holds them.
        var hold: (any NodeHold)?

        enum Failure: Error, Sendable {
            case memory(MemoryShare.Refusal)
            case message(WebSocketError)
        }
    }

    /// Keeps what came behind a large message. Nil for fine, else there is no memory for it.
    func keep(_ bytes: Int, _ arrival: @escaping () -> Void) -> MemoryShare.Refusal? {
        behind.append((bytes, arrival))
        keptBytes += bytes
        return kept.become(keptBytes, server.memory, address)
    }

    /// Reads a message off the loop. Not while another one is read.
    /// - Parameters:
    ///   - read: makes something of the text, on another thread.
    ///   - then: gets it, on the loop; may begin the next one.
    func read<Value: Sendable>(
        _ text: LargeText, _ read: @escaping @Sendable (UnsafeRawBufferPointer, NodeAllowance) -> Value,
        then: @escaping (Outcome<Value>) -> Void
    ) {
        isBusy = true
        hold(true)
        let (memory, address) = (server.memory, address)
        let then = LoopBound(then)
        server.largeWork.run(of: address) { [self] in
            let outcome = Self.outcome(text, read, memory, address)
            loop.execute { [self] in finish { then.value(outcome) } }
        }
    }

    private static func outcome<Value: Sendable>(
        _ text: LargeText, _ read: (UnsafeRawBufferPointer, NodeAllowance) -> Value, _ memory: ServerMemory, _ address: SocketAddress
    ) -> Outcome<Value> {
        let inflated = memory.lease(of: address, for: .incoming)
        let bytes: [UInt8]
        switch text.message {
        case .text(let whole): bytes = whole
        case .socket(let message):
            do throws(WebSocketError) { bytes = try message.content { inflated.become($0) } } catch {
                return Outcome(value: .failure(inflated.refusal.map { .memory($0) } ?? .message(error)))
            }
        }
        let allowance = NodeAllowance(memory.lease(of: address, for: .parsing))
        let value = bytes.withUnsafeBytes { read($0, allowance) }
        let (cost, hold) = allowance.end()
        return Outcome(value: .success(value), bytes: cost, hold: hold)
    }

    private func finish(_ then: () -> Void) {
        isBusy = false
        then()
        while !isBusy, let (bytes, arrival) = behind.popFirst() {
            // Less is never refused.
            keptBytes -= bytes
            _ = kept.become(keptBytes, server.memory, address)
            arrival()
        }
        guard !isBusy else { return }
        (behind, keptBytes) = ([], 0)
        kept = IncomingBytes()
        hold(false)
    }
}
