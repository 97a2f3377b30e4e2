/// What an application does with one connection's bytes. Every method is called on the connection's loop, never from
/// inside a call that the handler itself made to its connection: an end caused by `send` or `close` is told later in
/// the same turn.
public protocol ConnectionHandler: AnyObject {
    /// The next bytes from the peer, as they came: a stream without message borders. The memory belongs to the loop,
    /// is valid only during the call, and may be changed in place (RFC 6455 §5.3 unmasking).
    func received(_ bytes: UnsafeMutableRawBufferPointer)

    /// The peer has shut down its sending side and will send nothing more. Asked once; without an implementation
    /// the connection is closed with ``CloseReason/peerClosed`` after what is queued has left.
    func peerFinishedSending() -> HalfClose

    /// More than ``NetSettings/outboundSoftBytes`` waits for the peer: produce less until `outboundDrained`. Told once each
    /// time that the limit is passed.
    func outboundCongested()

    /// Everything that the peer had been too slow to take has left: a good moment to produce more.
    func outboundDrained()

    /// The connection is over for this handler. Exactly once, and the last call; the loop then lets the handler go.
    /// What was queued before a `close` may still be leaving.
    func ended(_ reason: CloseReason)
}

/// The answer to a peer that has shut down its sending side.
public enum HalfClose: Sendable {
    /// Send what is queued, then close.
    case close
    /// Stay open for writing: an answer is still being made. The handler closes.
    case keepWriting
}

extension ConnectionHandler {
    public func peerFinishedSending() -> HalfClose { .close }
    public func outboundCongested() {}
    public func outboundDrained() {}
}
