import Foundation
import Glibc
import JSONTree

/// Three NATS servers and three hubs over them, each with its own folder.
final class BenchCluster {
    struct NatsServer {
        let pid: pid_t
        let port: UInt16
        let monitor: UInt16
    }

    private let program: String
    private let folder: URL
    private var processes: [Process] = []
    private(set) var servers: [NatsServer] = []
    let hubs: [ServerProcess]

    /// Blocks until all of them have joined, which takes some seconds.
    init(nats: String, vigla: String, folder: URL) throws {
        program = nats
        self.folder = folder
        let ports = try freePorts(9)
        let routes = ports[6...].map { "nats-route://127.0.0.1:\($0)" }.joined(separator: ", ")
        for number in 0..<3 {
            let own = folder.appending(path: "nats-\(number)")
            try FileManager.default.createDirectory(at: own, withIntermediateDirectories: true)
            let configuration = """
                server_name: n\(number)
                listen: 127.0.0.1:\(ports[number])
                http: 127.0.0.1:\(ports[3 + number])
                log_file: "\(own.path)/log"
                jetstream { store_dir: "\(own.path)", max_memory_store: 67108864, max_file_store: 4294967296, sync_interval: always }
                cluster { name: vigla-bench, listen: 127.0.0.1:\(ports[6 + number]), routes: [\(routes)] }
                """
            try Data(configuration.utf8).write(to: folder.appending(path: "nats-\(number).conf"))
            processes.append(try Self.start(nats, folder, number))
            servers.append(NatsServer(pid: processes[number].processIdentifier, port: ports[number], monitor: ports[3 + number]))
        }
        let urls = ports[..<3].map { "nats://127.0.0.1:\($0)" }.joined(separator: ",")
        hubs = try (0..<3).map { number in
            let options = ["--cluster", urls, "--cluster-name", "bench"]
            return try Self.single(vigla, folder.appending(path: "hub-\(number)"), options)
        }
    }

    deinit {
        for process in processes {
            kill(process.processIdentifier, SIGKILL)
            process.waitUntilExit()
        }
    }

    /// A hub with durable writes under the rules of the load.
    static func single(_ vigla: String, _ folder: URL, _ options: [String] = []) throws -> ServerProcess {
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        let rules = folder.appending(path: "rules.json")
        try Data(RequestLoad.rules.utf8).write(to: rules)
        let data = folder.appending(path: "data").path
        return try ServerProcess(
            vigla, ["serve", "--data", data, "--rules", rules.path, "--namespace", "bench", "--port", "0"] + options, isQuiet: true)
    }

    private static func start(_ nats: String, _ folder: URL, _ number: Int) throws -> Process {
        let process = Process()
        process.executableURL = URL(filePath: nats)
        process.arguments = ["-c", folder.appending(path: "nats-\(number).conf").path]
        process.standardOutput = FileHandle.nullDevice
        process.standardError = FileHandle.nullDevice
        try process.run()
        return process
    }

    /// Restarts a killed server with its files, and waits for it to join.
    func restart(server number: Int) throws {
        processes[number].waitUntilExit()
        processes[number] = try Self.start(program, folder, number)
        let old = servers[number]
        servers[number] = NatsServer(pid: processes[number].processIdentifier, port: old.port, monitor: old.monitor)
        sleep(8)
    }

    // MARK: Roles

    /// The hub that writes the namespace, and its followers; waits until one writes.
    func roles() throws -> (writer: ServerProcess, followers: [ServerProcess]) {
        for _ in 0..<300 {
            let said = hubs.map { try? Self.get("/.health", $0.port) }
            let roles = said.map { $0?["cluster"]?["namespaces"]?["bench"]?.string }
            if let writer = roles.firstIndex(of: "writing"), roles.filter({ $0 == "following" }).count == 2 {
                return (hubs[writer], hubs.indices.filter { $0 != writer }.map { hubs[$0] })
            }
            usleep(100_000)
        }
        throw BenchError.incomplete("no hub of the cluster became the one that writes within 30 s")
    }

    /// The number of the server that leads the namespace's log: the longest of all logs.
    func leader() -> Int? {
        for server in servers {
            guard let said = try? Self.get("/jsz?streams=true", server.monitor) else { continue }
            let streams = (said["account_details"]?.elements ?? []).flatMap { $0["stream_detail"]?.elements ?? [] }
            let logs = streams.filter { $0["name"]?.string?.last?.isNumber == true }
            let longest = logs.max { ($0["state"]?["messages"]?.int ?? 0) < ($1["state"]?["messages"]?.int ?? 0) }
            if let name = longest?["cluster"]?["leader"]?.string, let number = name.last?.wholeNumberValue { return number }
        }
        return nil
    }

    private static func get(_ path: String, _ port: UInt16) throws -> JSONValue {
        let peer = try MeasuredPeer(port: port)
        try peer.send(Array("GET \(path) HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".utf8))
        var bytes: [UInt8] = []
        _ = try peer.readToEnd { bytes += $0 }
        guard let start = bytes.firstIndex(of: UInt8(ascii: "{")) else { throw BenchError.unexpected(String(decoding: bytes, as: UTF8.self)) }
        return try JSONValue(Array(bytes[start...]))
    }
}

/// Ports that were free a moment ago.
private func freePorts(_ count: Int) throws -> [UInt16] {
    var sockets: [Int32] = []
    defer { for socket in sockets { close(socket) } }
    return try (0..<count).map { _ in
        let fd = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        sockets.append(fd)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let isBound = withUnsafeMutablePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { bind(fd, $0, length) == 0 && getsockname(fd, $0, &length) == 0 }
        }
        guard isBound else { throw BenchError.system("bind", errno: errno) }
        return UInt16(bigEndian: address.sin_port)
    }
}
