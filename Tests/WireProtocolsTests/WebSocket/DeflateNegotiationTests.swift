import HTTPTypes
import Testing
@testable import WireProtocols

/// RFC 7692 §5 and §7.1.
@Suite(.timeLimit(.minutes(30))) struct DeflateNegotiationTests {
    private static func settings(_ change: (inout DeflateSettings) -> Void = { _ in }) -> DeflateSettings {
        var settings = DeflateSettings()
        settings.takesOverContext = true
        change(&settings)
        return settings
    }

    /// A server's answer to Sec-WebSocket-Extensions fields; nil for none, "400" for a refused handshake.
    private static func answer(_ offers: String..., settings: DeflateSettings = settings()) -> String? {
        var fields = HTTPFields()
        for offer in offers { fields.append(HTTPField(name: .secWebSocketExtensions, value: offer)) }
        guard let list = WebSocketExtension.list(fields) else { return "400" }
        return DeflateNegotiation.answer(list, settings)?.response.text
    }

    @Test func offers_areAnswered_asAskedFor() {
        let cases = [
            ("permessage-deflate", "permessage-deflate"),
            ("permessage-deflate; client_max_window_bits", "permessage-deflate"),
            ("permessage-deflate; server_no_context_takeover", "permessage-deflate; server_no_context_takeover"),
            ("permessage-deflate;client_no_context_takeover", "permessage-deflate; client_no_context_takeover"),
            ("permessage-deflate; server_max_window_bits=10", "permessage-deflate; server_max_window_bits=10"),
            ("permessage-deflate; server_max_window_bits=15", "permessage-deflate; server_max_window_bits=15"),
            ("permessage-deflate; server_max_window_bits=8", "permessage-deflate; server_max_window_bits=8"),
            ("permessage-deflate; client_max_window_bits=12", "permessage-deflate; client_max_window_bits=12"),
            (#"permessage-deflate ; server_max_window_bits = "9" "#, "permessage-deflate; server_max_window_bits=9"),
            (#"permessage-deflate; server_max_window_bits="1\0""#, "permessage-deflate; server_max_window_bits=10"),
            (", ,permessage-deflate,", "permessage-deflate"),
        ]
        for (offer, answer) in cases { #expect(Self.answer(offer) == answer, "\(offer)") }
    }

    @Test func offers_thatAreNotUnderstood_areDeclined() {
        let cases = [
            "", "x-webkit-deflate-frame", "permessage-bzip2", "permessage-deflate; unknown", "permessage-deflate; server_max_window_bits",
            "permessage-deflate; server_max_window_bits=7", "permessage-deflate; server_max_window_bits=16",
            "permessage-deflate; server_max_window_bits=08", "permessage-deflate; server_max_window_bits=+9",
            "permessage-deflate; client_max_window_bits=1000", "permessage-deflate; server_no_context_takeover=true",
            "permessage-deflate; client_no_context_takeover=1",
            "permessage-deflate; client_no_context_takeover; client_no_context_takeover",
            "permessage-deflate; server_max_window_bits=9; server_max_window_bits=9", "PERMESSAGE-DEFLATE",
        ]
        for offer in cases { #expect(Self.answer(offer) == nil, "\(offer)") }
    }

    @Test func firstOffer_thatCanBeMet_isTaken() {
        let offers = "permessage-bzip2, permessage-deflate; server_max_window_bits=99, permessage-deflate; server_max_window_bits=10, "
            + "permessage-deflate"
        #expect(Self.answer(offers) == "permessage-deflate; server_max_window_bits=10")
        #expect(Self.answer(
            "foo; a=b", "permessage-deflate; what",
            "permessage-deflate; client_no_context_takeover") == "permessage-deflate; client_no_context_takeover")
    }

    /// RFC 6455 §9.1: a value outside the grammar fails the connection.
    @Test func malformedFields_failTheHandshake() {
        let cases = [
            ";", "permessage-deflate;", "permessage-deflate; =1", "permessage-deflate; a=", "permessage-deflate a",
            "permessage-deflate; a=\"",
            "permessage-deflate; a=\"\"", "permessage-deflate; a=\"b c\"", "permessage-deflate; a=\"b\\", "permessage-deflate; a b", "a/b",
            "permessage-deflate=1",
        ]
        for offer in cases { #expect(Self.answer(offer) == "400", "\(offer)") }
    }

    @Test func settings_boundWhatIsAgreed() {
        let alone = Self.settings { $0.takesOverContext = false }
        #expect(Self.answer(
            "permessage-deflate", settings: alone) == "permessage-deflate; server_no_context_takeover; client_no_context_takeover")
        let small = Self.settings { $0.windowBits = 10 }
        #expect(Self.answer("permessage-deflate", settings: small) == "permessage-deflate; server_max_window_bits=10")
        #expect(Self.answer("permessage-deflate; client_max_window_bits", settings: small)
            == "permessage-deflate; server_max_window_bits=10; client_max_window_bits=10")
        #expect(Self.answer("permessage-deflate; client_max_window_bits=9; server_max_window_bits=12", settings: small)
            == "permessage-deflate; server_max_window_bits=10; client_max_window_bits=9")
    }

    private static func check(_ answer: String, _ settings: DeflateSettings?) throws(WebSocketHandshake.Refusal) -> DeflateAgreement? {
        guard let list = WebSocketExtension.list([.secWebSocketExtensions: answer]) else { throw .negotiation }
        return try DeflateNegotiation.check(list, settings)
    }

    @Test func client_refusesAnswers_thatItDidNotAskFor() throws {
        let wide = Self.settings(), small = Self.settings { $0.windowBits = 10 }
        #expect(try Self.check("", wide) == nil)
        #expect(try Self.check("permessage-deflate", wide) == DeflateAgreement())
        let narrowed = try Self.check("permessage-deflate; client_max_window_bits=9; server_no_context_takeover", wide)
        #expect(narrowed == DeflateAgreement(server: .init(takesOverContext: false), client: .init(windowBits: 9)))
        let refused: [(String, DeflateSettings?)] = [
            ("permessage-deflate", nil), ("other", wide), ("permessage-deflate, permessage-deflate", wide),
            ("permessage-deflate; odd", wide),
            ("permessage-deflate; client_max_window_bits", wide), ("permessage-deflate; server_max_window_bits=7", wide),
            ("permessage-deflate", small), ("permessage-deflate; server_max_window_bits=11", small),
            ("permessage-deflate; server_max_window_bits=10; client_max_window_bits=11", small), ("permessage-deflate;", wide),
            ("permessage-deflate", Self.settings { $0.takesOverContext = false }),
        ]
        for (answer, settings) in refused {
            #expect(throws: WebSocketHandshake.Refusal.negotiation, "\(answer)") { try Self.check(answer, settings) }
        }
    }

    @Test func bothEnds_agree_whateverTheirSettings() throws {
        for clientBits in 9...15 {
            for serverBits in 9...15 {
                for (clientTakes, serverTakes) in [(true, true), (true, false), (false, true), (false, false)] {
                    let client = Self.settings { $0.windowBits = clientBits; $0.takesOverContext = clientTakes }
                    let server = Self.settings { $0.windowBits = serverBits; $0.takesOverContext = serverTakes }
                    let made = try #require(DeflateNegotiation.answer([DeflateNegotiation.offer(client)], server))
                    var heard = try #require(try DeflateNegotiation.check([made.response], client))
                    #expect(heard.client.windowBits <= made.agreement.client.windowBits)
                    heard.client.windowBits = made.agreement.client.windowBits
                    #expect(heard == made.agreement)
                }
            }
        }
    }

    @Test func handshake_withoutSettings_takesNoOffer() throws {
        let offer = "Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits\r\n"
        let request = try #require(try HTTPRequestParser.requests([utf8(WebSocketHandshakeTests.request(extra: offer))]).first?.get())
        #expect(try WebSocketHandshake.respond(to: request).get().deflate == nil)
        let accepted = try WebSocketHandshake.respond(to: request, deflate: DeflateSettings()).get()
        #expect(accepted.deflate == DeflateAgreement(server: .init(takesOverContext: false), client: .init(takesOverContext: false)))
        #expect(text(accepted.response).contains(
            "\r\nSec-WebSocket-Extensions: permessage-deflate; server_no_context_takeover; client_no_context_takeover\r\n\r\n"))
    }
}
