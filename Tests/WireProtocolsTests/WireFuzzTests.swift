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
}
