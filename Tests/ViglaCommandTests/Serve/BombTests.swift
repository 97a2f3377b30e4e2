import Foundation
import Testing
import TestSupport
import WireProtocols

/// A message of 100 MB compressed to 100 KB, sent to a hub that accepts 32 MiB.
@Suite(.timeLimit(.minutes(30))) struct BombTests {
    @Test func bomb_endsItsConnectionWith1009_andCostsNoMoreThanTheLimit() throws {
        let hub = try RunningHub(["--port", "0", "--memory", "--dev", "--loops", "1"])
        let bystander = try Peer(hub)
        #expect(try bystander.ask(#"{"id":1,"op":"set","path":"/a","value":1}"#) == #"{"id":1,"ok":{"seq":1}}"#)
        let before = try peakBytes(hub)

        // A compressed megabyte of blanks as an independent block: a hundred of them are one message.
        let blanks = [UInt8](repeating: 0x20, count: 1_000_000)
        let encoder = WebSocketEncoder(.init(takesOverContext: false))
        let frame = blanks.withUnsafeBytes { encoder.frame(.text, $0) }
        let block = Array(frame[WebSocketFrame.headerLength(payloadLength: frame.count - 4)...]) + [0x00, 0x00, 0xFF, 0xFF]
        let payload = Array(repeating: block, count: 100).flatMap { $0 }
        #expect(payload.count < 150_000)
        var bomb: [UInt8] = []
        WebSocketFrame.appendHeader(.text, payloadLength: payload.count, mask: WebSocketMask(bigEndian: 0), to: &bomb)
        bomb[0] |= 0x40
        let bomber = try Peer(hub)
        try bomber.connection.write(contentsOf: Data(bomb + payload))
        #expect(try bomber.closeCode() == 1009)

        #expect(try bystander.ask(#"{"id":2,"op":"get","path":"/a"}"#) == #"{"id":2,"ok":{"value":1}}"#)
        let grown = try peakBytes(hub) - before
        #expect(grown < 80 << 20, "grown by \(grown) bytes")
    }

    /// The peak memory of the hub's process.
    private func peakBytes(_ hub: RunningHub) throws -> Int {
        let status = try String(contentsOfFile: "/proc/\(hub.process.processIdentifier)/status", encoding: .utf8)
        let line = try #require(status.split(separator: "\n").first { $0.hasPrefix("VmHWM:") })
        return try #require(line.split(separator: " ").compactMap { Int($0) }.first) * 1024
    }

    /// An observe client that compresses.
    private final class Peer {
        let connection: FileHandle
        private var decoder: WebSocketDecoder
        private var texts: [String] = []
        private var code: UInt16?

        init(_ hub: RunningHub) throws {
            connection = try hub.connection()
            let offer = DeflateSettings()
            let key = "dGhlIHNhbXBsZSBub25jZQ=="
            try connection.write(
                contentsOf: Data(WebSocketHandshake.request(host: "localhost", target: "/.observe", key: key, deflate: offer)))
            var parser = HTTPResponseParser()
            var answer: HTTPInboundResponse?
            while answer == nil, let byte = try connection.read(upToCount: 1), !byte.isEmpty {
                if case .response(let response) = byte.withUnsafeBytes({ parser.receive($0) }).event { answer = response }
            }
            let response = try #require(answer)
            let deflate = try WebSocketHandshake.check(response, key: key, deflate: offer)
            #expect(deflate != nil)
            decoder = WebSocketDecoder(role: .client, maxMessageBytes: 1 << 20, deflate: deflate)
        }

        func ask(_ request: String) throws -> String {
            try connection.write(contentsOf: Data(WebSocketFrame.text(Array(request.utf8), mask: WebSocketMask(bigEndian: 1))))
            while texts.isEmpty { try receive() }
            return texts.removeFirst()
        }

        func closeCode() throws -> UInt16? {
            while code == nil { try receive() }
            return code
        }

        private func receive() throws {
            var bytes = Array(connection.availableData)
            try #require(!bytes.isEmpty, "the connection has ended")
            bytes.withUnsafeMutableBytes { buffer in
                decoder.receive(buffer) { event in
                    if case .text(let text) = event { texts.append(String(decoding: text, as: UTF8.self)) }
                    if case .close(let sent, _) = event { code = sent }
                }
            }
        }
    }
}
