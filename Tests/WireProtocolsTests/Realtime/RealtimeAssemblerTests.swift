import Testing
@testable import WireProtocols

@Suite(.timeLimit(.minutes(30))) struct RealtimeAssemblerTests {
    @Test func keepAlive_isRecognised_andDoesNotDisturbChunks() {
        #expect(RealtimeAssembler.hear(["0", "{}", "0", "2", "{\"a\"", ":1}", "0"]) ==
            [.keepAlive, .message("{}"), .keepAlive, .message("{\"a\":1}"), .keepAlive])
    }

    @Test func chunkContent_equalToZeroOrANumber_isContent() {
        #expect(RealtimeAssembler.hear(["3", "[1", "0", "]"]) == [.message("[10]")])
        #expect(RealtimeAssembler.hear(["1", "0"]) == [.message("0")])
        #expect(RealtimeAssembler.hear(["2", "", "12"]) == [.message("12")])
    }

    @Test func count_has1To6Digits() {
        let texts = Array(repeating: "x", count: 12)
        #expect(RealtimeAssembler.hear(["000012"] + texts) == [.message(String(repeating: "x", count: 12))])
        #expect(RealtimeAssembler.hear(["1234567"]) == [.message("1234567")])
        #expect(RealtimeAssembler.hear(["-2", "2.", "1e1", "", " 2"]) ==
            [.message("-2"), .message("2."), .message("1e1"), .message(""), .message(" 2")])
        #expect(RealtimeAssembler.hear(["999999"]) == [])
    }

    @Test func countOfZero_fails_andNothingIsReadAfterwards() {
        #expect(RealtimeAssembler.hear(["00", "{}", "0"]) == [.failure(.badChunkCount)])
    }

    @Test func message_of20000Characters_inTwoChunks_isJoined() {
        let message = "{\"v\":\"" + String(repeating: "a", count: 20_000) + "\"}"
        let chunks = [String(message.prefix(16_384)), String(message.dropFirst(16_384))]
        #expect(RealtimeAssembler.hear(["2"] + chunks) == [.message(message)])
    }

    @Test func messages_atTheLimit_pass_andOneByteMoreIsRefusedByNumber() {
        let head = "{\"t\":\"d\",\"d\":{\"r\":0,\"a\":\"p\",\"b\":{\"p\":\"/a\",\"d\":\""
        let message = head + String(repeating: "x", count: 2000) + "\"}}}"
        let limit = message.utf8.count
        let chunks = [String(message.prefix(30)), String(message.dropFirst(30).prefix(1000)), String(message.dropFirst(1030))]
        #expect(RealtimeAssembler.hear([message], limit: limit) == [.message(message)])
        #expect(RealtimeAssembler.hear([message, "{}"], limit: limit - 1) == [.oversized(0), .message("{}")])
        #expect(RealtimeAssembler.hear(["3"] + chunks, limit: limit) == [.message(message)])
        #expect(RealtimeAssembler.hear(["3"] + chunks + ["{}"], limit: limit - 1) == [.oversized(0), .message("{}")])
        #expect(RealtimeAssembler.hear(["3"] + chunks + ["0"], limit: 100) == [.oversized(0), .keepAlive])
    }

    @Test func oversizedMessage_withoutARequestNumber_fails() {
        let long = String(repeating: "x", count: 2000)
        for message in [long, "{\"t\":\"d\",\"d\":{\"b\":\"\(long)\",\"r\":1}}", "{\"t\":\"d\",\"d\":{\"a\":\"p\"},\"x\":\"\(long)\"}"] {
            #expect(RealtimeAssembler.hear([message, "{}"], limit: 1500) == [.failure(.messageTooBig)])
        }
        // A number cut by the end of the kept part must not be taken for a shorter one.
        let padded = "{\"t\":\"d\",\"d\":{\"x\":\"" + String(repeating: "x", count: 999) + "\",\"r\":123456789,\"b\":\"\(long)\"}}"
        #expect(RealtimeAssembler.hear([padded], limit: 1500) == [.failure(.messageTooBig)])
    }

    @Test func buffer_isEmpty_betweenMessages() {
        var assembler = RealtimeAssembler()
        for (piece, held) in [("2", 0), ("abc", 3), ("d", 0)] {
            utf8(piece).withUnsafeBytes { assembler.receive($0) { _ in } }
            #expect(assembler.bufferedBytes == held)
        }
    }

    // MARK: Blocks

    /// Collects a message in chunks of one size.
    private static func collected(_ bytes: [UInt8], chunk: Int) -> (blocks: MessageBlocks?, message: [UInt8]?) {
        var assembler = RealtimeAssembler()
        var heard: (blocks: MessageBlocks?, message: [UInt8]?)
        let starts = Array(stride(from: 0, to: bytes.count, by: chunk))
        utf8("\(starts.count)").withUnsafeBytes { assembler.receive($0) { _ in } }
        bytes.withUnsafeBytes { all in
            for start in starts {
                assembler.receive(UnsafeRawBufferPointer(rebasing: all[start..<min(all.count, start + chunk)])) { inbound in
                    switch inbound {
                    case .message(let text): heard.message = Array(text)
                    case .blocks(let blocks): heard.blocks = blocks
                    default: Issue.record("not a message")
                    }
                }
            }
        }
        return heard
    }

    @Test func message_upToABlock_isWhole_andALongerOneComesInBlocks() {
        let bytes = (0..<(3 * MessageBlocks.blockBytes + 5)).map { UInt8(truncatingIfNeeded: $0 &* 7) }
        for chunk in [1000, 16_384, 100_000] {
            let fitting = Array(bytes.prefix(MessageBlocks.blockBytes))
            #expect(Self.collected(fitting, chunk: chunk).message == fitting)
            for count in [MessageBlocks.blockBytes + 1, 2 * MessageBlocks.blockBytes, bytes.count] {
                let (blocks, message) = Self.collected(Array(bytes.prefix(count)), chunk: chunk)
                #expect(message == nil && blocks?.count == count)
                #expect(blocks?.joined() == Array(bytes.prefix(count)))
            }
        }
    }

    @Test func piece_isCopiedOnce_howeverMuchCameBefore() {
        var blocks = MessageBlocks()
        let piece = [UInt8](repeating: 1, count: 11_700)
        var places: [UnsafeRawPointer?] = []
        for _ in 0..<1000 {
            piece.withUnsafeBytes { blocks.append($0) }
            let now = blocks.places
            // A full block is not moved.
            #expect(now.dropLast().starts(with: places.dropLast()))
            places = now
        }
        #expect(blocks.count == 11_700_000 && places.count == 11_700_000 / MessageBlocks.blockBytes + 1)
    }

    @Test func messageInBlocks_isParsedAndRefused_asOneInASinglePiece() throws {
        let text = "{\"t\":\"d\",\"d\":{\"r\":3,\"a\":\"p\",\"b\":{\"p\":\"/a\",\"d\":\"\(String(repeating: "x", count: 200_000))\"}}}"
        let blocks = try #require(Self.collected(utf8(text), chunk: 16_384).blocks)
        guard case .request(let request)? = try RealtimeInbound.blocks(blocks).message(limits: RealtimeLimits()) else {
            Issue.record("not a request")
            return
        }
        #expect(request.number == 3 && request.bytes == text.utf8.count)
        let head = "{\"t\":\"d\",\"d\":{\"r\":7,\"a\":\"p\",\"b\":{\"p\":\"/a\",\"d\":\""
        let long = head + String(repeating: "x", count: 300_000)
        let chunks = stride(from: 0, to: long.count, by: 10_000).map { String(long.dropFirst($0).prefix(10_000)) }
        #expect(RealtimeAssembler.hear(["\(chunks.count)"] + chunks + ["0"], limit: 200_000) == [.oversized(7), .keepAlive])
    }
}
