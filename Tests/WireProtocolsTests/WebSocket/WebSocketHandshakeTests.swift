import HTTPTypes
import JSONTree
import Testing
import TestSupport
@testable import WireProtocols

@Suite(.timeLimit(.minutes(30))) struct WebSocketHandshakeTests {
    static func request(
        _ start: String = "GET /.ws?v=5&ns=demo HTTP/1.1", upgrade: String? = "websocket", connection: String? = "Upgrade",
        key: String? = "dGhlIHNhbXBsZSBub25jZQ==", version: String? = "13", extra: String = ""
    ) -> String {
        var head = start + "\r\nHost: localhost:9000\r\n"
        if let upgrade { head += "Upgrade: \(upgrade)\r\n" }
        if let connection { head += "Connection: \(connection)\r\n" }
        if let key { head += "Sec-WebSocket-Key: \(key)\r\n" }
        if let version { head += "Sec-WebSocket-Version: \(version)\r\n" }
        return head + extra + "\r\n"
    }

    static func respond(_ head: String) throws -> Result<String, HTTPFailure> {
        let request = try #require(try HTTPRequestParser.requests([utf8(head)]).first?.get())
        return WebSocketHandshake.respond(to: request).map { text($0.response) }
    }

    static let answer =
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        + "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n"

    @Test func answer_isExact_forTheKeyOfRFC6455_1_3() throws {
        #expect(try Self.respond(Self.request()) == .success(Self.answer))
    }

    @Test func tokenLists_ofAnyCase_areUnderstood() throws {
        for (upgrade, connection) in [
            ("WebSocket", "keep-alive, Upgrade"), ("h2c, WEBSOCKET", "upgrade\t, x"), ("websocket", ",UPGRADE,"),
        ] {
            #expect(try Self.respond(Self.request(upgrade: upgrade, connection: connection)) == .success(Self.answer))
        }
        let twoFields = Self.request(connection: "keep-alive", extra: "Connection: Upgrade\r\n")
        #expect(try Self.respond(twoFields) == .success(Self.answer))
    }

    @Test func offers_ofSubprotocolsAndExtensions_areNotTakenUp() throws {
        let offers = "Sec-WebSocket-Protocol: chat\r\nSec-WebSocket-Extensions: permessage-deflate\r\n"
        #expect(try Self.respond(Self.request(extra: offers)) == .success(Self.answer))
    }

    @Test func wrongHandshakes_areRefused_withTheirStatus() throws {
        let cases: [(String, HTTPFailure, Int)] = [
            (Self.request(upgrade: nil), .badHandshake(.upgrade), 426), (Self.request(upgrade: "h2c"), .badHandshake(.upgrade), 426),
            (Self.request(upgrade: "websockets"), .badHandshake(.upgrade), 426),
            (Self.request(connection: nil), .badHandshake(.upgrade), 426),
            (Self.request(connection: "keep-alive"), .badHandshake(.upgrade), 426),
            (Self.request(version: nil), .unsupportedWebSocketVersion, 426),
            (Self.request(version: "8"), .unsupportedWebSocketVersion, 426),
            (Self.request(key: nil), .badHandshake(.key), 400), (Self.request(key: ""), .badHandshake(.key), 400),
            (Self.request(key: "dGhlIHNhbXBsZSBub25j"), .badHandshake(.key), 400),
            (Self.request(key: "dGhlIHNhbXBsZSBub25jZQ=a"), .badHandshake(.key), 400),
            (Self.request(key: "dGhlIHNhbXBsZSBub25jZ!=="), .badHandshake(.key), 400),
            (Self.request(extra: "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"), .badHandshake(.key), 400),
            (Self.request(extra: "Sec-WebSocket-Extensions: permessage-deflate; =\r\n"), .badHandshake(.extensions), 400),
            (Self.request("POST /.ws HTTP/1.1"), .badHandshake(.method), 400),
            (Self.request("GET /.ws HTTP/1.0"), .badHandshake(.method), 400),
        ]
        for (head, failure, status) in cases {
            #expect(try Self.respond(head) == .failure(failure), "\(head)")
            #expect(failure.status.code == status)
        }
        let refused = text(HTTPResponseEncoder.failure(.unsupportedWebSocketVersion))
        #expect(refused.contains("Sec-WebSocket-Version: 13\r\n"))
    }

    @Test func bytesBehindTheUpgrade_stayWithTheCaller() throws {
        let bytes = utf8(Self.request()) + [0x81, 0x80, 1, 2, 3, 4]
        var parser = HTTPRequestParser()
        let step = bytes.withUnsafeBytes { parser.receive($0) }
        #expect(step.consumed == bytes.count - 6)
    }

    @Test func client_acceptsOurAnswer_andRefusesOthers() throws {
        var generator = SeededRandom(1)
        let key = WebSocketHandshake.makeKey(using: &generator)
        #expect(Base64.isSixteenBytes(key))
        let bytes = WebSocketHandshake.request(
            host: "localhost:9000", target: "/.observe?ns=demo", key: key, fields: [.userAgent: "vigla"])
        let request = try #require(try HTTPRequestParser.requests([bytes]).first?.get())
        #expect(request.host == "localhost:9000")
        #expect(request.fields[.userAgent] == "vigla")
        #expect(request.asksForWebSocket)
        let answer = try WebSocketHandshake.respond(to: request).get().response
        let good = try #require(HTTPResponseParser.responses([answer]).first)
        #expect(throws: Never.self) { try WebSocketHandshake.check(good, key: key) }
        #expect(throws: WebSocketHandshake.Refusal.accept) { try WebSocketHandshake.check(good, key: key.lowercased() + "x") }
        var other = good
        other.status = .notFound
        #expect(throws: WebSocketHandshake.Refusal.status(404)) { try WebSocketHandshake.check(other, key: key) }
        other = good
        other.fields[.upgrade] = nil
        #expect(throws: WebSocketHandshake.Refusal.upgrade) { try WebSocketHandshake.check(other, key: key) }
        other = good
        other.fields[.secWebSocketExtensions] = "permessage-deflate"
        #expect(throws: WebSocketHandshake.Refusal.negotiation) { try WebSocketHandshake.check(other, key: key) }
    }
}
