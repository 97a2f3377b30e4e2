import HTTPTypes
import Testing
import TestSupport
@testable import WireProtocols

@Suite(.timeLimit(.fuzzing)) struct WebSocketFuzzTests {
    private static let limit = 2_000

    @Test func frames() throws {
        try Fuzzing(name: "frames", count: 500, make: { Self.conversation(&$0, compressing: nil) }).run { bytes, generator in
            for role in [WebSocketDecoder.Role.server, .client] {
                if let fault = Self.fault(bytes, role, nil, &generator) { return fault }
            }
            return nil
        }
    }

    @Test func deflate() throws {
        let fuzzing = Fuzzing(name: "deflate", count: 500, make: { Self.conversation(&$0, compressing: Self.compressed(&$0)) })
        try fuzzing.run { bytes, generator in
            let direction = DeflateAgreement.Direction(windowBits: 8 + generator.below(8), takesOverContext: generator.below(2) == 0)
            let agreement = DeflateAgreement(server: direction, client: direction)
            if let fault = Self.fault(bytes, .server, agreement, &generator) { return fault }
            return Self.identityFault(bytes, agreement, &generator)
        }
    }

    @Test func extensions() throws {
        let tokens = [
            "permessage-deflate", "server_no_context_takeover", "client_no_context_takeover", "server_max_window_bits",
            "client_max_window_bits", "=8", "=15",
            "=\"9\"", "=016", "; ", ", ", "\\", "\"", "\t",
        ]
        try Fuzzing(name: "extensions", tokens: tokens).run { bytes, generator in
            guard let list = WebSocketExtension.list([.secWebSocketExtensions: text(bytes.filter(\.isFieldContent))]) else { return nil }
            let again = list.map(\.text).joined(separator: ", ")
            if WebSocketExtension.list([.secWebSocketExtensions: again]) != list { return "another list when written again" }
            var settings = DeflateSettings()
            settings.takesOverContext = generator.below(2) == 0
            settings.windowBits = generator.below(20)
            guard let (response, agreement) = DeflateNegotiation.answer(list, settings) else { return nil }
            guard let parameters = DeflateParameters(response), parameters.clientWindow != .open else { return "the answer is none" }
            if parameters.serverNoContextTakeover == agreement.server.takesOverContext { return "not what was answered" }
            if (parameters.serverWindowBits ?? 15) != agreement.server.windowBits { return "not the window that was answered" }
            guard let offer = list.lazy.compactMap({ DeflateParameters($0) }).first else { return "nothing was offered" }
            if offer.serverNoContextTakeover, agreement.server.takesOverContext { return "takes over what it must not" }
            if agreement.server.windowBits > offer.serverWindowBits ?? 15 { return "a window larger than allowed" }
            if parameters.clientWindow != nil, offer.clientWindow == nil { return "a window for a client that has none" }
            return nil
        }
    }

    // MARK: Invariants

    private static func fault(
        _ bytes: [UInt8], _ role: WebSocketDecoder.Role, _ deflate: DeflateAgreement?, _ generator: inout SeededRandom
    ) -> String? {
        var mostHeld = 0
        func hear(_ pieces: [[UInt8]]) -> [HeardEvent] {
            var decoder = WebSocketDecoder(role: role, maxMessageBytes: limit, deflate: deflate)
            var heard: [HeardEvent] = []
            for piece in pieces {
                heard += decoder.hear(piece)
                mostHeld = max(mostHeld, decoder.bufferedBytes)
            }
            return heard
        }
        let whole = hear([bytes])
        for pieces in [randomPieces(bytes, &generator), bytes.map { [$0] }] {
            let heard = hear(pieces)
            if heard != whole { return "in pieces \(heard), whole \(whole)" }
        }
        if mostHeld > limit + 125 + 14 { return "held \(mostHeld) bytes" }
        for (index, event) in whole.enumerated() {
            switch event {
            case .text(let payload), .binary(let payload):
                if payload.count > limit { return "message over the limit" }
                if case .text = event, !payload.withUnsafeBytes({ UTF8Validator.isValid($0) }) { return "text is not UTF-8" }
                if WebSocketDecoder.hear([WebSocketFrame.binary(payload)], role: .client) != [.binary(payload)] {
                    return "another message when sent again"
                }
            case .ping(let payload), .pong(let payload): if payload.count > 125 { return "long control frame" }
            case .close(let code, let reason):
                if let code, !WebSocketCloseCode.maySend(code) { return "impossible code" }
                if !reason.withUnsafeBytes({ UTF8Validator.isValid($0) }) { return "reason is not UTF-8" }
                if index < whole.count - 1 { return "something after the end" }
            case .failure(let error):
                if index < whole.count - 1 { return "something after the end" }
                if WebSocketDecoder.hear([WebSocketFrame.close(error)], role: .client) != [.close(error.closeCode, utf8(error.reason))] {
                    return "a bad answer"
                }
            }
        }
        return nil
    }

    /// Compressed messages inflate to the same bytes, message after message, with anything between them.
    private static func identityFault(_ bytes: [UInt8], _ agreement: DeflateAgreement, _ generator: inout SeededRandom) -> String? {
        var settings = DeflateSettings()
        settings.thresholdBytes = 1 + generator.below(40)
        settings.level = 1 + generator.below(9)
        settings.memoryLevel = 1 + generator.below(9)
        let encoder = WebSocketEncoder(agreement.server, settings: settings)
        var decoder = WebSocketDecoder(role: .client, maxMessageBytes: 1 << 16, deflate: agreement)
        for _ in 0..<3 {
            let start = generator.below(bytes.count + 1)
            let payload = Array(bytes[start...].prefix(generator.below(3_000)))
            let frame = payload.withUnsafeBytes { encoder.frame(.binary, $0) }
            if frame.count > WebSocketFrame.binary(payload).count { return "compressed to more" }
            if randomPieces(frame, &generator).flatMap({ decoder.hear($0) }) != [.binary(payload)] {
                return "another message after inflating"
            }
            if generator.below(8) == 0 { encoder.release() }
        }
        return nil
    }

    // MARK: Inputs

    /// A sequence of frames, most of them legal, some of one message.
    private static func conversation(_ generator: inout SeededRandom, compressing compressed: [UInt8]?) -> [UInt8] {
        var bytes: [UInt8] = []
        var isOpen = false
        for _ in 0...generator.below(6) {
            var payload = (0..<[0, 1, 5, 125, 126, 300, limit, limit + 1][generator.below(8)]).map { UInt8(0x20 + $0 % 90) }
            if generator.below(3) == 0 { payload += Array("aä€😀".utf8).prefix(generator.below(10)) }
            let isFinal = generator.below(3) > 0
            switch generator.below(8) {
            case 0: bytes += clientFrame([8, 9, 10][generator.below(3)], Array(payload.prefix(generator.below(127))))
            case 1: bytes += clientFrame(UInt8(generator.below(16)), payload, fin: isFinal, rsv: UInt8(generator.below(8)))
            default:
                var rsv: UInt8 = 0
                if let compressed, generator.below(3) > 0 {
                    payload = generator.below(4) == 0 ? mutated(compressed, &generator) : compressed
                    if !isFinal || isOpen { payload = Array(payload.prefix(generator.below(payload.count + 1))) }
                    rsv = isOpen ? 0 : 4
                }
                bytes += clientFrame(isOpen ? 0 : UInt8(1 + generator.below(2)), payload, fin: isFinal, rsv: rsv)
                isOpen = !isFinal
            }
        }
        return bytes
    }

    /// A compressed payload, sometimes a long one.
    private static func compressed(_ generator: inout SeededRandom) -> [UInt8] {
        let unit = ["a", "{\"lat\":37.9,\"lng\":23.7}", "ä€😀", "\u{0}"][generator.below(4)]
        let plain = Array(String(repeating: unit, count: 1 + generator.below(generator.below(4) == 0 ? 4_000 : 60)).utf8)
        let direction = DeflateAgreement.Direction(windowBits: 8 + generator.below(8), takesOverContext: false)
        return plain.withUnsafeBytes { Deflater(direction, DeflateSettings()).compress($0) } ?? [0x00]
    }
}
