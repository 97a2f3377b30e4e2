/// The client's half of RFC 6455 for a load generator: text frames under 64 KiB, a fixed key and a fixed mask.
enum WebSocketBytes {
    /// The sample key of RFC 6455 §1.3, and the answer that a server must give to it.
    static let accept = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="

    static func upgradeRequest(_ target: String, port: UInt16) -> [UInt8] {
        Array("""
            GET \(target) HTTP/1.1\r
            Host: 127.0.0.1:\(port)\r
            Upgrade: websocket\r
            Connection: Upgrade\r
            Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r
            Sec-WebSocket-Version: 13\r
            \r\n
            """.utf8)
    }

    private static let mask: [UInt8] = [0x12, 0xA4, 0x5F, 0x78]

    static func appendMasked(_ payload: [UInt8], opcode: UInt8 = 1, to out: inout [UInt8]) {
        out.append(0x80 | opcode)
        if payload.count < 126 {
            out.append(0x80 | UInt8(payload.count))
        } else {
            out.append(0x80 | 126)
            out.append(UInt8(truncatingIfNeeded: payload.count >> 8))
            out.append(UInt8(truncatingIfNeeded: payload.count))
        }
        out += mask
        for (i, byte) in payload.enumerated() { out.append(byte ^ mask[i & 3]) }
    }

    static func masked(_ text: String) -> [UInt8] {
        var out: [UInt8] = []
        appendMasked(Array(text.utf8), to: &out)
        return out
    }
}
