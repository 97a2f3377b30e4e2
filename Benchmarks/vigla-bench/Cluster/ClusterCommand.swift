import ArgumentParser
import Dispatch
import Foundation
import Glibc
import Histogram

/// Three hubs over three NATS servers on this machine, compared with a single hub. All share its processors, so only ratios are meaningful.
struct ClusterBench: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "cluster", abstract: "Three hubs over NATS JetStream, against one: writes, fan-out, pauses after kills.")

    @Option(help: "The nats-server program, 2.14.6 or later.") var nats = "/usr/local/bin/nats-server"
    @Option(help: "The vigla program, built for clusters; without it the one beside vigla-bench.") var vigla: String?
    @Option(help: "Numbers of connections that write, separated by commas; one write at a time on each.") var connections = "1,100"
    @Option(help: "Observers, a third of them at each hub.") var observers = 900
    @Option(help: "Seconds of each run of writes.") var seconds = 3.0
    @Option(help: "Seconds of each run in which something is killed, 2 s after its beginning.") var outage = 15.0
    @Option(help: "Runs of each; the median counts.") var runs = 3
    @Option(help: "Where data folders are made; on the disk that is measured.") var folder = NSTemporaryDirectory()

    private var counts: [Int] { connections.split(separator: ",").map { Int($0) ?? 0 } }

    func validate() throws {
        guard seconds > 0, outage >= 5, runs > 0, observers >= 3 else {
            throw ValidationError("--outage is at least 5, --observers at least 3, other numbers above 0")
        }
        guard counts.allSatisfy({ $0 > 0 }), !counts.isEmpty else { throw ValidationError("--connections: numbers") }
    }

    func run() throws {
        raiseDescriptorLimit()
        let data = URL(filePath: folder).appending(path: "vigla-bench-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: data, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: data) }
        let program = vigla ?? besideThisProgram("vigla")
        let cluster = try BenchCluster(nats: nats, vigla: program, folder: data)
        for count in counts { try writes(count, cluster, program, data) }
        try fanout(cluster, program)
        try pauses(cluster)
    }

    // MARK: Writes

    private func writes(_ count: Int, _ cluster: BenchCluster, _ program: String, _ data: URL) throws {
        print("durable writes, \(count) connections")
        let load = RequestLoad(kind: .notified, connections: count, valueBytes: 64, seconds: seconds)
        let (writer, followers) = try cluster.roles()
        var samples: [[Sample]] = [[], [], []]
        for run in 1...runs {
            let alone = try BenchCluster.single(program, data.appending(path: "single-\(count)-\(run)"))
            for (i, (name, hub)) in [("one hub alone", alone), ("the hub that writes", writer), ("one that follows", followers[0])].enumerated() {
                let sample = try load.run(against: hub)
                samples[i].append(sample)
                print("  \(run) \(name): \(sample.line)")
            }
        }
        let rates = samples.map { $0.map(\.perSecond).median }
        let halves = samples.map { $0.map { Double($0.latencies.valueAtPercentile(50)) }.median }
        for (i, name) in [(1, "the hub that writes"), (2, "one that follows")] {
            print("  median: \(name) \((rates[i] / rates[0]).fixed(2)) × the writes a second, p50 \((halves[i] / halves[0]).fixed(2)) ×")
        }
    }

    // MARK: Fan-out

    /// The CPU time is that of all hubs, without the NATS servers.
    private func fanout(_ cluster: BenchCluster, _ program: String) throws {
        let load = FanoutLoad(
            observers: observers, messages: max(200, 200_000 / observers), burst: 1, textBytes: 64, speech: .realtime, trusting: nil)
        let comparison = Comparison(
            title: "fan-out, \(observers) observers over three hubs, one message at a time", baselineName: "one hub", subjectName: "three hubs",
            runs: runs)
        try comparison.measure {
            try load.run(against: ServerProcess(program, ["serve", "--memory", "--dev", "--port", "0"], isQuiet: true))
        } subject: {
            let (writer, followers) = try cluster.roles()
            return try load.run(against: [writer] + followers)
        }
    }

    // MARK: Pauses

    /// The longest wait of a write through a hub that stays, in runs in which one thing is killed.
    private func pauses(_ cluster: BenchCluster) throws {
        let load = RequestLoad(kind: .notified, connections: 1, valueBytes: 64, seconds: outage)
        func longest(_ name: String, through hub: ServerProcess, _ kill: @escaping @Sendable () -> Void) throws {
            let timer = DispatchSource.makeTimerSource(queue: .global())
            timer.schedule(deadline: .now() + 2)
            timer.setEventHandler(handler: kill)
            timer.resume()
            defer { timer.cancel() }
            let sample = try load.run(against: hub)
            print("  \(name): longest wait of a write \((Double(sample.latencies.max) / 1e9).fixed(2)) s, p50 "
                + "\((Double(sample.latencies.valueAtPercentile(50)) / 1e6).fixed(2)) ms")
        }
        print("pauses of writes, one connection to a hub that follows")
        try longest("nothing is killed", through: cluster.roles().followers[0]) {}
        for number in cluster.servers.indices {
            let isLeader = cluster.leader() == number
            let pid = cluster.servers[number].pid
            try longest("NATS server \(number + 1)\(isLeader ? ", which leads the log," : "") after kill -9", through: cluster.roles().followers[0]) {
                Glibc.kill(pid, SIGKILL)
            }
            try cluster.restart(server: number)
        }
        let (writer, followers) = try cluster.roles()
        let pid = writer.pid
        try longest("the hub that writes after kill -9", through: followers[0]) { Glibc.kill(pid, SIGKILL) }
    }
}
