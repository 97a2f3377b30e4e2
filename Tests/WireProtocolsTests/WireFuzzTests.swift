import JSONTree
import Testing
@testable import WireProtocols

/// Mutated valid inputs in random pieces: parsers may say what they like, but must answer, agree with themselves when fed
/// whole, and keep their limits.
@Suite struct WireFuzzTests {
    @Test func webSocketDecoder_survives_mutatedConversations() {
        var generator = SeededGenerator(seed: 5)
        for _ in 0..<fuzzRounds(4_000) {
            let bytes = mutated(WebSocketDecoderTests.conversation, &generator)
            let whole = WebSocketDecoder.hear([bytes], limit: 300)
            if whole != WebSocketDecoder.hear(randomPieces(bytes, &generator), limit: 300) { Issue.record("\(bytes)") }
            for case .text(let payload) in whole where payload.count > 300 { Issue.record("\(bytes)") }
        }
    }

    @Test func requestParser_survives_mutatedPipelines() {
        var generator = SeededGenerator(seed: 7)
        let pipeline = utf8(HTTPRequestParserTests.pipeline)
        for _ in 0..<fuzzRounds(1_000) {
            let bytes = mutated(pipeline, &generator)
            let whole = HTTPRequestParser.requests([bytes]).map { $0.map(\.summary) }
            let inPieces = HTTPRequestParser.requests(randomPieces(bytes, &generator)).map { $0.map(\.summary) }
            if whole != inPieces { Issue.record("\(text(bytes))") }
        }
    }

    @Test func responseParser_survives_mutatedPipelines() {
        var generator = SeededGenerator(seed: 9)
        let pipeline = utf8(HTTPResponseTests.pipeline)
        for _ in 0..<fuzzRounds(1_000) {
            let bytes = mutated(pipeline, &generator)
            let whole = HTTPResponseParser.responses([bytes]).map { "\($0.status) \($0.body)" }
            let inPieces = HTTPResponseParser.responses(randomPieces(bytes, &generator)).map { "\($0.status) \($0.body)" }
            if whole != inPieces { Issue.record("\(text(bytes))") }
        }
    }

    /// What a message says must not depend on the order of its members: read once as the SDKs write it, once with every
    /// part stepped over and read at the end.
    @Test func realtimeParser_survives_mutatedBodies_inBothOrders() {
        var generator = SeededGenerator(seed: 11)
        var understood = 0
        for _ in 0..<fuzzRounds(3_000) {
            let (action, body) = Self.realtimeBodies[generator.below(Self.realtimeBodies.count)]
            let bytes = text(mutated(utf8(body), &generator))
            let usual = RealtimeMessage.parse("{\"t\":\"d\",\"d\":{\"r\":1,\"a\":\"\(action)\",\"b\":\(bytes)}}")
            let turned = RealtimeMessage.parse("{\"d\":{\"b\":\(bytes),\"a\":\"\(action)\",\"r\":1},\"t\":\"d\"}")
            switch (usual, turned) {
            case (.success(.request(let one)), .success(.request(let other))):
                understood += 1
                if one.action.summary != other.action.summary { Issue.record("\(bytes)") }
            case (.failure, _), (_, .failure):
                // A body that closes the envelope early may leave either order broken.
                break
            default: Issue.record("\(bytes)")
            }
            _ = RealtimeMessage.parse(text(mutated(utf8("{\"t\":\"d\",\"d\":{\"r\":1,\"a\":\"\(action)\",\"b\":\(body)}}"), &generator)))
        }
        #expect(understood > fuzzRounds(3_000) / 10)
    }

    static let realtimeBodies = [
        ("p", "{\"p\":\"/a/b\",\"d\":{\"x\":[1,-2.5e3,null],\".priority\":\"p\"},\"h\":\"\"}"),
        ("m", "{\"d\":{\"a/b\":{\".sv\":\"timestamp\"},\"c\":{\".sv\":{\"increment\":1}}},\"p\":\"/\"}"),
        ("q", "{\"p\":\"/k\",\"q\":{\"sp\":null,\"sn\":\"[MIN_NAME]\",\"l\":2,\"vf\":\"r\",\"i\":\"a/b\"},\"t\":1,\"h\":\"\"}"),
        ("gauth", "{\"cred\":\"own\\u00e9r\\n\",\"authvar\":{\"uid\":\"x\",\"t\":{\"a.b\":true}}}"),
    ]

    @Test func realtimeAssembler_survives_mutatedTexts() {
        var generator = SeededGenerator(seed: 13)
        let texts = ["0", "2", "3", "00", "{\"t\":\"d\",\"d\":{\"r\":5,\"a\":\"s\"}}", "999999", "", "x", String(repeating: "y", count: 90)]
        for _ in 0..<fuzzRounds(4_000) {
            let sequence = (0..<generator.below(12)).map { _ in text(mutated(utf8(texts[generator.below(texts.count)]), &generator)) }
            for case .message(let message) in RealtimeAssembler.hear(sequence, limit: 100) where message.utf8.count > 100 {
                Issue.record("\(sequence)")
            }
        }
    }

    @Test func observeParsers_survive_mutatedMessages() {
        var generator = SeededGenerator(seed: 17)
        let requests = ObserveProtocolTests.requests.map { utf8($0.0) }
        let messages = ObserveProtocolTests.events.map { ObservePrefixed.bytes($0.0) } + [ObserveReply.ok(1, ObserveSuccess(seq: 1, value: 2, key: "k"))]
        for _ in 0..<fuzzRounds(4_000) {
            let bytes = mutated(requests[generator.below(requests.count)], &generator)
            if case .success(let request) = ObserveProtocolTests.parse(text(bytes)) {
                // What we understand we can say again.
                guard case .invalid = request.operation else {
                    let again = ObserveProtocolTests.parse(text(request.encoded()))
                    if again != .success(request) { Issue.record("\(text(bytes))") }
                    continue
                }
            }
            _ = ObserveProtocolTests.read(mutated(messages[generator.below(messages.count)], &generator))
        }
    }
}

private enum ObservePrefixed {
    static func bytes(_ event: ObserveEvent) -> [UInt8] { ObservePush.prefix(sub: 1) + ObservePush(event, seq: 2).rest }
}
