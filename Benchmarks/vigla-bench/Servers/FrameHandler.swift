import DispatchNet

/// The server side of RFC 6455 as far as the load generator needs it: the same work as the C servers do.
class FrameHandler: ConnectionHandler {
    let connection: Connection
    private var isUpgraded = false
    /// Bytes of an unfinished request or frame.
    private var held: [UInt8] = []

    init(_ connection: Connection) { self.connection = connection }

    /// Called with the first line of the request.
    func upgraded(_ requestLine: String) {}
    /// Called with an unmasked message.
    func message(_ payload: UnsafeRawBufferPointer) {}
    func ended(_ reason: CloseReason) {}

    func received(_ bytes: UnsafeMutableRawBufferPointer) {
        guard held.isEmpty else {
            held += bytes
            var joined = held
            let taken = joined.withUnsafeMutableBytes { consume($0) }
            held.removeFirst(taken)
            return
        }
        let taken = consume(bytes)
        if taken < bytes.count { held = Array(bytes[taken...]) }
    }

    private func consume(_ bytes: UnsafeMutableRawBufferPointer) -> Int {
        var at = 0
        if !isUpgraded {
            let end = bytes.indices.dropLast(3).first {
                bytes[$0] == 13 && bytes[$0 + 1] == 10 && bytes[$0 + 2] == 13 && bytes[$0 + 3] == 10
            }
            guard let end else { return 0 }
            isUpgraded = true
            at = end + 4
            connection.send(Self.answer)
            upgraded(String(decoding: bytes[..<end].prefix { $0 != 13 }, as: UTF8.self))
        }
        while bytes.count - at >= 2 {
            var length = Int(bytes[at + 1] & 0x7F)
            var header = 2
            guard bytes[at + 1] & 0x80 != 0, length != 127, bytes[at] == 0x81 else {
                connection.close(.protocolError(1002))
                return bytes.count
            }
            if length == 126 {
                guard bytes.count - at >= 4 else { break }
                length = Int(bytes[at + 2]) << 8 | Int(bytes[at + 3])
                header = 4
            }
            guard bytes.count - at >= header + 4 + length else { break }
            let start = at + header + 4
            for i in 0..<length { bytes[start + i] ^= bytes[at + header + (i & 3)] }
            message(UnsafeRawBufferPointer(rebasing: bytes[start..<(start + length)]))
            at = start + length
        }
        return at
    }

    private static let answer = Array(
        ("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            + "Sec-WebSocket-Accept: \(WebSocketBytes.accept)\r\n\r\n").utf8)

    /// An unmasked text frame.
    static func frame(_ payload: UnsafeRawBufferPointer) -> [UInt8] {
        [UInt8](unsafeUninitializedCapacity: payload.count + 4) { out, used in
            out[0] = 0x81
            var header = 2
            if payload.count < 126 {
                out[1] = UInt8(payload.count)
            } else {
                out[1] = 126
                out[2] = UInt8(truncatingIfNeeded: payload.count >> 8)
                out[3] = UInt8(truncatingIfNeeded: payload.count)
                header = 4
            }
            if let source = payload.baseAddress {
                UnsafeMutableRawBufferPointer(out).baseAddress?.advanced(by: header)
                    .copyMemory(from: source, byteCount: payload.count)
            }
            used = header + payload.count
        }
    }
}

/// Echoes every message.
final class EchoHandler: FrameHandler {
    override func message(_ payload: UnsafeRawBufferPointer) { connection.send(Self.frame(payload)) }
}

/// Sends every message to all observers, each loop to its own.
final class FanoutHandler: FrameHandler {
    private let audiences: [Audience]

    init(_ connection: Connection, _ audiences: [Audience]) {
        self.audiences = audiences
        super.init(connection)
    }

    override func upgraded(_ requestLine: String) {
        if requestLine.hasPrefix("GET /observe") { audiences[connection.loop.index].join(connection) }
    }

    override func message(_ payload: UnsafeRawBufferPointer) {
        let frame = Self.frame(payload)
        for audience in audiences {
            if audience.loop === connection.loop {
                audience.receive(frame)
            } else {
                audience.loop.execute { audience.receive(frame) }
            }
        }
    }

    override func ended(_ reason: CloseReason) { audiences[connection.loop.index].leave(connection) }
}

/// The observers of one loop.
final class Audience: @unchecked Sendable {
    // because `members` is used on `loop` only.
    let loop: EventLoop
    private var members: [Connection] = []

    init(_ loop: EventLoop) { self.loop = loop }

    func join(_ connection: Connection) { members.append(connection) }
    func leave(_ connection: Connection) { members.removeAll { $0 === connection } }
    func receive(_ frame: [UInt8]) { loop.broadcast(frame, to: members) }
}
