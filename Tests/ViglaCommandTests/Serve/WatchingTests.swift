import Foundation
import Testing
import TestSupport

/// Monitoring a running hub: metrics for administrators, the request log, readiness for systemd.
@Suite(.timeLimit(.minutes(30))) struct WatchingTests {
    private func get(_ hub: RunningHub, _ target: String, _ fields: String) throws -> String {
        let connection = try hub.connection()
        try connection.write(contentsOf: Data("GET \(target) HTTP/1.1\r\n\(fields)Connection: close\r\n\r\n".utf8))
        return String(decoding: try connection.readToEnd() ?? Data(), as: UTF8.self)
    }

    @Test func metrics_areForThisMachine_andForAdministratorsFromAnywhere() throws {
        let folder = try TemporaryFolder()
        let hub = try RunningHub(["--port", "0", "--data", "data"], folder: folder)
        let secret = try String(contentsOf: folder.url.appendingPathComponent("data/admin-secret.txt"), encoding: .utf8)
            .trimmingCharacters(in: .newlines)
        // A request through a proxy is a stranger's.
        #expect(try get(hub, "/.metrics", "Host: hub.example\r\n").hasPrefix("HTTP/1.1 404"))
        let shown = try get(hub, "/.metrics", "Host: hub.example\r\nAuthorization: Bearer \(secret)\r\n")
        #expect(shown.hasPrefix("HTTP/1.1 200") && shown.contains("vigla_build_info{version=\"0.1.0\""))
        #expect(shown.contains("vigla_data_file_bytes{file=\"vigla.sqlite\"}"))
        #expect(try get(hub, "/.metrics", "Host: hub.example\r\nAuthorization: Bearer \(secret.reversed())\r\n").hasPrefix("HTTP/1.1 404"))
        #expect(try get(hub, "/.metrics", "Host: localhost\r\n").hasPrefix("HTTP/1.1 200"))
    }

    @Test func signIns_areCounted_byWayAndOutcome() throws {
        let hub = try RunningHub(["--port", "0", "--memory", "--dev"])
        for _ in 0..<2 {
            let body = #"{"email":"ana@example.org","password":"correct horse"}"#
            let connection = try hub.connection()
            let head = "POST /identitytoolkit.googleapis.com/v1/accounts:signUp?key=any HTTP/1.1\r\nHost: localhost\r\n"
            try connection.write(contentsOf: Data("\(head)Connection: close\r\nContent-Length: \(body.utf8.count)\r\n\r\n\(body)".utf8))
            _ = try connection.readToEnd()
        }
        let page = try hub.page("/.metrics")
        #expect(page.contains(#"vigla_sign_ins_total{namespace="default",way="sign_up",outcome="ok"} 1"#), "\(page.suffix(600))")
        #expect(page.contains(#"vigla_sign_ins_total{namespace="default",way="sign_up",outcome="EMAIL_EXISTS"} 1"#), "\(page.suffix(600))")
    }

    @Test func requests_areLogged_whileThatIsAskedFor_withoutCredentials() throws {
        let hub = try RunningHub(["--port", "0", "--memory", "--dev"])
        _ = try hub.page("/before.json")
        kill(hub.process.processIdentifier, SIGUSR2)
        #expect(becomes { hub.error.contains("requests are logged") })
        _ = try hub.page("/users/ana.json?auth=owner")
        _ = try hub.page("/nothing")
        #expect(becomes { hub.error.contains("path=/nothing") })
        kill(hub.process.processIdentifier, SIGUSR2)
        #expect(becomes { hub.error.contains("no longer logged") })
        _ = try hub.page("/after.json")
        #expect(hub.stop() == 0)
        let lines = hub.error.split(separator: "\n").filter { $0.contains(" request ") }
        try #require(lines.count == 2, "\(lines)")
        #expect(lines[0].contains("method=GET") && lines[0].contains("path=/users/ana.json"), "\(lines)")
        #expect(lines[0].contains("status=200") && lines[1].contains("status=404") && !lines[0].contains("owner"), "\(lines)")
    }

    /// systemd's side of sd_notify(3): a datagram socket that is named in the environment.
    @Test func serviceManager_isToldOfReadiness_ofLife_andOfTheEnd() throws {
        let folder = try TemporaryFolder()
        let path = folder.url.appendingPathComponent("notify").path
        let manager = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue), 0)
        defer { close(manager) }
        var name = sockaddr_un()
        name.sun_family = sa_family_t(AF_UNIX)
        try #require(path.utf8.count < 100)
        withUnsafeMutableBytes(of: &name.sun_path) { $0.copyBytes(from: Array(path.utf8)) }
        let isBound = withUnsafePointer(to: &name) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { bind(manager, $0, socklen_t(MemoryLayout<sockaddr_un>.size)) == 0 }
        }
        try #require(isBound)
        let hub = try RunningHub(
            ["--port", "0", "--memory", "--dev"], environment: ["NOTIFY_SOCKET": path, "WATCHDOG_USEC": "300000"], folder: folder)
        func heard() -> String {
            var bytes = [UInt8](repeating: 0, count: 1024)
            let count = recv(manager, &bytes, bytes.count, 0)
            return String(decoding: bytes.prefix(max(0, count)), as: UTF8.self)
        }
        #expect(heard() == "STATUS=Reading the data folder.")
        #expect(heard().hasPrefix("READY=1"))
        #expect(heard() == "WATCHDOG=1" && heard() == "WATCHDOG=1")
        #expect(hub.stop() == 0)
        var last = heard()
        while last == "WATCHDOG=1" { last = heard() }
        #expect(last == "STOPPING=1")
    }
}
