/// The limits of a loop's connections. Every field has a unit in its name.
///
/// Limits on the output that waits for a slow peer, beyond the kernel's buffers:
///
/// ```
/// 0 ────────── soft ───────────────────────────────── hard
///    buffered    │ `outboundCongested`; if it lasts, and  │ closed at once:
///                │ little is read: `writeStalled`         │ `writeOverflow`
/// ```
public struct NetSettings: Sendable {
    /// Above this a connection is *congested* until its backlog is empty: its handler gets ``ConnectionHandler/outboundCongested()``.
    package var outboundSoftBytes = 1 << 20
    /// How long a connection may be congested without reading at least ``outboundSoftBytes``; then it is closed with
    /// ``CloseReason/writeStalled``. Together they are the lowest rate at which a large answer may be read: 35 KB/s.
    package var outboundSoftMs = 30_000
    /// The most bytes that may wait for one peer. One more and it is closed with ``CloseReason/writeOverflow``.
    package var outboundHardBytes = 64 << 20
    /// The most bytes that may wait for all slow peers of a group of loops. Over it a connection whose backlog grows, and has more than
    /// ``outboundCrowdedBytes``, is closed with ``CloseReason/outputMemory``.
    package var outboundTotalBytes = 512 << 20
    /// Backlog bytes that each peer may have even when that limit is exceeded.
    package var outboundCrowdedBytes = 64 << 10

    /// The size of the system's send buffer of each connection accepted; 0 lets the system grow it with the peer's speed.
    package var sendBufferBytes = 0

    /// How long a closing connection may take to send its queued output.
    package var drainTimeoutMs = 10_000
    /// How long a closing connection waits for the peer's FIN after the last byte. Closing at once instead could
    /// turn unread input into a reset that destroys the bytes just sent (RFC 9112 §9.6).
    package var lingerTimeoutMs = 2_000
    /// How long an outgoing connection may take per address.
    package var connectTimeoutMs = 30_000
    /// How long a TLS handshake may take, in either role; over it the connection ends with
    /// ``CloseReason/handshakeTimeout``.
    package var handshakeTimeoutMs = 10_000
    /// The size of the one read buffer that all connections of a loop share.
    package var readBufferBytes = 128 << 10
    /// How many full read buffers one connection may take in a turn in which no other is ready.
    package var readsPerTurn = 4
    /// Bytes read from each connection in a turn in which several are ready. The last connection waits for the handlers' work on the bytes of
    /// all others.
    package var sharedReadBytes = 16 << 10
    /// A connection that has more bytes to read than this counts as one that sends a lot, while several are ready.
    package var highVolumeReadBytes = 2 << 10
    /// How many bytes a turn reads from the connections that send a lot, all together, and for how long it serves them, in µs. The others
    /// are served first, and in every turn. Small requests of 64 KiB take about 2 ms; requests for large files take more.
    package var highVolumeTurnBytes = 64 << 10
    package var highVolumeTurnUs = 2_000
    /// Bytes of a connection that are sent in a turn in which several connections have output or are ready; the rest becomes backlog.
    package var sharedWriteBytes = 256 << 10
    /// Bytes copied for the connections of a loop in a turn, each distinct frame counted once, above which ``EventLoop/isTurnFull`` tells
    /// senders to leave the rest for later turns. Default 1 MiB: about a millisecond.
    package var turnBytes = 1 << 20
    /// Connections with an unfinished TLS handshake that are read in a turn, at least 1. Each may cost a signature with the server's
    /// key, nearly a millisecond, for which all others of the loop wait. The rest wait in line for the next turns.
    package var handshakesPerTurn = 1
    /// Connections with a TLS handshake that may wait in that line: some four seconds of signatures. Above it, the last one of the
    /// network with the most is closed with ``CloseReason/handshakeOverload``.
    package var handshakesWaiting = 4_096

    /// Time without an event, up to twice, after which a loop returns to Dispatch. Until then it waits in its own
    /// poller, where an event costs one wake-up instead of two and no re-arming: a busy loop is as fast as a bare one.
    /// 0 returns immediately.
    package var stayAwakeMs = 2
    /// A loop that has served this many connections at once pauses for this many µs before it waits for the next events. Then several events arrive
    /// together; a wake-up for each costs more than a request. Work submitted meanwhile waits as long. Default 4 and 50; 0 µs never pauses. The
    /// loop's user may request a longer pause (``EventLoop/beforeWait(_:)``).
    package var gatherConnections = 4
    package var gatherUs = 50

    /// Accepted connections that a loop of a group takes before the next loop gets any. A loop that is busy half of the time gets none either
    /// while other loops can take them. Default 0: connections are distributed in rotation.
    package var connectionsPerLoop = 0

    public init() {}
}
