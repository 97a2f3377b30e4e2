import Dispatch
import DispatchNet
import Glibc
import HTTPTypes
import HubEngine
import SecurityRules
import TestHub
import Testing
import TestSupport
import WireProtocols
@testable import HubServer

/// Peers that are slow on purpose, too many, or half open, and pages of foreign origins.
@Suite(.timeLimit(.minutes(30))) struct HostilePeerTests {
    @Test func slowHeads_manyAtOnce_areEnded_andOthersAreServed() throws {
        let server = try TestServer { $0.limits.requestSeconds = 4 }
        let slow = try (0..<50).map { i in
            let socket = try TestSocket(port: server.port)
            try socket.send(i % 2 == 0 ? "GET /.health HTTP/1.1\r\nX: " : "G")
            return socket
        }
        #expect(try TestSocket(port: server.port).get("/.health").status == 200)
        for socket in slow { #expect(throws: TestSocket.Closed.self) { _ = try socket.response() } }
        #expect(try server.metric(#"vigla_connections_closed_total{reason="request_timeout"}"#) == 50)
    }

    @Test func bodyBelowItsRate_isEnded_aboveItIsRead() throws {
        let server = try TestServer {
            $0.limits.requestSeconds = 4
            $0.limits.bodyBytesPerSecond = 10
        }
        let head = "POST /.health HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n"
        let steady = try TestSocket(port: server.port)
        try steady.send(head)
        // A fast start does not excuse later silence.
        let slow = try TestSocket(port: server.port)
        try slow.send(head + String(repeating: "x", count: 50_000))
        var sent = 0
        while sent < 99_960, try server.metric(#"vigla_connections_closed_total{reason="request_timeout"}"#) == 0 {
            try steady.send(String(repeating: "x", count: 40))
            sent += 40
            usleep(20_000)
        }
        #expect(throws: TestSocket.Closed.self) { _ = try slow.response() }
        #expect(try server.metric(#"vigla_connections_closed_total{reason="request_timeout"}"#) == 1)
        try steady.send(String(repeating: "x", count: 100_000 - sent))
        #expect(try steady.response().status == 200)
    }

    @Test func idleKeepAlive_isEnded_asIdle() throws {
        let server = try TestServer { $0.limits.requestSeconds = 4 }
        let socket = try TestSocket(port: server.port)
        #expect(try socket.get("/.health").status == 200)
        #expect(throws: TestSocket.Closed.self) { _ = try socket.response() }
        #expect(try server.metric(#"vigla_connections_closed_total{reason="idle"}"#) == 1)
    }

    @Test func pipelinedAnswersThatNobodyTakes_areNotMade() throws {
        let folder = try TemporaryWeb(bytes: 1_000_000)
        let server = try TestServer {
            $0.webFolder = folder.path
            $0.limits.net.outboundSoftBytes = 100_000
            $0.limits.net.sendBufferBytes = 8_000
        }
        let socket = try TestSocket(port: server.port, receiveBuffer: 4096)
        try socket.send(String(repeating: "GET /.console/index.html HTTP/1.1\r\nHost: x\r\n\r\n", count: 20))
        #expect(try server.metric("vigla_backlog_bytes") { $0 > 100_000 })
        #expect(try server.metric("vigla_backlog_bytes") < 1_100_000, "one answer, not twenty")
        for _ in 0..<20 { #expect(try socket.response().body.utf8.count == 1_000_000) }
        #expect(try socket.get("/.health").status == 200)
    }

    @Test func answerThatNobodyTakes_endsTheConnection() throws {
        let folder = try TemporaryWeb(bytes: 1_000_000)
        let server = try TestServer {
            $0.webFolder = folder.path
            $0.limits.requestSeconds = 4
            $0.limits.net.sendBufferBytes = 8_000
        }
        let socket = try TestSocket(port: server.port, receiveBuffer: 4096)
        try socket.send("GET /.console/index.html HTTP/1.1\r\nHost: x\r\n\r\n")
        #expect(try server.metric(#"vigla_connections_closed_total{reason="idle"}"#) { $0 == 1 })
    }

    @Test func silentSockets_dieByDeadline() throws {
        let server = try TestServer {
            $0.limits.pingAfterSeconds = 1
            $0.limits.silenceSeconds = 2
        }
        let sockets = try (0..<5).map { _ in try server.realtime().socket }
        for socket in sockets { #expect(throws: TestSocket.Closed.self) { while true { _ = try socket.next() } } }
        #expect(try server.metric(#"vigla_connections_closed_total{reason="idle"}"#) == 5)
        #expect(try server.metric(#"vigla_sessions{protocol="realtime"}"#) == 0)
    }

    @Test func presenceDeadline_isOneSettingOfAllTransports() {
        var limits = ServerLimits()
        func times() -> [Int] {
            [limits.presenceSeconds, limits.silenceSeconds, limits.pingAfterSeconds, limits.longPoll.silenceSeconds, limits.longPoll.holdSeconds]
        }
        #expect(times() == [60, 60, 25, 60, 20])
        limits.presenceSeconds = 600
        #expect(times() == [600, 600, 25, 600, 20])
        limits.presenceSeconds = 10
        #expect(times() == [10, 10, 5, 10, 5], "whoever answers in the second half is not lost")
    }

    @Test func presenceDeadline_losesWhoIsSilent_andNobodyWhoAnswers() throws {
        let server = try TestServer { $0.limits.presenceSeconds = 6 }
        let (silent, alive) = (try server.realtime(), try server.realtime())
        let polling = try LongPollPeer(server)
        let leaves: (String) -> String = { #"{"t":"d","d":{"r":1,"a":"o","b":{"p":"/left/\#($0)","d":true}}}"# }
        try polling.poll(leaves("polling"))
        _ = try polling.messages(1)
        for (peer, name) in [(silent, "silent"), (alive, "alive")] {
            try peer.socket.sendText(leaves(name))
            #expect(try peer.socket.text().contains(#""r":1"#))
        }
        try alive.socket.sendText(#"{"t":"d","d":{"r":2,"a":"q","b":{"p":"/left","h":""}}}"#)
        func nextText() throws -> String {
            while true {
                switch try alive.socket.next() {
                // The keep-alive of the SDKs.
                case .ping: try alive.socket.sendText("0")
                case .text(let text): return text
                case .close: throw TestSocket.Closed()
                }
            }
        }
        var left: [String] = []
        while left.count < 2 {
            let text = try nextText()
            left += ["silent", "polling", "alive"].filter { text.contains($0) }
        }
        #expect(left.sorted() == ["polling", "silent"])
        try alive.socket.sendText(#"{"t":"d","d":{"r":3,"a":"g","b":{"p":"/left"}}}"#)
        #expect(try nextText().contains(#"{"polling":true,"silent":true}"#))
    }

    @Test func manyIdleConnections_stay_andAreServed() throws {
        let server = try TestServer()
        let sockets = try (0..<300).map { _ in try server.realtime().socket }
        #expect(try server.metric(#"vigla_sessions{protocol="realtime"}"#) == 300)
        for socket in sockets {
            try socket.sendText(#"{"t":"d","d":{"r":1,"a":"s","b":{"c":{}}}}"#)
            #expect(try socket.text().contains(#""r":1"#))
        }
    }

    @Test func connectionsOfOneAddress_haveALimit() throws {
        let server = try TestServer {
            $0.limits.admission.countsLoopback = true
            $0.limits.admission.connectionsPerAddress = 3
        }
        let kept = try (0..<2).map { _ in try TestSocket(port: server.port) }
        for socket in kept { #expect(try socket.get("/.health").status == 200) }
        #expect(try server.metric(#"vigla_connections_refused_total{reason="address"}"#) == 0)
        #expect(try kept[0].get("/.health").status == 200)
        let third = try TestSocket(port: server.port)
        var isServed = false
        for _ in 0..<200 where !isServed { isServed = (try? third.get("/.health").status) == 200 }
        let fourth = try TestSocket(port: server.port)
        #expect(throws: TestSocket.Closed.self) { _ = try fourth.get("/.health") }
    }

    @Test func longPollingSessionsOfOneAddress_haveALimit() throws {
        let server = try TestServer {
            $0.limits.admission.countsLoopback = true
            $0.limits.longPoll.sessionsPerAddress = 2
        }
        let first = try LongPollPeer(server)
        _ = try LongPollPeer(server)
        let open = "/.lp?start=t&ser=1&cb=3&v=5&ns=test"
        #expect(try TestSocket(port: server.port).get(open).status == 429)
        #expect(try TestSocket(port: server.port).get("/.lp?disconn=t&\(first.key)").status == 200)
        #expect(try server.metric("vigla_long_polling_sessions") { $0 == 1 })
        #expect(try TestSocket(port: server.port).get(open).status == 200)
    }

    // MARK: Metrics

    @Test func metrics_areForThisMachine_butNotThroughAProxy() throws {
        let server = try TestServer()
        let page = try TestSocket(port: server.port).get("/.metrics")
        #expect(page.status == 200 && page.head.contains("text/plain; version=0.0.4"))
        for name in CloseReason.names.dropFirst() { #expect(page.body.contains(#"vigla_connections_closed_total{reason="\#(name)"} "#)) }
        for field in ["X-Forwarded-For: 10.0.0.1", "X-Forwarded-Host: hub.example", "Forwarded: for=10.0.0.1", "Via: 1.1 proxy"] {
            let socket = try TestSocket(port: server.port)
            try socket.send("GET /.metrics HTTP/1.1\r\nHost: localhost\r\n\(field)\r\n\r\n")
            #expect(try socket.response().status == 404)
        }
        for (host, status) in [("127.0.0.1:9000", 200), ("[::1]:9000", 200), ("hub.example", 404), ("127.0.0.1.evil.example", 404)] {
            #expect(try TestSocket(port: server.port).get("/.metrics", host: host).status == status, "\(host)")
        }
        let closed = try TestServer { $0.metrics = .off }
        #expect(try TestSocket(port: closed.port).get("/.metrics").status == 404)
    }

    // MARK: Origins

    private func request(origin: String?, host: String = "localhost:9000") throws -> HTTPInboundRequest {
        var fields: HTTPFields = [try #require(HTTPField.Name("Host")): host]
        if let origin { fields[.origin] = origin }
        return HTTPInboundRequest(method: .get, target: try HTTPTarget("/.ws"), fields: fields)
    }

    @Test func devOrigins_arePagesOfThisMachine() throws {
        let policy = OriginPolicy(allowed: nil, isDev: true)
        for origin in [
            "http://localhost:3000", "https://localhost", "http://app.localhost:1", "http://127.0.0.1:5173", "http://[::1]:8080", "file://",
            nil,
        ] {
            #expect(policy.permits(try request(origin: origin)), "\(origin ?? "none")")
        }
        for origin in [
            "http://evil.example", "http://localhost.evil.example", "http://127.0.0.1.evil.example", "http://192.168.1.5:9000", "x",
            "http://evil.example:9000", "null",
        ] {
            #expect(!policy.permits(try request(origin: origin)), "\(origin)")
        }
        #expect(policy.permits(try request(origin: "http://192.168.1.5:9000", host: "192.168.1.5:9000")), "its own page by number")
        #expect(!policy.permits(try request(origin: "http://evil.example:9000", host: "evil.example:9000")), "a name that resolves here")
    }

    @Test func devHub_isNotDialledByAStrangersName_whateverThePageSays() throws {
        let policy = OriginPolicy(allowed: nil, isDev: true)
        let network = OriginPolicy(allowed: nil, isDev: true, isOpenToNetwork: true)
        for host in ["localhost:9000", "127.0.0.1:9000", "[::1]:9000", "192.168.1.5:9000", "app.localhost"] {
            #expect(policy.permits(try request(origin: nil, host: host)), "\(host)")
        }
        for host in ["evil.example:9000", "evil.example", "127.0.0.1.evil.example"] {
            #expect(!policy.permits(try request(origin: nil, host: host)), "\(host)")
            #expect(!network.permits(try request(origin: nil, host: host)), "\(host)")
        }
        // The resolver may complete such a name with the network's domain. In a container network, hubs are addressed by such names.
        for host in ["vigla:9000", "evil", "localhost1"] {
            #expect(!policy.permits(try request(origin: nil, host: host)), "\(host)")
            #expect(network.permits(try request(origin: nil, host: host)), "\(host)")
        }
        #expect(!policy.permits(try request(origin: nil, host: "192.168.1.5:9000"), usesReferer: true), "a silent script tag")
        #expect(
            OriginPolicy(allowed: ["https://app.example"], isDev: true).permits(try request(origin: nil, host: "hub.example")), "told to")
        #expect(OriginPolicy(allowed: nil, isDev: false).permits(try request(origin: nil, host: "hub.example")))
        let server = try TestServer()
        for target in ["/.json", "/.lp?start=t", "/.settings/rules.json"] {
            #expect(try TestSocket(port: server.port).get(target, host: "evil.example").status == 403, "\(target)")
            #expect(try TestSocket(port: server.port).get(target, host: "evil").status == 403, "\(target)")
        }
    }

    @Test func productionOrigins_areAll_unlessNamed() throws {
        #expect(OriginPolicy(allowed: nil, isDev: false).permits(try request(origin: "https://any.example")))
        let named = OriginPolicy(allowed: ["https://app.example"], isDev: false)
        #expect(named.permits(try request(origin: "https://APP.example")))
        #expect(named.permits(try request(origin: nil)))
        #expect(!named.permits(try request(origin: "https://other.example")))
        #expect(!named.permits(try request(origin: "null")))
        #expect(OriginPolicy(allowed: ["*"], isDev: true).permits(try request(origin: "https://other.example")))
    }

    @Test func strangePage_reachesNeitherSocketNorLongPolling() throws {
        let server = try TestServer()
        let upgrade =
            "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
        for (line, fields) in [
            ("/.ws?ns=test", upgrade + "Origin: http://evil.example\r\n"), ("/.ws?ns=test", upgrade + "Origin: null\r\n"),
            ("/.observe?ns=test", "Origin: http://evil.example\r\n"),
            ("/.lp?start=t&ser=1&cb=3&v=5&ns=test", "Referer: http://evil.example/page\r\n"),
            ("/.lp?start=t&ser=1&cb=3&v=5&ns=test", "Sec-Fetch-Site: cross-site\r\n"),
            ("/.lp?start=t&ser=1&cb=3&v=5&ns=test", "Sec-Fetch-Site: same-site\r\n"),
        ] {
            let socket = try TestSocket(port: server.port)
            try socket.send("GET \(line) HTTP/1.1\r\nHost: localhost\r\n\(fields)\r\n")
            #expect(try socket.response().status == 403, "\(line)")
        }
        let socket = try TestSocket(port: server.port)
        try socket.send("GET /.ws?ns=test HTTP/1.1\r\nHost: localhost\r\n\(upgrade)Origin: http://localhost:3000\r\n\r\n")
        #expect(try socket.response().status == 101)
        // Developers write pages for the observe protocol themselves, so the refusal gives the reason.
        for (field, reason) in [
            ("Origin: http://evil.example\r\n", "Pages of http://evil.example are not let in: see --allow-origin of this hub."),
            ("Origin: null\r\n", "A page from a file or a sandboxed frame (Origin null) is not let in: serve it, or see --allow-origin."),
            (
                "Origin: https://\(String(repeating: "a", count: 300)).example\r\n",
                "Pages of https://\(String(repeating: "a", count: 40)) are"
            ),
        ] {
            let socket = try TestSocket(port: server.port)
            let ask = #"{"id":1,"op":"set","path":"/stolen","value":1}"#
            try socket.send("GET /.observe?ns=test HTTP/1.1\r\nHost: localhost\r\n\(upgrade)\(field)\r\n")
            #expect(try socket.response().status == 101)
            try? socket.sendText(ask)
            #expect(try socket.next() == .close(1008))
            #expect(socket.closeReason?.hasPrefix(reason) == true, "\(socket.closeReason ?? "")")
        }
        let own = try TestSocket(port: server.port)
        try own.upgrade("/.observe?ns=test")
        try own.sendText(#"{"id":1,"op":"get","path":"/stolen"}"#)
        #expect(try own.text() == #"{"id":1,"ok":{"value":null}}"#)
    }

    // MARK: Namespaces

    @Test func slowNamespace_holdsNobodyElse() throws {
        let gate = DispatchSemaphore(value: 0)
        let hub = Hub { name in
            if name == "slow" { gate.wait() }
            return name == "none" ? nil : Database(
                name: name, rules: .allowAll, lanes: 1, format: HubFormat(), outlet: { _, _ in }, scheduler: FakeClock().scheduler)
        }
        #expect(hub.openNow("known") != nil)
        let opened = DispatchSemaphore(value: 0)
        hub.open("slow") { _ in opened.signal() }
        #expect(hub.database("known") != nil && hub.database("slow") == nil)
        gate.signal()
        opened.wait()
        #expect(hub.database("slow") != nil)
        #expect(hub.openNow("none") == nil && hub.all.count == 2)
    }

    @Test func namespaceMadeOnDemand_answersWhatCameBehindTheRequest() throws {
        let server = try TestServer()
        let socket = try TestSocket(port: server.port)
        try socket.send("GET /.ws?ns=fresh HTTP/1.1\r\nHost: localhost\r\n\r\nGET /.health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        #expect(try socket.response().status == 426)
        #expect(throws: TestSocket.Closed.self) { _ = try socket.response() }
        let bad = try TestSocket(port: server.port)
        try bad.send(
            "GET /.lp?start=t&ser=1&cb=1&ns=no%20name HTTP/1.1\r\nHost: localhost\r\n\r\nGET /.health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        #expect(try bad.response().status == 404)
        #expect(try bad.response().status == 200)
        let fresh = try TestSocket(port: server.port)
        try fresh.send(
            "GET /.lp?start=t&ser=1&cb=1&ns=fresh2 HTTP/1.1\r\nHost: localhost\r\n\r\nGET /.health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        #expect(try fresh.response().body.contains("pRTLPCB(0,"))
        #expect(try fresh.response().status == 200)
    }
}

/// A console folder with one page of a size.
private final class TemporaryWeb {
    let path: String

    init(bytes: Int) throws {
        var template = Array("/tmp/vigla-web-XXXXXX\0".utf8CString)
        path = String(cString: try #require(mkdtemp(&template)))
        let file = try #require(fopen(path + "/index.html", "w"))
        fputs(String(repeating: "x", count: bytes), file)
        fclose(file)
    }

    deinit {
        unlink(path + "/index.html")
        rmdir(path)
    }
}
