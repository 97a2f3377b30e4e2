import Cryptography
public import HTTPTypes
import JSONTree

/// The opening handshake (RFC 6455 §4), for both ends. Never negotiates a subprotocol. The only extension is permessage-deflate (RFC 7692),
/// and only for endpoints that pass settings: the strictest stock clients accept none (contract §1.2).
public enum WebSocketHandshake {
    // MARK: Server

    /// An acceptable request: send `response`, then the connection speaks WebSocket.
    public struct Acceptance: Sendable, Hashable {
        /// The bytes of the `101`.
        public var response: [UInt8]
        /// The negotiated compression; nil for none.
        public var deflate: DeflateAgreement?
    }

    /// The `101` response to `request`, or why it is refused. Clients may write `Upgrade` and `Connection` as token lists in any case; the
    /// response has exactly one token in each.
    /// - Parameter deflate: settings of permessage-deflate; nil declines every offer.
    public static func respond(
        to request: HTTPInboundRequest, deflate: DeflateSettings? = nil
    ) -> Result<Acceptance, HTTPFailure> {
        guard request.method == .get, request.isHTTP11 else { return .failure(.badHandshake(.method)) }
        let fields = request.fields
        guard fields.hasToken("websocket", in: .upgrade), fields.hasToken("upgrade", in: .connection) else {
            return .failure(.badHandshake(.upgrade))
        }
        let versions = fields[values: .secWebSocketVersion]
        guard versions == ["13"] else { return .failure(.unsupportedWebSocketVersion) }
        let keys = fields[values: .secWebSocketKey]
        guard keys.count == 1, Base64.isSixteenBytes(keys[0]) else { return .failure(.badHandshake(.key)) }
        guard let offers = WebSocketExtension.list(fields) else { return .failure(.badHandshake(.extensions)) }
        let chosen = deflate.flatMap { DeflateNegotiation.answer(offers, $0) }
        var head = """
            HTTP/1.1 101 Switching Protocols\r
            Upgrade: websocket\r
            Connection: Upgrade\r
            Sec-WebSocket-Accept: \(accept(for: keys[0]))\r

            """
        if let chosen { head += "Sec-WebSocket-Extensions: \(chosen.response.text)\r\n" }
        return .success(Acceptance(response: Array((head + "\r\n").utf8), deflate: chosen?.agreement))
    }

    /// The value of Sec-WebSocket-Accept for a key (RFC 6455 §4.2.2, step 5.4).
    static func accept(for key: String) -> String {
        Base64.encode(HashFunction.sha1.hash((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").utf8))
    }

    // MARK: Client

    /// A fresh Sec-WebSocket-Key: 16 random bytes in base64 (RFC 6455 §4.1).
    public static func makeKey(using generator: inout some RandomNumberGenerator) -> String {
        Base64.encode((0..<16).map { _ in UInt8.random(in: 0...255, using: &generator) })
    }

    /// The upgrade request for `target` (path and query, already percent-encoded) at `host` (`host[:port]`). `fields` are sent unchanged. With
    /// `deflate`, the request offers compression.
    public static func request(
        host: String, target: String, key: String, deflate: DeflateSettings? = nil, fields: HTTPFields = [:]
    ) -> [UInt8] {
        var head = """
            GET \(target) HTTP/1.1\r
            Host: \(host)\r
            Upgrade: websocket\r
            Connection: Upgrade\r
            Sec-WebSocket-Key: \(key)\r
            Sec-WebSocket-Version: 13\r

            """
        if let deflate { head += "Sec-WebSocket-Extensions: \(DeflateNegotiation.offer(deflate).text)\r\n" }
        for field in fields { head += "\(field.name.rawName): \(field.value)\r\n" }
        return Array((head + "\r\n").utf8)
    }

    /// Why a server's response is not the requested `101` (RFC 6455 §4.1).
    public enum Refusal: Error, Sendable, Hashable {
        /// Another status: the server does not want to upgrade.
        case status(Int)
        /// Upgrade or Connection are missing or name something else.
        case upgrade
        /// Sec-WebSocket-Accept is missing or does not match the key.
        case accept
        /// The server chose an extension or subprotocol that was not offered, or other parameters.
        case negotiation
    }

    /// Checks the response to `request`; after success the connection speaks WebSocket.
    /// - Parameter deflate: the settings that the request offered.
    /// - Returns: the negotiated compression; nil for none.
    @discardableResult
    public static func check(
        _ response: HTTPInboundResponse, key: String, deflate: DeflateSettings? = nil
    ) throws(Refusal) -> DeflateAgreement? {
        guard response.status.code == 101 else { throw .status(response.status.code) }
        let fields = response.fields
        guard fields.hasToken("websocket", in: .upgrade), fields.hasToken("upgrade", in: .connection) else {
            throw .upgrade
        }
        guard fields[values: .secWebSocketAccept] == [accept(for: key)] else { throw .accept }
        guard fields[.secWebSocketProtocol] == nil, let chosen = WebSocketExtension.list(fields) else { throw .negotiation }
        return try DeflateNegotiation.check(chosen, deflate)
    }
}

extension Base64 {
    /// Whether `text` is 16 bytes in padded base64: 22 letters of the alphabet and `==`.
    static func isSixteenBytes(_ text: String) -> Bool {
        let letters = Array(text.utf8)
        return letters.count == 24 && letters[22...].allSatisfy { $0 == UInt8(ascii: "=") }
            && letters[..<22].allSatisfy { letter in
                switch letter {
                case UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "0")...UInt8(ascii: "9"),
                    UInt8(ascii: "+"), UInt8(ascii: "/"):
                    true
                default: false
                }
            }
    }
}
