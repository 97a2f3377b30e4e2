import Dispatch
import DispatchNet
import WireProtocols

/// Echoes every message, compressed if the client offers that.
final class Echo: ConnectionHandler {
    private let connection: Connection
    private var endpoint = WebSocketEndpoint(maxMessageBytes: 32 << 20, deflate: DeflateSettings())

    init(_ connection: Connection) { self.connection = connection }

    func received(_ bytes: UnsafeMutableRawBufferPointer) {
        endpoint.receive(bytes) { step in
            switch step {
            case .send(let bytes): connection.send(bytes)
            case .message(let opcode, let payload, let encoder): connection.send(encoder.frame(opcode, payload))
            case .end: connection.close(.finished)
            }
        }
    }

    func ended(_ reason: CloseReason) {}
}

// echo-server PORT
let listener = try Listener.bind(host: "127.0.0.1", port: CommandLine.arguments.last.flatMap { UInt16($0) } ?? 9001)
listener.start(on: try EventLoopGroup(count: 1)) { Echo($0) }
dispatchMain()
