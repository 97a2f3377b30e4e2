/// A connection's TLS: the engine, and the records that the kernel has not accepted.
///
/// ```
/// pending segments ─┐                                      ┌─► kernel
///                   ├─► TLSEngine, a portion at a time ─►──┤
/// Backlog (plain) ──┘   only when the kernel has space     └─► unsent: less than a portion
/// ```
/// Data for a slow peer waits as plaintext, in blocks shared with other slow peers: it is encrypted when the kernel has room. A
/// stalled peer costs no encryption.
final class TLSChannel {
    /// Bytes that are encrypted between two send calls.
    static let portionBytes = 128 << 10
    /// Portions that one connection sends before the others have their turn.
    static let portionsPerTurn = 16

    let engine: TLSEngine
    /// Creates the handler when the handshake is done.
    private(set) var whenOpen: ((Connection) -> any ConnectionHandler)?
    /// The response to a peer that sends plain HTTP.
    let plainHTTPAnswer: [UInt8]
    /// Ends a handshake that takes too long.
    var deadline: LoopTimer?
    /// Whether the engine has produced records; on a server that may cost a signature.
    var isAnswered = false

    private var records: [UInt8] = []
    private var sent = 0
    /// The part of ``LoopCounters/backlogBytes`` that is this channel's.
    var countedBytes = 0

    init(_ engine: TLSEngine, plainHTTPAnswer: [UInt8], whenOpen: @escaping (Connection) -> any ConnectionHandler) {
        self.engine = engine
        self.plainHTTPAnswer = plainHTTPAnswer
        self.whenOpen = whenOpen
    }

    /// Bytes of records that the kernel has not accepted.
    var unsentBytes: Int { records.count - sent }

    /// The buffer of those records, and the number of its bytes already sent.
    var heldBytes: Int { records.count }

    func storeUnsent(_ bytes: UnsafeRawBufferPointer) {
        // Drops the sent part, so that a peer that never reads the last byte does not retain the whole buffer.
        if sent > records.count / 2 {
            records.removeFirst(sent)
            sent = 0
        }
        records.append(contentsOf: bytes)
    }

    func withUnsent<R>(_ body: (UnsafeRawBufferPointer) -> R) -> R {
        records.withUnsafeBytes { body(UnsafeRawBufferPointer(rebasing: $0[sent...])) }
    }

    func consumeUnsent(_ count: Int) {
        sent += count
        if sent == records.count { dropUnsent() }
    }

    /// Drops the unsent records.
    func dropUnsent() {
        records = []
        sent = 0
    }

    /// Cancels the handshake's timeout and returns the closure that creates the handler, once.
    func finishHandshake() -> ((Connection) -> any ConnectionHandler)? {
        defer { whenOpen = nil }
        deadline?.cancel()
        deadline = nil
        return whenOpen
    }
}

/// The TLS role of a new connection.
struct TLSRole {
    let context: TLSContext
    /// For a client: the host name to verify.
    var host: String?
    /// For a client: the handler that reports a failed handshake.
    var dial: TLSDial?
    var plainHTTPAnswer: [UInt8] = []
}
