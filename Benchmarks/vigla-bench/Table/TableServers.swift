import CBaseline
import CLinux
import Foundation
import Histogram

/// The rows that measure a server, and their baselines.
struct TableServers {
    let vigla: String
    let folder: URL
    let seconds: Double
    let runs: Int
    /// Net loops of the hub; 0 lets the hub choose.
    let loops: Int

    private var loopOptions: [String] { loops > 0 ? ["--loops", "\(loops)"] : [] }

    // MARK: Fan-out

    func fanout(_ isWanted: TableFilter) throws -> [TableRow] {
        var rows: [TableRow] = []
        for (observers, burst) in [(1_000, 1), (5_000, 1), (1_000, 64)] {
            let name = burst == 1 ? "fan-out, \(observers) observers" : "burst of \(burst), \(observers) observers"
            guard isWanted(name) else { continue }
            let (c, hub) = try fanout(observers, burst)
            let asked = burst == 1 ? "≤ 1.10 ×" : "≤ 0.20 µs"
            let beside = burst == 1 ? "C send" : "C writev"
            rows.append(TableRow(
                name: name, measured: "\(hub.fixed(3)) µs a delivery", ratio: hub / c, asked: asked, beside: "\(beside) \(c.fixed(3)) µs"))
        }
        return rows
    }

    /// µs of CPU for a delivery, of the C server and of the hub.
    private func fanout(_ observers: Int, _ burst: Int) throws -> (Double, Double) {
        let messages = max(burst, (burst > 1 ? 640_000 : 300_000) / observers)
        func load(_ speech: FanoutLoad.Speech, _ bytes: Int, _ observers: Int, _ messages: Int, _ burst: Int) -> FanoutLoad {
            FanoutLoad(observers: observers, messages: messages, burst: burst, textBytes: bytes, speech: speech, trusting: nil)
        }
        // The baseline's frames are as long as the hub's.
        let bytes = try load(.realtime, 64, 1, 1, 1).run(against: hub()).payloadBytes
        return try pair {
            try load(.plain, bytes, observers, messages, burst)
                .run(against: ServerProcess(["serve-baseline", burst == 1 ? "fanout" : "corked"])).cpuMicros
        } _: {
            try load(.realtime, 64, observers, messages, burst).run(against: hub()).cpuMicros
        }
    }

    // MARK: Requests

    func requests(_ isWanted: TableFilter) throws -> [TableRow] {
        let kinds: [(kind: RequestLoad.Kind, name: String, asked: String, counts: [Int])] = [
            (.get, "g", "≤ 1.6 ×", [100]), (.put, "p in memory", "≤ 1.9 ×", [100, 1_000]),
            (.durable, "p durable", "≤ 2.4 ×, ≥ 60,000/s", [100, 1_000]), (.notified, "p durable with an observer", "–", [100, 1_000]),
        ]
        var rows: [TableRow] = []
        for (kind, title, asked, counts) in kinds {
            for count in counts where isWanted("\(title), \(count) connections") {
                var (rates, logged): ([Double], [Sample]) = ([], [])
                let (echo, hub) = try pair {
                    try EchoLoad(connections: count, messageBytes: 64, seconds: seconds)
                        .run(against: ServerProcess(["serve-baseline", "echo"])).cpuMicros
                } _: {
                    if kind == .durable { logged.append(try durableEcho(count)) }
                    let sample = try request(kind, count)
                    rates.append(sample.perSecond)
                    return sample.cpuMicros
                }
                let behindLog = logged.isEmpty
                    ? "" : ", behind a log \(logged.map(\.cpuMicros).median.fixed(1)) µs, \(Int(logged.map(\.perSecond).median))/s"
                rows.append(TableRow(
                    name: "\(title), \(count) connections", measured: "\(hub.fixed(1)) µs, \(Int(rates.median))/s", ratio: hub / echo,
                    asked: asked, beside: "C epoll echo \(echo.fixed(1)) µs\(behindLog)"))
            }
        }
        if isWanted("p durable, 1 connection") { rows.append(try loneWrite()) }
        return rows
    }

    private func request(_ kind: RequestLoad.Kind, _ connections: Int) throws -> Sample {
        let load = RequestLoad(kind: kind, connections: connections, valueBytes: 64, seconds: seconds)
        guard kind.isOnDisk else { return try load.run(against: hub()) }
        let own = folder.appending(path: UUID().uuidString)
        try FileManager.default.createDirectory(at: own, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: own) }
        let rules = own.appending(path: "rules.json")
        try Data(RequestLoad.rules.utf8).write(to: rules)
        let options = ["serve", "--data", own.appending(path: "data").path, "--rules", rules.path, "--namespace", "bench", "--port", "0"]
        return try load.run(against: ServerProcess(vigla, options + loopOptions, isQuiet: true))
    }

    private func loneWrite() throws -> TableRow {
        var (cpu, echoes): ([Double], [Sample]) = ([], [])
        func median(_ sample: Sample) -> Double { Double(sample.latencies.valueAtPercentile(50)) / 1000 }
        let (disk, hub) = try pair {
            let probe = try DiskProbe(folder.appending(path: "probe").path)
            return try (0..<2_000).map { _ in Double(try probe.write()) / 1000 }.median
        } _: {
            echoes.append(try durableEcho(1))
            let sample = try request(.durable, 1)
            cpu.append(sample.cpuMicros)
            return median(sample)
        }
        let echo = "p50 \(echoes.map(median).median.fixed(0)) µs, cpu \(echoes.map(\.cpuMicros).median.fixed(0)) µs"
        return TableRow(
            name: "p durable, 1 connection", measured: "p50 \(hub.fixed(0)) µs, cpu \(cpu.median.fixed(0)) µs", ratio: hub / disk,
            asked: "≤ 1.3 ×", beside: "fdatasync p50 \(disk.fixed(0)) µs, C echo behind it \(echo)")
    }

    /// The machine's cost of echoing a message once it is on the disk, with one `fdatasync` for all messages that arrived together.
    private func durableEcho(_ connections: Int) throws -> Sample {
        let log = folder.appending(path: "log").path
        return try EchoLoad(connections: connections, messageBytes: 64, seconds: seconds)
            .run(against: ServerProcess(["serve-baseline", "durable", "--log", log]))
    }

    // MARK: Redis

    /// The cost of a get and a set in redis, if it is on the PATH.
    func redis(_ isWanted: TableFilter) throws -> [TableRow] {
        guard let server = Self.onPath("redis-server"), let load = Self.onPath("redis-benchmark") else { return [] }
        var rows: [TableRow] = []
        for (name, command, log) in [("GET", "get", "no"), ("SET", "set", "no"), ("SET, always", "set", "yes")] {
            for count in [100, 1_000] where isWanted("redis \(name), \(count) connections") {
                let (micros, rate) = try redis(server, load, command, count, log)
                rows.append(TableRow(
                    name: "redis \(name), \(count) connections", measured: "\(micros.fixed(1)) µs, \(Int(rate))/s", asked: "–"))
            }
        }
        return rows
    }

    /// µs of the server's CPU for a request, and requests per second.
    private func redis(
        _ server: String, _ load: String, _ command: String, _ connections: Int, _ log: String
    ) throws -> (micros: Double, rate: Double) {
        let own = folder.appending(path: UUID().uuidString)
        try FileManager.default.createDirectory(at: own, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: own) }
        let socket = own.appending(path: "redis.sock").path
        // A TCP port, because Unix sockets cost less than those of the network.
        let port = String(20_000 + Int(getpid()) % 20_000)
        let process = Self.process(server, [
            "--port", port, "--bind", "127.0.0.1", "--unixsocket", socket, "--save", "", "--dir", own.path, "--appendonly", log,
            "--appendfsync", "always",
        ])
        try process.run()
        defer {
            process.terminate()
            process.waitUntilExit()
        }
        for _ in 0..<1_000 where !FileManager.default.fileExists(atPath: socket) { usleep(10_000) }
        func ask(_ requests: Int) throws {
            let client = Self.process(load, [
                "-p", port, "-t", command, "-c", "\(connections)", "-n", "\(requests)", "-d", "64", "-q",
            ])
            try client.run()
            client.waitUntilExit()
            guard client.terminationStatus == 0 else { throw BenchError.serverFailed("redis-benchmark") }
        }
        try ask(10_000)
        let before = cbaseline_cpu_ns(process.processIdentifier)
        let (requests, start) = (200_000, vigla_monotonic_ns())
        try ask(requests)
        let seconds = Double(vigla_monotonic_ns() - start) / 1e9
        return (Double(cbaseline_cpu_ns(process.processIdentifier) - before) / 1000 / Double(requests), Double(requests) / seconds)
    }

    private static func process(_ path: String, _ arguments: [String]) -> Process {
        let process = Process()
        process.executableURL = URL(filePath: path)
        process.arguments = arguments
        process.standardOutput = FileHandle.nullDevice
        process.standardError = FileHandle.nullDevice
        return process
    }

    private static func onPath(_ name: String) -> String? {
        let folders = (ProcessInfo.processInfo.environment["PATH"] ?? "").split(separator: ":")
        return folders.map { "\($0)/\(name)" }.first { FileManager.default.isExecutableFile(atPath: $0) }
    }

    // MARK: Runs

    func hub() throws -> ServerProcess {
        try ServerProcess(vigla, ["serve", "--memory", "--dev", "--port", "0"] + loopOptions, isQuiet: true)
    }

    /// Alternating medians of both. The order changes, so that neither always runs on a warm machine.
    private func pair(_ baseline: () throws -> Double, _ subject: () throws -> Double) throws -> (Double, Double) {
        var (baselines, subjects): ([Double], [Double]) = ([], [])
        for run in 0..<runs {
            if run % 2 == 0 { baselines.append(try baseline()) }
            subjects.append(try subject())
            if run % 2 == 1 { baselines.append(try baseline()) }
        }
        return (baselines.median, subjects.median)
    }
}
