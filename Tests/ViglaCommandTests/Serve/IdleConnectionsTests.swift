import Foundation
import Testing
import TestSupport
import WireProtocols

/// Ten thousand idle clients on the real program.
@Suite(.timeLimit(.minutes(30))) struct IdleConnectionsTests {
    /// The number of files that a process may open here; the hub accepts 10,000 connections where the system allows it.
    private static func raisedDescriptorLimit() -> Int {
        let kind = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
        var limit = rlimit()
        guard getrlimit(kind, &limit) == 0 else { return 1024 }
        limit.rlim_cur = limit.rlim_max
        setrlimit(kind, &limit)
        return Int(clamping: limit.rlim_cur)
    }

    /// In a separate process: so many open files would disturb tests that start programs. Foundation's `Process` lists them all, and reads past the
    /// end of a long list.
    @Test func tenThousandIdleConnections_stayAndAreServed() async {
        await #expect(processExitsWith: .success) { try Self.serveTenThousand() }
    }

    private static func serveTenThousand() throws {
        let count = min(10_000, raisedDescriptorLimit() - 1_000)
        let hub = try RunningHub(["--port", "0", "--memory", "--dev"])
        let request = Data(WebSocketHandshake.request(host: "localhost", target: "/.ws?v=5&ns=default", key: "dGhlIHNhbXBsZSBub25jZQ=="))
        var sockets: [FileHandle] = []
        for _ in 0..<count {
            let socket = try hub.connection()
            try socket.write(contentsOf: request)
            sockets.append(socket)
        }
        for socket in sockets { try read(until: #""t":"h""#, socket) }

        let metrics = try hub.connection()
        try metrics.write(contentsOf: Data("GET /.metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".utf8))
        let page = String(decoding: try metrics.readToEnd() ?? Data(), as: UTF8.self)
        try #require(page.contains("vigla_sessions{protocol=\"realtime\"} \(count)\n"))

        let ask = WebSocketFrame.text(Array(#"{"t":"d","d":{"r":7,"a":"g","b":{"p":"a","q":{}}}}"#.utf8), mask: WebSocketMask(bigEndian: 1))
        for socket in [sockets[0], sockets[count / 2], sockets[count - 1]] {
            try socket.write(contentsOf: Data(ask))
            try read(until: #""r":7"#, socket)
        }
    }

    /// Reads until a text has arrived.
    private static func read(until text: String, _ socket: FileHandle) throws {
        var seen = Data()
        while seen.range(of: Data(text.utf8)) == nil {
            let more = socket.availableData
            try #require(!more.isEmpty, "the hub has ended a connection")
            seen += more
        }
    }
}
