package import ClusterJournal
import Foundation
import Glibc
import Logging
import Synchronization
import TestSupport

/// Three NATS servers with JetStream on this machine, in a temporary folder, on free ports. They end with the value, and with the process, however
/// that ends: a shell per server waits for that.
package final class TestCluster: Sendable {
    /// The server that VIGLA_NATS_SERVER names; nil without one. Debian 12 has no version that hubs accept.
    package static let program: String? = ProcessInfo.processInfo.environment["VIGLA_NATS_SERVER"]
        .flatMap { access($0, X_OK) == 0 ? $0 : nil }
    /// The message of a skipped test.
    package static let absent = "VIGLA_NATS_SERVER names no program: make cluster-test sets it"

    /// For all tests that do not disturb the servers.
    package static let shared = Result { try TestCluster() }

    private struct Server {
        let shell: ChildProcess
        let pid: Int32
        /// The shell kills the server when this is closed.
        let leash: FileHandle
    }

    package struct NotStarted: Error { package let error: String }

    private let folder: TemporaryFolder
    private let servers: Mutex<[Server?]>
    private let ports: [UInt16]
    private let scheme: String

    /// - Parameters:
    ///   - certificate: the servers' TLS certificate for hubs, and its key; nil: no TLS.
    ///   - authority: the authority for certificates of hubs; nil: hubs need none.
    package init(servers count: Int = 3, certificate: (file: String, key: String)? = nil, authority: String? = nil) throws {
        guard Self.program != nil else { throw NotStarted(error: Self.absent) }
        folder = try TemporaryFolder()
        ports = try freePorts(count * 2)
        servers = Mutex(Array(repeating: nil, count: count))
        scheme = certificate == nil ? "nats" : "tls"
        let asking = authority.map { ", ca_file: \"\($0)\", verify: true" } ?? ""
        let tls = certificate.map { "tls { cert_file: \"\($0.file)\", key_file: \"\($0.key)\"\(asking) }" } ?? ""
        let routes = ports[count...].map { "nats-route://127.0.0.1:\($0)" }.joined(separator: ", ")
        for i in 0..<count {
            try folder.file("n\(i).conf", """
                server_name: n\(i)
                listen: 127.0.0.1:\(ports[i])
                log_file: "\(folder.at("n\(i).log"))"
                jetstream { store_dir: "\(folder.at("n\(i)"))", max_memory_store: 67108864, max_file_store: 1073741824
                    sync_interval: always
                }
                \(tls)
                cluster { name: vigla-test, listen: 127.0.0.1:\(ports[count + i]), routes: [\(routes)] }
                """)
            try start(i)
        }
    }

    deinit {
        for server in servers.withLock({ $0 }) {
            guard let server else { continue }
            try? server.leash.close()
            server.shell.waitUntilExit()
        }
    }

    package var urls: [String] { ports.prefix(ports.count / 2).map { "\(scheme)://127.0.0.1:\($0)" } }
    package func url(_ server: Int) -> String { urls[server] }
    package var names: [String] { (0..<ports.count / 2).map { "n\($0)" } }

    // MARK: Faults

    package func start(_ number: Int) throws {
        let (input, output) = (Pipe(), Pipe())
        let script = """
            "$1" -c "$2/$3.conf" >/dev/null 2>&1 & echo $!
            read -r word; kill -9 $!
            [ -n "$word" ] || rm -rf "$2"
            """
        let shell = try ChildProcess(
            "/bin/sh", ["-c", script, "sh", Self.program ?? "", folder.path, "n\(number)"], input: .handle(input.fileHandleForReading),
            output: .handle(output.fileHandleForWriting))
        try output.fileHandleForWriting.close()
        try input.fileHandleForReading.close()
        var line: [UInt8] = []
        while let byte = try output.fileHandleForReading.read(upToCount: 1)?.first, byte != 0x0A { line.append(byte) }
        guard let pid = Int32(String(decoding: line, as: UTF8.self)) else { throw NotStarted(error: "no nats-server \(number)") }
        servers.withLock { $0[number] = Server(shell: shell, pid: pid, leash: input.fileHandleForWriting) }
    }

    /// Kills a server; `start` restarts it with its files.
    package func kill(_ number: Int) throws {
        guard let server = servers.withLock({ servers in
            defer { servers[number] = nil }
            return servers[number]
        }) else { return }
        Glibc.kill(server.pid, SIGKILL)
        try server.leash.write(contentsOf: Data("keep\n".utf8))
        try server.leash.close()
        server.shell.waitUntilExit()
    }

    package func signal(_ number: Int, _ signal: Int32) { servers.withLock { if let pid = $0[number]?.pid { Glibc.kill(pid, signal) } } }

    /// A connection to some of the servers, or all.
    package func connect(_ numbers: [Int]? = nil) throws -> NatsConnection {
        let chosen = numbers.map { $0.map(url) } ?? urls
        return try NatsConnection(NatsConnection.Settings(servers: chosen, name: "test"), logger: .silent)
    }
}

/// Ports that were free a moment ago.
private func freePorts(_ count: Int) throws -> [UInt16] {
    var sockets: [Int32] = []
    defer { for socket in sockets { close(socket) } }
    return try (0..<count).map { _ in
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        sockets.append(descriptor)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let isBound = withUnsafeMutablePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(descriptor, $0, length) == 0 && getsockname(descriptor, $0, &length) == 0
            }
        }
        guard isBound else { throw TestCluster.NotStarted(error: "no free port") }
        return UInt16(bigEndian: address.sin_port)
    }
}
