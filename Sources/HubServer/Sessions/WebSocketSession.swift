import DispatchNet
import HubEngine
import WireProtocols

/// A WebSocket connection that speaks one of the hub's protocols: frames in, sign of life, closing handshake.
///
/// Made and used on the connection's loop, but for what the engine keeps in `Client`.
class WebSocketSession: Client, LaneMember, @unchecked Sendable {
    // Sendable: everything declared here is used on the connection's loop only.
    let connection: Connection
    let database: Database
    unowned let server: Server
    let lane_: Lane
    private var decoder: WebSocketDecoder
    /// When the peer was last heard, in the lane's seconds.
    private var heardAt: Int
    private var isAsked = false
    private var isClosing = false

    init(_ connection: Connection, database: Database, server: Server, dialect: Dialect) {
        self.connection = connection
        self.database = database
        self.server = server
        lane_ = server.lanes[connection.loop.index]
        heardAt = lane_.seconds
        decoder = WebSocketDecoder(role: .server, maxMessageBytes: server.settings.limits.frameBytes)
        super.init(lane: connection.loop.index, dialect: dialect)
        lane_.join(self)
    }

    /// A whole text message; the bytes are valid during the call.
    func received(text: UnsafeRawBufferPointer) {}

    func received(_ bytes: UnsafeMutableRawBufferPointer) {
        heardAt = lane_.seconds
        isAsked = false
        decoder.receive(bytes) { event in
            guard !isClosing else { return }
            switch event {
            case .text(let text): received(text: text)
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

    func ended(_ reason: CloseReason) {
        lane_.leave(self)
        database.submit(.end, from: self)
    }

    func tick(seconds: Int, limits: ServerLimits) {
        let silence = seconds - heardAt
        if silence >= limits.silenceSeconds {
            connection.abort(.idle)
        } else if silence >= limits.pingAfterSeconds, !isAsked {
            isAsked = true
            connection.send(WebSocketFrame.ping())
        }
    }
}
