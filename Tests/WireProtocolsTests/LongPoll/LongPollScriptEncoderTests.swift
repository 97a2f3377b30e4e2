import TestSupport
import Testing
@testable import WireProtocols

/// Scripts written in pieces equal those written in one go.
@Suite(.timeLimit(.minutes(30))) struct LongPollScriptEncoderTests {
    /// The rule of the escapes, ignoring pieces.
    private static func naive(_ json: String) -> String {
        var script = ""
        var rest = json[...]
        var before: Character = " "
        while let first = rest.unicodeScalars.first {
            func replace(_ count: Int, _ text: String) {
                before = Character(rest.unicodeScalars.prefix(count).last ?? " ")
                rest = Substring(rest.unicodeScalars.dropFirst(count))
                script += text
            }
            if rest.hasPrefix("</") { replace(2, "<\\/") }
            else if first == "\u{2028}" { replace(1, "\\u2028") }
            else if first == "\u{2029}" { replace(1, "\\u2029") }
            else if rest.hasPrefix("\"__proto__\":"), before != "\\" { replace(12, "[\"__proto__\"]:") }
            else { replace(1, String(first)) }
        }
        return script
    }

    private static func message(_ generator: inout SeededRandom) -> String {
        let parts = [
            "</", "<", "/", "\u{2028}", "\u{2029}", "\u{2027}", "â", "\u{1F600}", "\"__proto__\":", "\\\"__proto__\":", "\"__proto__\"",
            "__proto__",
            "\\", "abc", "\"",
        ]
        return "{\"a\":" + (0..<generator.below(40)).map { _ in parts[generator.below(parts.count)] }.joined() + "}"
    }

    @Test func pieces_areTheWhole_ofTextsAndOfFrames() {
        var generator = SeededRandom(3)
        for _ in 0..<fuzzRounds(300) {
            var (messages, expected): ([LongPollMessage], [String]) = ([], [])
            for _ in 0..<generator.below(4) {
                let texts = (0...generator.below(2)).map { _ in Self.message(&generator) }
                expected += texts.map(Self.naive)
                if texts.count == 1, generator.below(2) == 0 {
                    messages.append(.text(utf8(texts[0])))
                } else {
                    // Segments so short that escaped characters cross them.
                    let units = 2 + generator.below(20)
                    let frames = texts.flatMap { RealtimeFraming.frames(for: utf8($0), segmentUnits: units, tooManySegments: 50) }
                    messages.append(.frames(frames))
                }
            }
            let answer = LongPollDownstream.Answer(ticket: 1, preamble: utf8("x;"), messages: messages, number: 7, closing: utf8("y;"))
            var encoder = answer.encoder
            var bytes: [UInt8] = []
            var pieces = 0
            while !encoder.isDone {
                encoder.write(to: &bytes, atLeast: 1)
                pieces += 1
            }
            let script = "x;pRTLPCB(7,[\(expected.joined(separator: ","))]);y;"
            #expect(text(bytes) == script)
            #expect(text(answer.script) == script)
            #expect(pieces > messages.count)
        }
    }

    @Test func pieces_ofALargeMessage_areBounded() {
        let long = utf8("{\"x\":\"" + String(repeating: "<", count: 1_000_000) + "\"}")
        let frames = RealtimeFraming.frames(for: long) + RealtimeFraming.frames(for: utf8("{\"n\":1}"))
        let answer = LongPollDownstream.Answer(ticket: 1, messages: [.frames(frames), .text(utf8("{}"))], number: 0)
        var encoder = answer.encoder
        var (whole, largest): ([UInt8], Int) = ([], 0)
        while !encoder.isDone {
            var piece: [UInt8] = []
            encoder.write(to: &piece, atLeast: 10_000)
            largest = max(largest, piece.count)
            whole += piece
        }
        #expect(largest < 10_000 + (32 << 10))
        #expect(whole == utf8("pRTLPCB(0,[") + long + utf8(",{\"n\":1},{}]);"))
    }

    @Test(arguments: [
        [], [0x81], [0x81, 0x7E], [0x81, 0x05, 0x7B], [0x01, 0x00], [0xC1, 0x01, 0x7B], [0x81, 0x01, 0x78], [0x81, 0x01, 0x30],
    ] as [[UInt8]])
    func whatIsNoFrame_endsTheMessage(_ frames: [UInt8]) {
        let answer = LongPollDownstream.Answer(ticket: 1, messages: [.frames(frames), .text(utf8("{}"))], number: 2)
        #expect(text(answer.script).hasSuffix("{}]);"))
    }
}
