import Testing
import TestSupport
@testable import WireProtocols

/// Messages that are not delivered in place.
@Suite(.timeLimit(.minutes(30))) struct LargeMessageTests {
    private static let alone = DeflateAgreement(server: .init(takesOverContext: false), client: .init(takesOverContext: false))

    private func made(_ limit: Int = 1 << 20, inline: Int) -> WebSocketDecoder {
        WebSocketDecoder(role: .server, maxMessageBytes: limit, deflate: Self.alone, inlineBytes: inline)
    }

    /// The delivered messages, and whether they were delivered as `large`.
    private func kinds(_ decoder: inout WebSocketDecoder, _ bytes: [UInt8]) -> [String] {
        var bytes = bytes
        var kinds: [String] = []
        bytes.withUnsafeMutableBytes { buffer in
            decoder.receive(buffer) { event in
                switch event {
                case .text(let text): kinds.append("text \(text.count)")
                case .large(let message): kinds.append("large \(message.payload.count)\(message.isCompressed ? " compressed" : "")")
                case .failure(let error): kinds.append("\(error)")
                default: kinds.append("other")
                }
            }
        }
        return kinds
    }

    private func compressed(_ payload: [UInt8]) -> [UInt8] {
        let deflater = Deflater(.init(takesOverContext: false), DeflateSettings())
        return payload.withUnsafeBytes { deflater.compress($0) } ?? []
    }

    @Test func plainMessage_inPieces_isLargeAboveTheSize() {
        for (size, kind) in [(1000, "text 1000"), (1001, "large 1001")] {
            var decoder = made(inline: 1000)
            let frame = clientFrame(1, [UInt8](repeating: 0x61, count: size))
            #expect(kinds(&decoder, Array(frame.prefix(20))) == [])
            #expect(decoder.isInsideMessage && decoder.openBytes == 12)
            #expect(kinds(&decoder, Array(frame.dropFirst(20))) == [kind])
            #expect(!decoder.isInsideMessage && decoder.openBytes == 0 && decoder.bufferedBytes == 0 && decoder.messages == 1)
        }
    }

    @Test func compressedMessage_isLargeAboveTheSize_asItCame() throws {
        for (size, isLarge) in [(1000, false), (1001, true)] {
            let payload = compressed([UInt8](repeating: 0x61, count: size))
            for pieces in [[clientFrame(1, payload, rsv: 4)], clientFrame(1, payload, rsv: 4).map { [$0] }] {
                var decoder = made(inline: 1000)
                let heard = pieces.flatMap { kinds(&decoder, $0) }
                #expect(heard == [isLarge ? "large \(payload.count) compressed" : "text 1000"])
                #expect(!decoder.holdsInflater && decoder.bufferedBytes == 0)
            }
        }
    }

    /// The attack: 30 MB of blanks in 30 KB that are never completed.
    @Test func compressedMessage_thatIsNotWhole_isHeldAsItCame() {
        var decoder = made(32 << 20, inline: 256 << 10)
        let payload = Bomb.blocks(30).flatMap { $0 }
        #expect(payload.count < 40_000)
        #expect(kinds(&decoder, clientFrame(1, payload, fin: false, rsv: 4)) == [])
        #expect(decoder.bufferedBytes == payload.count && !decoder.holdsInflater)
        #expect(kinds(&decoder, clientFrame(9, [])) == ["other"])
        #expect(kinds(&decoder, clientFrame(0, [0x00])) == ["large \(payload.count + 1) compressed"])
    }

    @Test func content_isInflated_withinItsGrant() throws {
        let whole = [UInt8](repeating: 0x61, count: 500_000)
        let message = WebSocketLargeMessage(opcode: .text, payload: compressed(whole), isCompressed: true, maxMessageBytes: 1 << 20)
        #expect(try message.content() == whole)
        var asked: [Int] = []
        #expect(throws: WebSocketError.messageTooBig) {
            _ = try message.content { bytes in
                asked.append(bytes)
                return bytes < 300_000
            }
        }
        #expect(asked.dropLast().allSatisfy { $0 < 300_000 } && asked.count < 5)
        let small = WebSocketLargeMessage(opcode: .text, payload: message.payload, isCompressed: true, maxMessageBytes: 499_999)
        #expect(throws: WebSocketError.messageTooBig) { _ = try small.content() }
        let broken = WebSocketLargeMessage(opcode: .text, payload: compressed(whole + [0xFF]), isCompressed: true, maxMessageBytes: 1 << 20)
        #expect(throws: WebSocketError.invalidUTF8) { _ = try broken.content() }
        let cut = WebSocketLargeMessage(
            opcode: .text, payload: Array(message.payload.dropLast(9)), isCompressed: true, maxMessageBytes: 1 << 20)
        #expect(throws: WebSocketError.badCompression) { _ = try cut.content() }
    }

    @Test func compressedBytes_haveTheLimit_too() {
        var decoder = made(1000, inline: 100)
        let noise = (0..<1200).map { UInt8(truncatingIfNeeded: $0 &* 2_654_435_761 >> 7) }
        #expect(kinds(&decoder, clientFrame(2, noise, fin: false, rsv: 4)) == ["messageTooBig"])
    }

    /// For any input, in any pieces: the same messages with the size limit and without.
    @Test func conversation_isTheSame_withTheSizeAndWithout() {
        var generator = SeededRandom(13)
        for _ in 0..<300 {
            var bytes: [UInt8] = []
            for _ in 0..<4 {
                let payload = (0..<generator.below(400)).map { _ in UInt8(0x61 + generator.below(3)) }
                let isCompressed = generator.below(2) == 0 && payload.count > 300
                let body = isCompressed ? compressed(payload) : payload
                let cut = generator.below(body.count + 1)
                if generator.below(2) == 0 {
                    bytes += clientFrame(1, body, rsv: isCompressed ? 4 : 0)
                } else {
                    bytes += clientFrame(
                        1, Array(body[..<cut]), fin: false,
                        rsv: isCompressed ? 4 : 0) + clientFrame(9, [1]) + clientFrame(0, Array(body[cut...]))
                }
            }
            var plain = made(2000, inline: .max)
            let wanted = plain.hear(bytes)
            for inline in [50, 350, 2000] {
                var decoder = made(2000, inline: inline)
                var heard: [HeardEvent] = []
                var rest = bytes[...]
                while !rest.isEmpty {
                    let piece = Array(rest.prefix(1 + generator.below(500)))
                    rest = rest.dropFirst(piece.count)
                    heard += decoder.hear(piece)
                }
                #expect(heard == wanted)
            }
        }
    }
}
