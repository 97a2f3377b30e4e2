/// The application's side of one connection. Every method is called on the connection's loop, never from
/// inside a call that the handler itself made to its connection: an end caused by `send` or `close` is reported later in
/// the same turn.
public protocol ConnectionHandler: AnyObject {
    /// The next bytes from the peer: a stream without message boundaries. The memory belongs to the loop,
    /// is valid only during the call, and may be changed in place (RFC 6455 §5.3 unmasking).
    func received(_ bytes: UnsafeMutableRawBufferPointer)

    /// The peer has shut down its sending side (half-close). Called once; without an implementation
    /// the connection is closed with ``CloseReason/peerClosed`` after the queued output is sent.
    func peerFinishedSending() -> HalfClose

    /// More than ``NetSettings/outboundSoftBytes`` waits for the peer: produce less until `outboundDrained`. Called once each
    /// time that the limit is passed.
    func outboundCongested()

    /// The backlog is empty: a good moment to produce more.
    func outboundDrained()

    /// The connection has ended for this handler. Called exactly once, as the last call; the loop then releases the handler.
    /// Output queued before a `close` may still be in transmission.
    func ended(_ reason: CloseReason)
}

/// The answer to a peer that has shut down its sending side.
public enum HalfClose: Sendable {
    /// Send the queued output, then close.
    case close
    /// Stay open for writing: a response is pending. The handler closes.
    case keepWriting
}

extension ConnectionHandler {
    public func peerFinishedSending() -> HalfClose { .close }
    public func outboundCongested() {}
    public func outboundDrained() {}
}
