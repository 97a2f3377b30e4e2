/// Bytes that a loop holds for the current callback, ready to be sent to any number of its connections without
/// another copy. Valid until the handler method, `execute` block or timer that staged it returns.
public struct StagedFrame: Sendable, Equatable {
    let segment: Segment
    /// The generation of the loop's frames that the segment belongs to.
    let filling: UInt32
    /// Index of the loop; a frame is valid on its loop only.
    let loop: Int
}

extension EventLoop {
    /// Copies bytes once for this loop. Send them with ``Connection/send(_:)-(StagedFrame)``, mixed with frames of
    /// the connection's own: all frames of a turn leave together, in order.
    public func stage(_ bytes: UnsafeRawBufferPointer) -> StagedFrame {
        debugAssertOnLoop()
        return StagedFrame(segment: frames.store(bytes), filling: filling, loop: index)
    }

    public func stage(_ bytes: [UInt8]) -> StagedFrame {
        bytes.withUnsafeBytes { stage($0) }
    }

    /// Sends the same bytes to many connections of this loop. The bytes are copied once per call, not per connection.
    public func broadcast(_ bytes: [UInt8], to connections: [Connection]) {
        let segment = stage(bytes).segment
        connections.withUnsafeBufferPointer { connections in
            for i in connections.indices {
                precondition(connections[i].loop === self, "a broadcast reaches only connections of its loop")
                connections[i].enqueue(segment)
            }
        }
    }

    /// The same for a sequence of receivers; those without a connection are skipped.
    @inlinable
    public func broadcast<Receivers: Sequence>(
        _ bytes: [UInt8], to receivers: Receivers, connection: (Receivers.Element) -> Connection?
    ) {
        let frame = stage(bytes)
        for receiver in receivers { connection(receiver)?.send(frame) }
    }

    @inline(__always)
    func checkValid(_ frame: StagedFrame) {
        debugAssertOnLoop()
        precondition(
            frame.filling == filling && frame.loop == index,
            "a staged frame was sent on another loop, or after the callback that staged it")
    }
}
