import Testing
@testable import WireProtocols

@Suite(.timeLimit(.minutes(30))) struct WebSocketEndpointTests {
    private enum Heard: Equatable {
        case send([UInt8]), message(WebSocketOpcode, [UInt8]), end
    }

    private static func hear(_ pieces: [[UInt8]], deflate: DeflateSettings? = nil) -> [Heard] {
        var endpoint = WebSocketEndpoint(maxMessageBytes: 100, deflate: deflate)
        var heard: [Heard] = []
        for var piece in pieces {
            piece.withUnsafeMutableBytes { bytes in
                endpoint.receive(bytes) { step in
                    switch step {
                    case .send(let bytes): heard.append(.send(bytes))
                    case .message(let opcode, let payload, _): heard.append(.message(opcode, Array(payload)))
                    case .end: heard.append(.end)
                    }
                }
            }
        }
        return heard
    }

    @Test func life_isTheSame_howeverItIsSplit() {
        let bytes = utf8(
            WebSocketHandshakeTests.request()) + clientFrame(1, utf8("Hello")) + clientFrame(9, utf8("?")) + clientFrame(10, [])
            + clientFrame(2, [1]) + clientFrame(8, [0x03, 0xE8]) + clientFrame(1, utf8("late"))
        let steps: [Heard] = [
            .send(utf8(WebSocketHandshakeTests.answer)), .message(.text, utf8("Hello")), .send(WebSocketFrame.pong(utf8("?"))),
            .message(.binary, [1]), .send(WebSocketFrame.close(1000)), .end,
        ]
        for pieces in feedings(of: bytes) { #expect(Self.hear(pieces) == steps) }
    }

    @Test func otherRequests_areRefused_andEnd() {
        let heard = Self.hear([utf8("GET / HTTP/1.1\r\nHost: a\r\n\r\n"), clientFrame(1, [])])
        #expect(heard == [.send(HTTPResponseEncoder.failure(.badHandshake(.upgrade))), .end])
        #expect(Self.hear([utf8("nonsense\r\n\r\n")]) == [.send(HTTPResponseEncoder.failure(.badRequestLine)), .end])
    }

    @Test func failure_isAnswered_andEnds() {
        let heard = Self.hear([utf8(WebSocketHandshakeTests.request()) + clientFrame(1, [], masked: false) + clientFrame(1, [])])
        #expect(heard.dropFirst() == [.send(WebSocketFrame.close(.wrongMasking)), .end])
    }

    @Test func compression_isAgreedOn_whenItIsWanted() throws {
        let head = WebSocketHandshakeTests.request(extra: "Sec-WebSocket-Extensions: permessage-deflate\r\n")
        let hello = clientFrame(1, [0xF2, 0x48, 0xCD, 0xC9, 0xC9, 0x07, 0x00], rsv: 4)
        #expect(Self.hear([utf8(head) + hello], deflate: DeflateSettings()).last == .message(.text, utf8("Hello")))
        #expect(Self.hear([utf8(head) + hello]).suffix(2) == [.send(WebSocketFrame.close(.reservedBits)), .end])
    }
}
