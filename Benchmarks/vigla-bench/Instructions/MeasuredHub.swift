import DispatchNet
import Glibc
import HubEngine
import HubServer
import Journal
import Logging
import Scheduling
import SecurityRules

/// An in-memory hub in this process, with one loop.
final class MeasuredHub {
    private let server: Server
    var port: UInt16 { server.port }

    init() throws {
        var settings = ServerSettings()
        settings.port = 0
        settings.loops = 1
        settings.namespace = "bench"
        settings.rules = try RuleSet(parsing: """
            {"rules": {
              "bench": {".read": true, "$place": {".write": "newData.isString()", ".validate": "newData.val().length < 1000"}},
              "posts": {".read": true, ".write": true, ".indexOn": ["at"]}
            }}
            """)
        // Sleeping and waking up depend on the machine's load, so avoid them.
        settings.limits.net.stayAwakeMs = 600_000
        // Slow requests do too: after one, the next requests would run on the database's queue.
        settings.limits.engine.directMs = 600_000
        let logger = Logger(label: "bench") { _ in SwiftLogNoOpLogHandler() }
        server = try Server(settings, scheduler: .system(), logger: logger) { () throws(JournalError) in MemoryStorage() }
    }

    deinit { server.stop {} }

    /// A client after the hello.
    func realtime() throws -> MeasuredPeer {
        let peer = try MeasuredPeer(port: port)
        try peer.upgrade(Realtime.target, port: port)
        _ = try peer.frame()
        return peer
    }
}

/// A client that does as little as possible: it sends the given bytes and, once it knows the length of an answer, reads exactly that.
final class MeasuredPeer {
    private let fd: Int32
    private var buffer = [UInt8](repeating: 0, count: 64 << 10)

    init(port: UInt16) throws {
        fd = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        guard fd >= 0 else { throw BenchError.system("socket", errno: errno) }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
        let size = socklen_t(MemoryLayout<sockaddr_in>.size)
        let result = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { Glibc.connect(fd, $0, size) }
        }
        guard result == 0 else { throw BenchError.system("connect", errno: errno) }
        var on: Int32 = 1
        setsockopt(fd, Int32(IPPROTO_TCP), TCP_NODELAY, &on, socklen_t(MemoryLayout<Int32>.size))
    }

    deinit { close(fd) }

    /// A frame with a request, which is answered under number 2.
    static func request(_ action: String, _ body: String) -> [UInt8] {
        WebSocketBytes.masked(#"{"t":"d","d":{"r":2,"a":"\#(action)","b":\#(body)}}"#)
    }

    func send(_ bytes: [UInt8]) throws {
        var sent = 0
        while sent < bytes.count {
            let count = bytes.withUnsafeBytes { bytes in
                bytes.baseAddress.map { Glibc.send(fd, $0 + sent, bytes.count - sent, Int32(MSG_NOSIGNAL)) } ?? 0
            }
            guard count > 0 else { throw BenchError.system("send", errno: errno) }
            sent += count
        }
    }

    /// Passes received bytes to `body` until the other side closes.
    /// - Returns: the total number of bytes.
    func readToEnd(_ body: (ArraySlice<UInt8>) -> Void) throws -> Int {
        if buffer.count < 1 << 20 { buffer = [UInt8](repeating: 0, count: 1 << 20) }
        var bytes = 0
        while true {
            let count = recv(fd, &buffer, buffer.count, 0)
            guard count >= 0 else { throw BenchError.system("recv", errno: errno) }
            if count == 0 { return bytes }
            bytes += count
            body(buffer[..<count])
        }
    }

    /// Reads this many bytes and drops them.
    func pass(_ count: Int) throws {
        if count > buffer.count { buffer = [UInt8](repeating: 0, count: count) }
        guard recv(fd, &buffer, count, Int32(MSG_WAITALL)) == count else { throw BenchError.connectionLost("of the measured hub") }
    }

    private func read(_ count: Int) throws -> [UInt8] {
        try pass(count)
        return Array(buffer[..<count])
    }

    func upgrade(_ target: String, port: UInt16) throws {
        try send(WebSocketBytes.upgradeRequest(target, port: port))
        var head: [UInt8] = []
        while head.suffix(4) != [13, 10, 13, 10] { head += try read(1) }
        guard head.starts(with: "HTTP/1.1 101 ".utf8) else { throw BenchError.unexpected(String(decoding: head, as: UTF8.self)) }
    }

    /// The next frame with its header.
    func frame() throws -> [UInt8] {
        let head = try read(2)
        guard head[0] == 0x81, head[1] < 127 else { throw BenchError.unexpected("a frame \(head)") }
        if head[1] < 126 { return head + (try read(Int(head[1]))) }
        let length = try read(2)
        return head + length + (try read(Int(length[0]) << 8 | Int(length[1])))
    }

    /// Reads frames up to the answer of a request.
    /// - Returns: bytes of all of them.
    @discardableResult
    func awaitAnswer() throws -> Int {
        var bytes = 0
        while true {
            let frame = try frame()
            bytes += frame.count
            let text = String(decoding: frame, as: UTF8.self)
            guard text.contains(#""r":2,"#) else { continue }
            guard text.contains(#""s":"ok""#) else { throw BenchError.unexpected(text) }
            return bytes
        }
    }

    func ask(_ action: String, _ body: String) throws {
        try send(Self.request(action, body))
        try awaitAnswer()
    }
}
