import Foundation
import JSONTree
import TestSupport

/// A minimal realtime client on a blocking socket that shares no code with the hub. Used by one thread.
final class RealtimeSocket {
    struct Lost: Error {}
    struct Answer {
        let number: Int64
        /// `ok`, or the reason for the refusal.
        let status: String
        /// The text of a refusal.
        let text: String
        let value: Node
    }

    /// Data pushed by the hub, in order: the place and the value.
    private(set) var pushes: [(path: String, value: Node)] = []
    private let descriptor: Int32
    private var buffer: [UInt8] = []
    private var number: Int64 = 0

    /// Returns when the hub has sent its hello.
    init(url: String) throws {
        // A hub that is silent for this long hangs, and the test should not.
        let isConnected: Bool
        (descriptor, isConnected) = Loopback.connect(port: url.split(separator: ":").last.flatMap { UInt16($0) } ?? 0, patienceSeconds: 60)
        guard isConnected else { throw Lost() }
        try write(Array(("GET /.ws?v=5 HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: "
            + "13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n").utf8))
        let end = Array("\r\n\r\n".utf8)
        while true {
            if let at = buffer.indices.dropLast(3).first(where: { buffer[$0...].starts(with: end) }) {
                buffer.removeFirst(at + 4)
                break
            }
            try fill()
        }
        _ = try message()
    }

    deinit { close(descriptor) }

    /// The hub sees the end; nothing can be sent or received any more.
    func end() { shutdown(descriptor, Int32(SHUT_RDWR)) }

    /// - Parameters:
    ///   - action: `p`, `m`, `g`, `o`, `oc`, … (contract §2.3).
    ///   - body: the members after the path, such as `,"d":1`.
    /// - Returns: the request's number.
    func send(_ action: String, _ path: String, _ body: String = "") throws -> Int64 {
        number += 1
        let text = Array("{\"t\":\"d\",\"d\":{\"r\":\(number),\"a\":\"\(action)\",\"b\":{\"p\":\"\(path)\"\(body)}}}".utf8)
        var frame: [UInt8] = [0x81]
        if text.count < 126 {
            frame.append(0x80 | UInt8(text.count))
        } else if text.count < 1 << 16 {
            frame += [0x80 | 126, UInt8(text.count >> 8), UInt8(text.count & 255)]
        } else {
            frame.append(0x80 | 127)
            for shift in stride(from: 56, through: 0, by: -8) { frame.append(UInt8(truncatingIfNeeded: text.count >> shift)) }
        }
        // A zero mask changes nothing.
        try write(frame + [0, 0, 0, 0] + text)
        return number
    }

    /// The next answer; messages before it are added to `pushes`.
    func answer() throws -> Answer {
        while true {
            let root = try message()
            let data = root.child("d")
            let body = data.child("b")
            guard case .int(let number) = data.child("r") else {
                if case .string(let path) = body.child("p") { pushes.append((path.string, body.child("d"))) }
                continue
            }
            guard case .string(let status) = body.child("s") else { throw Lost() }
            var text = ""
            if case .string(let said) = body.child("d") { text = said.string }
            return Answer(number: number, status: status.string, text: text, value: body.child("d"))
        }
    }

    /// Sends a request and waits for the answer.
    func ask(_ action: String, _ path: String, _ body: String = "") throws -> Answer {
        let number = try send(action, path, body)
        while true {
            let answer = try answer()
            if answer.number == number { return answer }
        }
    }

    /// The next message; a long one comes in parts after their count. Values of tests contain only names that a tree can hold.
    private func message() throws -> Node {
        var text = try frame()
        if let parts = Int(text) {
            text = ""
            for _ in 0..<parts { text += try frame() }
        }
        guard let node = try? Node(json: text) else { throw Lost() }
        return node
    }

    /// The next text frame.
    private func frame() throws -> String {
        while true {
            while buffer.count < 2 { try fill() }
            var length = Int(buffer[1] & 0x7F)
            var start = 2
            if length >= 126 {
                let count = length == 126 ? 2 : 8
                while buffer.count < 2 + count { try fill() }
                length = buffer[2..<(2 + count)].reduce(0) { $0 << 8 | Int($1) }
                start += count
            }
            while buffer.count < start + length { try fill() }
            let opcode = buffer[0] & 0x0F
            let text = String(decoding: buffer[start..<(start + length)], as: UTF8.self)
            buffer.removeFirst(start + length)
            if opcode == 8 { throw Lost() }
            if opcode == 1 { return text }
        }
    }

    private func fill() throws {
        var bytes = [UInt8](repeating: 0, count: 16 << 10)
        let count = recv(descriptor, &bytes, bytes.count, 0)
        guard count > 0 else { throw Lost() }
        buffer += bytes[..<count]
    }

    private func write(_ bytes: [UInt8]) throws {
        guard Loopback.send(bytes, to: descriptor) else { throw Lost() }
    }
}
