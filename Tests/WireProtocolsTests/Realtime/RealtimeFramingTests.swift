import JSONTree
import Testing
@testable import WireProtocols

@Suite(.timeLimit(.minutes(30))) struct RealtimeFramingTests {
    /// The text frames in `bytes`.
    static func texts(_ bytes: [UInt8]) -> [String] {
        WebSocketDecoder.hear([bytes], role: .client, limit: .max).map { event in
            guard case .text(let payload) = event else { return "\(event)" }
            return text(payload)
        }
    }

    static func message(units: Int, _ filler: Character = "x") -> String {
        let size = String(filler).utf16.count
        return "{\"v\":\"" + String(
            repeating: filler, count: (units - 8) / size) + String(repeating: "y", count: (units - 8) % size) + "\"}"
    }

    @Test(arguments: ["x", "ä", "€", "😀"] as [Character])
    func messages_upToTheSegment_areOneFrame_andLongerOnesAreCut(filler: Character) {
        for (units, segments) in [(16_383, 1), (16_384, 1), (16_385, 2), (32_768, 2), (32_790, 3), (102_400, 7)] {
            let message = Self.message(units: units, filler)
            #expect(message.utf16.count == units)
            let texts = Self.texts(RealtimeFraming.frames(for: utf8(message)))
            if segments == 1 {
                #expect(texts == [message])
                continue
            }
            // Astral characters may leave a segment one unit short, which may make one segment more.
            #expect(texts.count == Int(texts[0]).map { $0 + 1 })
            #expect((segments...segments + (filler == "😀" ? 1 : 0)).contains(texts.count - 1))
            #expect(texts[1...].joined() == message)
            #expect(texts[1...].allSatisfy { $0.utf16.count <= 16_384 && $0.utf16.count > 0 })
            #expect(RealtimeAssembler.hear(texts) == [.message(message)])
        }
    }

    @Test func cuts_neverSplitACodePoint() {
        for segment in 2...9 {
            let message = "{\"a\":\"x😀ä😀€😀😀yz😀\"}"
            let texts = Self.texts(RealtimeFraming.frames(for: utf8(message), segmentUnits: segment, tooManySegments: 100))
            #expect(texts.count == Int(texts[0]).map { $0 + 1 })
            #expect(texts[1...].joined() == message)
            #expect(texts.allSatisfy { $0.utf16.count <= segment && !$0.contains("\u{FFFD}") })
        }
    }

    @Test func tooManySegments_becomeOneLargeFrame() {
        let message = "{" + String(repeating: "x", count: 98) + "}"
        #expect(Self.texts(RealtimeFraming.frames(for: utf8(message), segmentUnits: 10, tooManySegments: 11)).count == 11)
        #expect(Self.texts(RealtimeFraming.frames(for: utf8(message), segmentUnits: 10, tooManySegments: 10)) == [message])
        #expect(RealtimeFraming.tooManySegments == 9_999)
    }

    @Test func numbersAndEmptyTexts_areNeverSent() {
        for text in ["", "0", "12", " 1", "1e3", "null", "\"x\""] { #expect(RealtimeFraming.frames(for: utf8(text)) == []) }
        var bytes = [UInt8(1)]
        RealtimeFraming.appendFrames(for: utf8("{}"), to: &bytes)
        #expect(bytes == [1, 0x81, 2] + utf8("{}"))
    }

    @Test func longPush_isCut() {
        let value = Node.string(String(repeating: "x", count: 20_000))
        let push = RealtimePush.data(path: "a", value: value)
        let texts = Self.texts(push.frames(tag: 1))
        #expect(texts.count == 3 && texts[0] == "2")
        #expect(texts[1...].joined() == "{\"t\":\"d\",\"d\":{\"a\":\"d\",\"b\":{\"t\":1,\"p\":\"a\",\"d\":\(value.json)}}}")
    }
}
