import Testing
@testable import WireProtocols

@Suite(.timeLimit(.minutes(30))) struct WebSocketDecoderTests {
    @Test func text_isHandedOver_forVectorsOfRFC6455_5_7() {
        #expect(WebSocketDecoder.hear([[0x81, 0x05, 0x48, 0x65, 0x6C, 0x6C, 0x6F]], role: .client) == [.text(utf8("Hello"))])
        let masked: [UInt8] = [0x81, 0x85, 0x37, 0xFA, 0x21, 0x3D, 0x7F, 0x9F, 0x4D, 0x51, 0x58]
        #expect(WebSocketDecoder.hear([masked]) == [.text(utf8("Hello"))])
        let fragments: [UInt8] = [0x01, 0x03, 0x48, 0x65, 0x6C, 0x80, 0x02, 0x6C, 0x6F]
        #expect(WebSocketDecoder.hear([fragments], role: .client) == [.text(utf8("Hello"))])
    }

    @Test func text_whollyInsideARead_isASliceOfIt() {
        var decoder = WebSocketDecoder(role: .server, maxMessageBytes: 100)
        var bytes = clientFrame(1, utf8("Hello"))
        bytes.withUnsafeMutableBytes { buffer in
            decoder.receive(buffer) { event in
                guard case .text(let payload) = event else { return #expect(Bool(false)) }
                #expect(payload.baseAddress == UnsafeRawPointer(buffer.baseAddress)?.advanced(by: 6))
            }
        }
        #expect(decoder.bufferedBytes == 0)
    }

    @Test(arguments: [0, 1, 3, 7, 8, 9, 125, 126, 127, 65_535, 65_536, 70_001])
    func payload_survives_atEveryLengthForm(size: Int) {
        let payload = (0..<size).map { UInt8(0x20 + $0 % 90) }
        #expect(WebSocketDecoder.hear([clientFrame(1, payload)]) == [.text(payload)])
        #expect(WebSocketDecoder.hear([clientFrame(2, payload)]) == [.binary(payload)])
        let mask = WebSocketMask(bigEndian: 0x0102_0304)
        #expect(WebSocketDecoder.hear([WebSocketFrame.text(payload, mask: mask)]) == [.text(payload)])
        #expect(WebSocketFrame.text(payload, mask: mask) == clientFrame(1, payload, mask: [1, 2, 3, 4]))
        #expect(WebSocketFrame.text(payload) == clientFrame(1, payload, masked: false))
        #expect(WebSocketDecoder.hear([WebSocketFrame.binary(payload)], role: .client) == [.binary(payload)])
    }

    /// RFC 6455 §5.2: "the minimal number of bytes MUST be used to encode the length"
    @Test func length_notInItsShortestForm_fails() {
        let short: [UInt8] = [0x81, 0xFE, 0, 125, 0, 0, 0, 0]
        let long: [UInt8] = [0x81, 0xFF, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 0, 0, 0, 0]
        for bytes in [short, long] { #expect(WebSocketDecoder.hear([bytes]) == [.failure(.impossibleLength)]) }
    }

    /// All states in one stream: fragments with control frames between, empty fragments, a scalar cut by a fragment boundary.
    static let conversation: [UInt8] =
        clientFrame(1, utf8("{\"a\":1}")) + clientFrame(1, [0x48, 0xC3], fin: false) + clientFrame(9, utf8("are you there"))
        + clientFrame(0, [], fin: false) + clientFrame(10, []) + clientFrame(0, [0xA4] + utf8("llo")) + clientFrame(2, [0, 255])
        + clientFrame(1, []) + clientFrame(1, utf8(String(repeating: "x", count: 130))) + clientFrame(8, [0x03, 0xE8] + utf8("bye"))

    static let conversationEvents: [HeardEvent] = [
        .text(utf8("{\"a\":1}")), .ping(utf8("are you there")), .pong([]), .text(utf8("Hällo")), .binary([0, 255]),
        .text([]), .text(utf8(String(repeating: "x", count: 130))), .close(1000, utf8("bye")),
    ]

    @Test func conversation_isTheSame_howeverItIsSplit() {
        for pieces in feedings(of: Self.conversation) {
            #expect(WebSocketDecoder.hear(pieces) == Self.conversationEvents)
        }
    }

    @Test func conversation_isTheSame_splitInThree() {
        let bytes = Self.conversation
        for first in stride(from: 0, through: bytes.count, by: 3) {
            for second in stride(from: first, through: bytes.count, by: 7) {
                let pieces = [Array(bytes[..<first]), Array(bytes[first..<second]), Array(bytes[second...])]
                if WebSocketDecoder.hear(pieces) != Self.conversationEvents { Issue.record("cut at \(first) and \(second)") }
            }
        }
    }

    @Test func nothing_isDecoded_afterCloseOrFailure() {
        let more = clientFrame(1, utf8("late"))
        #expect(WebSocketDecoder.hear([clientFrame(8, []) + more, more]) == [.close(nil, [])])
        #expect(WebSocketDecoder.hear([clientFrame(3, []) + more, more]) == [.failure(.unknownOpcode)])
        var decoder = WebSocketDecoder(role: .server, maxMessageBytes: 10)
        #expect(!decoder.hasEnded)
        _ = decoder.hear(clientFrame(8, []))
        #expect(decoder.hasEnded)
    }

    @Test func emptyFragments_failTheMessage_thatHasMoreThanAThousand() {
        let empty = clientFrame(0, [], fin: false)
        let most = WebSocketDecoder.mostEmptyFragments
        func message(_ count: Int) -> [UInt8] {
            clientFrame(1, utf8("a"), fin: false) + Array(repeatElement(empty, count: count).joined())
        }
        let end = clientFrame(0, utf8("b"))
        // The count is per message.
        #expect(WebSocketDecoder.hear([message(most) + end, message(most) + end]) == [.text(utf8("ab")), .text(utf8("ab"))])
        #expect(WebSocketDecoder.hear([message(most + 1) + end]) == [.failure(.emptyFragments)])
        #expect(WebSocketDecoder.hear([message(1 << 16)]) == [.failure(.emptyFragments)])
        #expect(WebSocketError.emptyFragments.closeCode == 1008)
    }

    @Test func brokenFrames_fail_withTheirCode() {
        let cases: [([UInt8], WebSocketError, UInt16)] = [
            (clientFrame(1, [], rsv: 1), .reservedBits, 1002), (clientFrame(1, [], rsv: 2), .reservedBits, 1002),
            (clientFrame(1, [], rsv: 4), .reservedBits, 1002), (clientFrame(3, []), .unknownOpcode, 1002),
            (clientFrame(7, []), .unknownOpcode, 1002), (clientFrame(11, []), .unknownOpcode, 1002),
            (clientFrame(15, []), .unknownOpcode, 1002), (clientFrame(1, [], masked: false), .wrongMasking, 1002),
            (clientFrame(9, [], fin: false), .fragmentedControlFrame, 1002),
            (clientFrame(8, [], fin: false), .fragmentedControlFrame, 1002),
            (clientFrame(9, Array(repeating: 0, count: 126)), .longControlFrame, 1002),
            (clientFrame(10, Array(repeating: 0, count: 70_000)), .longControlFrame, 1002),
            (clientFrame(0, []), .unexpectedContinuation, 1002),
            (clientFrame(1, [], fin: false) + clientFrame(1, []), .unfinishedMessage, 1002),
            (clientFrame(1, utf8("a"), fin: false) + clientFrame(2, []), .unfinishedMessage, 1002),
            ([0x81, 0xFF, 0x80, 0, 0, 0, 0, 0, 0, 0], .impossibleLength, 1002), (clientFrame(8, [3]), .badCloseCode, 1002),
            (clientFrame(8, [3, 0xE8, 0xFF]), .invalidUTF8, 1007), (clientFrame(1, [0xC0, 0x80]), .invalidUTF8, 1007),
            (clientFrame(1, [0xE2, 0x82]), .invalidUTF8, 1007),
            (clientFrame(1, [0xE2, 0x82], fin: false) + clientFrame(0, [0x20]), .invalidUTF8, 1007),
            (clientFrame(1, Array(repeating: 0x20, count: 2000)), .messageTooBig, 1009),
        ]
        for (bytes, error, code) in cases {
            #expect(error.closeCode == code)
            #expect(error.reason.utf8.count <= 123)
            #expect(WebSocketDecoder.hear([bytes], limit: 1999) == [.failure(error)])
            #expect(WebSocketDecoder.hear(bytes.map { [$0] }, limit: 1999) == [.failure(error)])
        }
        #expect(WebSocketDecoder.hear([clientFrame(1, [])], role: .client) == [.failure(.wrongMasking)])
    }

    @Test func controlFrame_of125Bytes_passes() {
        let payload = Array(repeating: UInt8(7), count: 125)
        #expect(WebSocketDecoder.hear([clientFrame(9, payload)]) == [.ping(payload)])
    }

    @Test func message_atTheLimit_passes_andOneByteMoreFailsAtItsHeader() {
        let atLimit = Array(repeating: UInt8(0x61), count: 1000)
        #expect(WebSocketDecoder.hear([clientFrame(1, atLimit)], limit: 1000) == [.text(atLimit)])
        let header = Array(clientFrame(1, atLimit + [0x61]).prefix(8))
        #expect(WebSocketDecoder.hear([header], limit: 1000) == [.failure(.messageTooBig)])
        let halves = clientFrame(2, Array(atLimit[..<600]), fin: false) + clientFrame(0, Array(atLimit[600...]))
        #expect(WebSocketDecoder.hear([halves], limit: 1000) == [.binary(atLimit)])
        let overflowing = clientFrame(2, atLimit, fin: false) + Array(clientFrame(0, [1]).prefix(6))
        #expect(WebSocketDecoder.hear([overflowing], limit: 1000) == [.failure(.messageTooBig)])
    }

    @Test func lengthOf63Bits_failsByTheLimit_withoutMemory() {
        let frame: [UInt8] = [0x82, 0xFF, 0x7F, 255, 255, 255, 255, 255, 255, 255, 1, 2, 3, 4]
        #expect(WebSocketDecoder.hear([frame], limit: 1 << 40) == [.failure(.messageTooBig)])
        let open = clientFrame(2, [1], fin: false) + [0x80] + frame.dropFirst()
        #expect(WebSocketDecoder.hear([open], limit: .max) == [.failure(.messageTooBig)])
    }

    @Test func invalidText_failsFast_beforeItsFrameEnds() {
        var decoder = WebSocketDecoder(role: .server, maxMessageBytes: 1000)
        let frame = clientFrame(1, utf8("abc") + [0xFF] + Array(repeating: 0x20, count: 100))
        #expect(decoder.hear(Array(frame[..<9])) == [])
        #expect(decoder.hear([frame[9]]) == [.failure(.invalidUTF8)])
    }

    @Test func closeCodes_areCheckedOneByOne() {
        for code in UInt16.min...5100 {
            let isLegal = (1000...1003).contains(code) || (1007...1014).contains(code) || (3000...4999).contains(code)
            let heard = WebSocketDecoder.hear([clientFrame(8, [UInt8(code >> 8), UInt8(code & 255)])])
            #expect(heard == [isLegal ? .close(code, []) : .failure(.badCloseCode)])
        }
    }

    @Test func frames_thatWeSend_stayWithinTheirLimits() {
        #expect(WebSocketFrame.ping(Array(repeating: 1, count: 200)).count == 127)
        #expect(WebSocketFrame.close(1005).count == 2)
        #expect(WebSocketFrame.close(nil) == [0x88, 0])
        let long = WebSocketFrame.close(1000, reason: String(repeating: "ä", count: 100))
        #expect(WebSocketDecoder.hear([long], role: .client) == [.close(1000, utf8(String(repeating: "ä", count: 61)))])
        let failed = WebSocketFrame.close(.messageTooBig)
        #expect(WebSocketDecoder.hear([failed], role: .client) == [.close(1009, utf8("message too big"))])
    }

    @Test func mask_equalsTheNaiveLoop_atEveryOffsetAndLength() {
        let key: [UInt8] = [0x11, 0x22, 0x44, 0x88]
        let mask = WebSocketMask(bigEndian: 0x1122_4488)
        for offset in 0..<9 {
            for size in 0..<40 {
                var bytes = (0..<size).map { UInt8($0) }
                bytes.withUnsafeMutableBytes { mask.apply(to: $0, offset: offset) }
                #expect(bytes == (0..<size).map { UInt8($0) ^ key[($0 + offset) % 4] })
            }
        }
    }

    @Test func header_length_agreesWithWhatIsWritten() {
        for size in [0, 125, 126, 65_535, 65_536] {
            for mask in [nil, WebSocketMask(bigEndian: 1)] {
                var bytes: [UInt8] = []
                WebSocketFrame.appendHeader(.text, payloadLength: size, mask: mask, to: &bytes)
                #expect(bytes.count == WebSocketFrame.headerLength(payloadLength: size, isMasked: mask != nil))
            }
        }
    }
}
