import DispatchNet

/// Brings a session's bytes to its peer: a WebSocket, or long polling until a WebSocket takes over.
///
///     engine ─► Lane.deliver ─► session.carrier ─┬─ WebSocketCarrier ─► Connection
///                                                └─ LongPollCarrier ─┬─► polls on any connections
///                                                                    └─► JoinedSocket ─► WebSocketCarrier
///
/// Used on the loop of the session's lane.
protocol Carrier: AnyObject {
    /// Sends whole messages in server-to-client WebSocket frames.
    func send(_ frames: [UInt8])
    /// The same for frames that the loop has staged for many sessions; `frames` are their bytes.
    func send(_ staged: StagedFrame, _ frames: [UInt8])
    /// The peer broke the protocol: says why and ends the session when all that is queued has been sent.
    func close(_ code: UInt16, _ reason: String)
    /// The session was taken over by a newer one.
    func dismiss()
    /// Reads nothing from the peer, or goes on with it: too much of what it asked is not answered yet.
    func holdInput(_ isHeld: Bool)
    /// The same while a large message of the peer is read off the loop.
    func holdWhileReading(_ isHeld: Bool)
    /// Where the peer is.
    var peer: SocketAddress { get }
    /// Calls the session's `drained` when nothing that was sent before waits for the peer any more.
    func reportDrain()
}

/// A message that has begun and is not complete.
struct OpenMessage {
    /// Another number for another message.
    var number: UInt32
    /// Bytes that have come of it.
    var bytes: Int
}

/// Hears what comes on a WebSocket, and how its peer reads. Used on the connection's loop.
protocol SocketListener: AnyObject {
    /// A whole text message; the bytes are valid during the call.
    func received(text: UnsafeRawBufferPointer)
    /// A whole text message that is large.
    func received(large: LargeText)
    /// What has come of a message that is still open; nil while none is.
    var openMessage: OpenMessage? { get }
    /// Too much waits for the peer.
    func congested()
    /// Nothing waits for the peer any more.
    func drained()
    /// The connection is over. The last call.
    func ended()
}
