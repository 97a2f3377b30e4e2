import Synchronization

/// A large message that is encoded off the database queue and then sent.
///
/// It keeps its place in the order of deliveries, so later messages for the same client wait. It is dropped unencoded when its last reference is
/// released: its clients have disconnected, or its batch was rolled back.
public final class DeferredBytes: Sendable {
    /// The result of the encoding.
    public struct Outcome: Sendable {
        /// Sent before the bytes, to clients of the dialect `rest`.
        public var reply: Reply?
        /// Whole frames; empty if there is nothing to send after all.
        public var bytes: [UInt8]
        /// The message exceeds the size limit, so the client cannot be kept up to date.
        public var isTooLarge = false

        init(_ bytes: [UInt8] = [], reply: Reply? = nil) {
            self.bytes = bytes
            self.reply = reply
        }

        static let tooLarge: Outcome = {
            var outcome = Outcome()
            outcome.isTooLarge = true
            return outcome
        }()
    }

    /// Approximate minimum size in bytes.
    public let leastBytes: Int

    private struct State {
        var outcome: Outcome?
        var waiters: [@Sendable (DeferredBytes, Outcome) -> Void] = []
        /// Bytes of the budget that it holds, and the queue that they return to.
        var held = 0
        var holder: EncodeQueue?
    }
    private let state = Mutex(State())
    /// Set on the database queue when its batch is rolled back.
    let isAbandoned = Atomic<Bool>(false)

    init(_ leastBytes: Int) { self.leastBytes = leastBytes }

    deinit {
        let (held, holder) = state.withLock { ($0.held, $0.holder) }
        if held > 0 { holder?.released(held) }
    }

    /// Nil until encoded. Thread-safe.
    public var outcome: Outcome? { state.withLock { $0.outcome } }

    /// Calls back once: immediately if encoded, otherwise from the thread that encodes it. Thread-safe.
    public func whenReady(_ body: @escaping @Sendable (DeferredBytes, Outcome) -> Void) {
        let ready = state.withLock { state in
            if state.outcome == nil { state.waiters.append(body) }
            return state.outcome
        }
        if let ready { body(self, ready) }
    }

    /// - Parameters:
    ///   - held: bytes of the budget that are released with this object.
    ///   - holder: the queue that they return to.
    func fill(_ outcome: Outcome, holding held: Int = 0, of holder: EncodeQueue? = nil) {
        let waiters = state.withLock { state in
            defer { state.waiters = [] }
            state.outcome = outcome
            (state.held, state.holder) = (held, holder)
            return state.waiters
        }
        for body in waiters { body(self, outcome) }
    }
}
