/// The limits of a loop's connections. Every field has a unit in its name.
public struct NetSettings: Sendable {
    /// The most bytes that may wait for one peer after the kernel took what it could.
    /// One more and the connection is closed with ``CloseReason/writeOverflow``.
    public var outboundLimitBytes = 64 << 20
    /// How long a closing connection may take to send what is queued.
    public var drainTimeoutMs = 10_000
    /// How long a closing connection waits for the peer's FIN after the last byte. Closing at once instead could
    /// turn unread input into a reset that destroys the bytes just sent (RFC 9112 §9.6).
    public var lingerTimeoutMs = 2_000
    /// How long an outgoing connection may take per address.
    public var connectTimeoutMs = 30_000
    /// The size of the one read buffer that all connections of a loop share.
    public var readBufferBytes = 128 << 10
    /// How many full read buffers one connection may take before the others have their turn.
    public var readsPerTurn = 4

    /// A loop goes back to Dispatch when this long, up to twice, has brought nothing; till then it waits in its own
    /// poller, where an event costs one wake-up instead of two and no re-arming: a busy loop is as fast as a bare one.
    /// 0 goes back at once.
    public var stayAwakeMs = 2

    public init() {}
}
