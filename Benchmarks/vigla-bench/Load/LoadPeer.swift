import CLinux
import Glibc

/// One client connection of the load generator.
final class LoadPeer {
    let index: Int
    let fd: Int32
    private(set) var isUpgraded = false
    /// The sequence number of the last message received or sent, depending on the load.
    var sequence = 0
    var sentNs: UInt64 = 0
    /// Nil without TLS.
    var session: LoadTLS.Session?
    /// Bytes of an unfinished frame.
    private var held: [UInt8] = []

    init(index: Int, fd: Int32) {
        self.index = index
        self.fd = fd
    }

    /// Sends all bytes, waiting until the socket accepts them.
    func send(_ bytes: [UInt8]) throws { try sendRaw(session?.encrypt(bytes) ?? bytes) }

    func sendRaw(_ bytes: [UInt8]) throws {
        var sent = 0
        while sent < bytes.count {
            let count = bytes.withUnsafeBytes {
                Glibc.send(fd, $0.baseAddress.map { $0 + sent }, bytes.count - sent, Int32(MSG_NOSIGNAL))
            }
            if count > 0 {
                sent += count
            } else if errno == EAGAIN {
                var wait = pollfd(fd: fd, events: Int16(POLLOUT), revents: 0)
                guard poll(&wait, 1, 20_000) == 1 else { throw BenchError.incomplete("the server reads no more") }
            } else if errno != EINTR {
                throw BenchError.connectionLost("send, errno \(errno)")
            }
        }
    }

    func receive(_ bytes: UnsafeRawBufferPointer, _ body: (UnsafeRawBufferPointer) throws -> Void) throws {
        if held.isEmpty {
            let taken = try consume(bytes, body)
            if taken < bytes.count { held = Array(bytes[taken...]) }
        } else {
            held += bytes
            let joined = held
            let taken = try joined.withUnsafeBytes { try consume($0, body) }
            held.removeFirst(taken)
        }
    }

    /// Passes the complete frames at the beginning to `body` and returns their length.
    private func consume(_ bytes: UnsafeRawBufferPointer, _ body: (UnsafeRawBufferPointer) throws -> Void) throws -> Int {
        var at = 0
        if !isUpgraded {
            guard let end = Self.endOfHead(bytes) else { return 0 }
            let head = String(decoding: bytes[..<end], as: UTF8.self)
            guard head.hasPrefix("HTTP/1.1 101 "), head.contains(WebSocketBytes.accept) else {
                throw BenchError.unexpected(head)
            }
            isUpgraded = true
            at = end
        }
        while bytes.count - at >= 2 {
            var length = Int(bytes[at + 1])
            var header = 2
            guard length & 0x80 == 0 else { throw BenchError.unexpected("a masked frame from the server") }
            if length == 126 {
                guard bytes.count - at >= 4 else { break }
                length = Int(bytes[at + 2]) << 8 | Int(bytes[at + 3])
                header = 4
            } else if length == 127 {
                guard bytes.count - at >= 10 else { break }
                length = (2..<10).reduce(0) { $0 << 8 | Int(bytes[at + $1]) }
                header = 10
            }
            guard bytes.count - at >= header + length else { break }
            let payload = UnsafeRawBufferPointer(rebasing: bytes[(at + header)..<(at + header + length)])
            switch bytes[at] {
            case 0x81: try body(payload)
            case 0x89:
                var pong: [UInt8] = []
                WebSocketBytes.appendMasked(Array(payload), opcode: 10, to: &pong)
                try send(pong)
            case 0x8A: break
            default: throw BenchError.unexpected("frame type \(bytes[at])")
            }
            at += header + length
        }
        return at
    }

    private static func endOfHead(_ bytes: UnsafeRawBufferPointer) -> Int? {
        guard bytes.count >= 4 else { return nil }
        for i in 0...(bytes.count - 4)
        where bytes[i] == 13 && bytes[i + 1] == 10 && bytes[i + 2] == 13 && bytes[i + 3] == 10 { return i + 4 }
        return nil
    }
}
