import TestSupport
import Testing
@testable import WireProtocols

/// How many of the received bytes are decoded in one call.
@Suite(.timeLimit(.minutes(30))) struct WebSocketTurnTests {
    private static let alone = DeflateAgreement(server: .init(takesOverContext: false), client: .init(takesOverContext: false))

    private func compressed(_ payload: [UInt8]) -> [UInt8] {
        let deflater = Deflater(.init(takesOverContext: false), DeflateSettings())
        return payload.withUnsafeBytes { deflater.compress($0) } ?? []
    }

    /// The events of one call, and the number of bytes consumed, which are unmasked.
    private func turn(_ decoder: inout WebSocketDecoder, _ bytes: inout [UInt8], work: Int) -> (heard: [HeardEvent], used: Int) {
        var heard: [HeardEvent] = []
        let used = bytes.withUnsafeMutableBytes { buffer in decoder.receive(buffer, work: work) { heard.append(HeardEvent($0)) } }
        return (heard, used)
    }

    @Test func smallMessages_endATurn_afterSoMuch() {
        let frame = clientFrame(1, utf8("0123456789"))
        let original = (0..<100).flatMap { _ in frame }
        let each = 10 + WebSocketDecoder.eventWork
        for (work, count) in [(1, 1), (each, 1), (each + 1, 2), (10 * each, 10), (10 * each + 1, 11), (Int.max, 100)] {
            var decoder = WebSocketDecoder(role: .server, maxMessageBytes: 1 << 20)
            var bytes = original
            let (heard, used) = turn(&decoder, &bytes, work: work)
            #expect(heard.count == count)
            #expect(used == count * frame.count)
            #expect(bytes[used...] == original[used...], "what is left is as it came")
        }
    }

    @Test func controlFrames_countLikeMessages() {
        let pings = (0..<50).flatMap { _ in clientFrame(9, []) }
        var decoder = WebSocketDecoder(role: .server, maxMessageBytes: 1 << 20)
        var bytes = pings
        #expect(turn(&decoder, &bytes, work: 7 * WebSocketDecoder.eventWork).heard.count == 7)
    }

    @Test func compressedMessages_countAsTheyAreInflated() {
        let frame = clientFrame(1, compressed([UInt8](repeating: 0x20, count: 20_000)), rsv: 4)
        #expect(frame.count < 100)
        var decoder = WebSocketDecoder(role: .server, maxMessageBytes: 1 << 20, deflate: Self.alone, inlineBytes: 32 << 10)
        var bytes = (0..<50).flatMap { _ in frame }
        let (heard, used) = turn(&decoder, &bytes, work: 32 << 10)
        #expect(heard.count == 2)
        #expect(used == 2 * frame.count)
        // A message that turns out to be large is not inflated further, and is the last of its turn.
        let large = clientFrame(1, compressed([UInt8](repeating: 0x20, count: 200_000)), rsv: 4)
        bytes = (0..<50).flatMap { _ in large }
        let second = turn(&decoder, &bytes, work: 64 << 10)
        #expect(second.heard.count == 1 && second.used == large.count)
    }

    @Test func whatIsLeft_isGivenAgain_andNothingIsLost() {
        var generator = SeededRandom(12)
        for _ in 0..<fuzzRounds(50) {
            var original: [UInt8] = []
            for _ in 0..<generator.below(60) {
                switch generator.below(5) {
                case 0: original += clientFrame(9, utf8("ping"))
                case 1: original += clientFrame(1, [UInt8](repeating: 0x61, count: generator.below(3000)))
                case 2:
                    original += clientFrame(1, utf8("be"), fin: false) + clientFrame(0, [], fin: false) + clientFrame(9, [])
                        + clientFrame(0, utf8("gun"), fin: false) + clientFrame(0, utf8("!"))
                case 3: original += clientFrame(1, compressed([UInt8](repeating: 0x62, count: generator.below(9000))), rsv: 4)
                default: original += clientFrame(2, [UInt8](repeating: 1, count: 5000))
                }
            }
            if generator.below(3) == 0 { original += clientFrame(8, [0x03, 0xE8]) + clientFrame(1, utf8("late")) }
            let fresh = { WebSocketDecoder(role: .server, maxMessageBytes: 1 << 20, deflate: Self.alone, inlineBytes: 4000) }
            var (whole, inTurns) = (fresh(), fresh())
            let expected = whole.hear(original)
            var heard: [HeardEvent] = []
            for piece in randomPieces(original, &generator) {
                var rest = piece
                while !rest.isEmpty {
                    let (events, used) = turn(&inTurns, &rest, work: 1 + generator.below(5000))
                    heard += events
                    rest.removeFirst(used)
                }
            }
            #expect(heard == expected)
            #expect(inTurns.hasEnded == whole.hasEnded && inTurns.bufferedBytes == whole.bufferedBytes)
        }
    }
}
