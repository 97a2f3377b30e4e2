import DispatchNet

/// The transport of a session: a WebSocket, or long polling until a WebSocket replaces it.
///
///     engine ─► LoopSessions.deliver ─► session.carrier ─┬─ WebSocketCarrier ─► Connection
///                                                        └─ LongPollCarrier ─┬─► polls on any connections
///                                                                            └─► JoinedSocket ─► WebSocketCarrier
///
/// Used on the loop of the session's lane.
protocol Carrier: AnyObject {
    /// Sends whole messages in server-to-client WebSocket frames.
    func send(_ frames: [UInt8])
    /// The same for frames that the loop has staged for many sessions; `frames` are their bytes.
    func send(_ staged: StagedFrame, _ frames: [UInt8])
    /// Whether the session itself has sent as much as it may in one turn of the loop.
    var isTurnFull: Bool { get }
    /// Closes the session after a protocol error: sends the reason, and ends when the queued output has been sent.
    func close(_ code: UInt16, _ reason: String)
    /// Closes the session without a reason: a newer session has replaced it.
    func dismiss()
    /// Stops reading from the peer, or resumes: too many of its requests are unanswered.
    func holdInput(_ isHeld: Bool)
    /// Stops reading, or resumes, while a large message of the peer is parsed off the loop.
    func holdWhileReading(_ isHeld: Bool)
    /// The address of the peer, or of the client behind a trusted proxy.
    var peer: SocketAddress { get }
    /// Counts the bytes sent from now on, with this counter instead of the previous one.
    func countSent(with counter: ByteCounter?)
    /// Calls the session's `drained` when everything sent before has left.
    func reportDrain()
}

/// An incomplete message.
struct OpenMessage {
    /// Number of the message on its connection.
    var number: UInt32
    /// Bytes of it received so far.
    var bytes: Int
}

/// Receives the messages and the back-pressure events of a WebSocket. Used on the connection's loop.
protocol SocketListener: AnyObject {
    /// A complete text message; the bytes are valid during the call.
    func received(text: UnsafeRawBufferPointer)
    /// A complete text message above `largeRequestBytes`.
    func received(large: LargeText)
    /// The protocol message that is incomplete after the last text; nil while none is.
    var openMessage: OpenMessage? { get }
    /// The output waiting for the peer is over the soft limit.
    func congested()
    /// All output has left.
    func drained()
    /// The connection is about to be closed because of the peer's input: the last chance to send output that is ready and waits for a turn.
    func sendWaiting()
    /// The connection has ended. The last call.
    func ended()
}

extension SocketListener {
    func sendWaiting() {}
}
