/// The counters of a loop since its start. Never reset.
public struct LoopCounters: Sendable {
    /// Connections accepted or connected.
    public var opened = 0
    /// Connections whose descriptor is closed.
    public var closed = 0
    /// Frames passed to `send` and `broadcast`, once per connection.
    public var deliveries = 0
    /// System calls that sent something.
    public var writes = 0
    public var bytesReceived = 0
    public var bytesSent = 0
    /// Loop turns: each handles a batch of events and handed-over work, and ends with one flush.
    public var turns = 0
    /// ns that the loop has been busy: not waiting, pausing or asleep.
    public var busyNs: UInt64 = 0
    /// Number of pauses to let events accumulate (``NetSettings/gatherUs``, ``EventLoop/beforeWait(_:)``).
    public var gatherings = 0
    /// Times that the system had no descriptor left for a new connection.
    public var acceptFailures = 0
    /// Bytes that currently wait for peers that read too slowly.
    public var backlogBytes = 0
    /// Times that a connection passed ``NetSettings/outboundSoftBytes``.
    public var congestions = 0
    /// Events for connections that were already closed.
    public var staleEvents = 0
    /// Connections whose TLS handshake currently waits for its turn (``NetSettings/handshakesPerTurn``).
    public var handshakesWaiting = 0
    /// TLS handshakes completed, in either role.
    public var handshakes = 0
    /// Those of them that resumed a session.
    public var resumedHandshakes = 0
    /// Ends by ``CloseReason/code``.
    public internal(set) var endsByCode: [Int] = Array(repeating: 0, count: CloseReason.names.count)

    /// Connections that currently have a descriptor.
    public var connections: Int { opened - closed }

    /// How many connections ended for a reason, whatever its associated number.
    public func ends(_ reason: CloseReason) -> Int { endsByCode[reason.code] }
}
