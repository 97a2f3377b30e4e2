import DispatchNet
import WireProtocols

/// A WebSocket connection: frames in, sign of life, closing handshake.
///
/// Made and used on the connection's loop.
final class WebSocketCarrier: Carrier, LaneMember, @unchecked Sendable {
    // Sendable: everything declared here is used on the connection's loop only.
    let connection: Connection
    let lane: Lane
    /// Whoever speaks through the socket; held until the connection ends.
    var listener: (any SocketListener)?
    private var decoder: WebSocketDecoder
    /// When the peer was last heard, in the lane's seconds.
    private var heardAt: Int
    private var isAsked = false
    /// What waited for the peer at the last look: less than before means that it reads.
    private var waitingBytes = 0
    private var isClosing = false

    init(_ connection: Connection, server: Server) {
        self.connection = connection
        lane = server.lanes[connection.loop.index]
        heardAt = lane.seconds
        decoder = WebSocketDecoder(role: .server, maxMessageBytes: server.settings.limits.frameBytes)
        lane.join(self)
    }

    func send(_ frames: [UInt8]) { connection.send(frames) }

    func send(_ staged: StagedFrame, _ frames: [UInt8]) { connection.send(staged) }

    func received(_ bytes: UnsafeMutableRawBufferPointer) {
        heardAt = lane.seconds
        isAsked = false
        decoder.receive(bytes) { event in
            guard !isClosing else { return }
            switch event {
            case .text(let text): listener?.received(text: text)
            case .binary: close(WebSocketCloseCode.unsupportedData, "Send text frames.")
            case .ping(let payload): connection.send(WebSocketFrame.pong(echoing: payload))
            case .pong: break
            case .close(let code, _):
                isClosing = true
                connection.send(WebSocketFrame.close(code))
                connection.close(.peerClosed)
            case .failure(let error): close(error.closeCode, error.reason)
            }
        }
    }

    /// Says why with a close frame and ends the connection when all that is queued has been sent.
    func close(_ code: UInt16, _ reason: String) {
        guard !isClosing else { return }
        isClosing = true
        connection.send(WebSocketFrame.close(code, reason: reason))
        connection.close(code == WebSocketCloseCode.messageTooBig ? .limitExceeded(code) : .protocolError(code))
    }

    func dismiss() { connection.close(.dismissed) }

    /// Says that nothing more will come, with a close frame.
    func finish() {
        guard !isClosing else { return }
        isClosing = true
        connection.send(WebSocketFrame.close(WebSocketCloseCode.normal))
        connection.close(.finished)
    }

    func ended(_ reason: CloseReason) {
        lane.leave(self)
        listener?.ended()
        listener = nil
    }

    func tick(seconds: Int, limits: ServerLimits) {
        let waiting = connection.bufferedBytes
        if waiting < waitingBytes { heardAt = seconds }
        waitingBytes = waiting
        let silence = seconds - heardAt
        if silence >= limits.silenceSeconds {
            connection.abort(.idle)
        } else if silence >= limits.pingAfterSeconds, !isAsked {
            isAsked = true
            connection.send(WebSocketFrame.ping())
        }
    }
}
