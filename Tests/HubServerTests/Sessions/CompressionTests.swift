import DispatchNet
import HubServer
import TestHub
import Testing
import WireProtocols

/// permessage-deflate on the hub's sockets (RFC 7692).
@Suite(.timeLimit(.minutes(30))) struct CompressionTests {
    private static let offer = "permessage-deflate; client_max_window_bits"

    private func connect(_ server: TestServer, offer: String? = Self.offer) throws -> TestSocket {
        let socket = try TestSocket(port: server.port)
        try socket.upgrade("/.observe?ns=test", offer: offer)
        return socket
    }

    @Test func observe_takesTheOffer_andTheSDKsSocketNever() throws {
        let server = try TestServer()
        #expect(try connect(server).extensions == "permessage-deflate; server_no_context_takeover; client_no_context_takeover")
        #expect(try connect(server, offer: nil).extensions == nil)
        let sdk = try TestSocket(port: server.port)
        try sdk.upgrade("/.ws?v=5&ns=test", offer: Self.offer)
        #expect(sdk.extensions == nil)
    }

    @Test func withoutTheSetting_noOfferIsTaken() throws {
        let server = try TestServer { $0.limits.deflate = nil }
        #expect(try connect(server).extensions == nil)
    }

    /// The same commit to two windows, to a plain socket, and to the sender of a compressed request.
    @Test func broadcast_isReadAlike_byEveryKindOfSubscriber() throws {
        let server = try TestServer()
        let sockets = [
            try connect(server), try connect(server, offer: nil),
            try connect(server, offer: "permessage-deflate; server_max_window_bits=9"),
            try connect(server, offer: "permessage-deflate; server_max_window_bits=8"), try connect(server),
        ]
        for socket in sockets {
            try socket.sendText(#"{"id":1,"op":"observe","path":"/v","events":["value"]}"#)
            _ = try socket.text()
            _ = try socket.text()
        }
        let before = sockets.map(\.bytesRead)
        let long = String(repeating: "position ", count: 400)
        let writer = try connect(server)
        let encoder = WebSocketEncoder(.init(takesOverContext: false))
        let request = Array(#"{"id":1,"op":"set","path":"/v","value":"\#(long)"}"#.utf8)
        let mask = WebSocketMask(bigEndian: 0x1234_5678)
        let frame = request.withUnsafeBytes { encoder.frame(.text, $0, mask: mask) }
        #expect(frame.count < 300)
        try writer.send(frame)
        #expect(try writer.text() == #"{"id":1,"ok":{"seq":1}}"#)
        for (index, socket) in sockets.enumerated() {
            #expect(try socket.text() == #"{"sub":1,"seq":1,"event":"value","value":"\#(long)"}"#)
            let size = socket.bytesRead - before[index]
            #expect(index == 1 ? size > long.utf8.count : size < 2_500, "socket \(index): \(size)")
        }
    }

    /// Two messages for the same audience in one turn, and short ones that stay uncompressed.
    @Test func manyMessages_keepTheirOrder() throws {
        let server = try TestServer()
        let socket = try connect(server)
        try socket.sendText(#"{"id":1,"op":"observe","path":"/v","events":["value"]}"#)
        _ = try socket.text()
        _ = try socket.text()
        var requests: [UInt8] = []
        for number in 1...40 {
            let value = String(repeating: "\(number % 10)", count: number.isMultiple(of: 3) ? 2_000 : 5)
            requests += WebSocketFrame.text(
                Array(#"{"id":9,"op":"set","path":"/v","value":"\#(value)"}"#.utf8), mask: WebSocketMask(bigEndian: 7))
        }
        try socket.send(requests)
        for number in 1...40 {
            let value = String(repeating: "\(number % 10)", count: number.isMultiple(of: 3) ? 2_000 : 5)
            #expect(try socket.text() == #"{"sub":1,"seq":\#(number),"event":"value","value":"\#(value)"}"#)
            #expect(try socket.text() == #"{"id":9,"ok":{"seq":\#(number)}}"#)
        }
    }

    @Test func stoppingServer_saysThatItGoesAway() throws {
        let server = try TestServer()
        let (plain, compressed) = (try connect(server, offer: nil), try connect(server))
        server.server.stop {}
        #expect(try plain.closeCode() == 1001)
        #expect(try compressed.closeCode() == 1001)
    }

    @Test func brokenCompression_endsThatConnection() throws {
        let server = try TestServer()
        let socket = try connect(server)
        try socket.send([0xC1, 0x81, 0, 0, 0, 0, 0xFF])
        #expect(try socket.closeCode() == 1007)
        let plain = try connect(server, offer: nil)
        try plain.send([0xC1, 0x81, 0, 0, 0, 0, 0x00])
        #expect(try plain.closeCode() == 1002)
    }
}
