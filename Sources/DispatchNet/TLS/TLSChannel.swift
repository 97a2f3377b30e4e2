/// A connection's TLS: the engine, and those of its records that the kernel has not taken.
///
/// ```
/// pending segments ─┐                                      ┌─► kernel
///                   ├─► TLSEngine, a portion at a time ─►──┤
/// Backlog (plain) ──┘   and only when there is room        └─► unsent: less than a portion
/// ```
/// What waits for a slow peer waits as plaintext, in blocks shared by all who wait for the same: it is encrypted when the
/// peer makes room. A stalled peer costs no encryption.
final class TLSChannel {
    /// How much is encrypted before the kernel is asked again whether it has room.
    static let portionBytes = 128 << 10
    /// How many portions one connection may send before the others have their turn.
    static let portionsPerTurn = 16

    let engine: TLSEngine
    /// Makes the handler when the handshake is done.
    private(set) var whenOpen: ((Connection) -> any ConnectionHandler)?
    /// For a peer that does not speak TLS but HTTP.
    let plainHTTPAnswer: [UInt8]
    /// Ends a handshake that takes too long.
    var deadline: LoopTimer?

    private var records: [UInt8] = []
    private var sent = 0
    /// The part of ``LoopCounters/backlogBytes`` that is this channel's.
    var countedBytes = 0

    init(_ engine: TLSEngine, plainHTTPAnswer: [UInt8], whenOpen: @escaping (Connection) -> any ConnectionHandler) {
        self.engine = engine
        self.plainHTTPAnswer = plainHTTPAnswer
        self.whenOpen = whenOpen
    }

    /// Records that the kernel has still to take.
    var unsentBytes: Int { records.count - sent }

    /// Memory for them, with what was sent of it.
    var heldBytes: Int { records.count }

    func keep(_ bytes: UnsafeRawBufferPointer) {
        // A peer that never takes the last byte must not make us keep all that it has taken.
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

    /// Replaces what was to be sent.
    func dropUnsent() {
        records = []
        sent = 0
    }

    /// The handshake is over, this way or that.
    func takeWhenOpen() -> ((Connection) -> any ConnectionHandler)? {
        defer { whenOpen = nil }
        deadline?.cancel()
        deadline = nil
        return whenOpen
    }
}

/// Which side of TLS a new connection takes.
struct TLSRole {
    let context: TLSContext
    /// For a client: the host it asked for.
    var host: String?
    /// For a client: who hears when the handshake fails.
    var dial: TLSDial?
    var plainHTTPAnswer: [UInt8] = []
}
