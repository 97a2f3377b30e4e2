import ArgumentParser
import CLinux
import Glibc

/// The memory of an idle connection: of the hub's realtime sessions, and of upgraded connections of a bare loop.
struct Idle: ParsableCommand {
    static let configuration = CommandConfiguration(abstract: "Resident memory per idle WebSocket connection.")

    @Option(help: "Connections to open; each takes a descriptor here and one in the server.") var connections = 10_000
    @Option(help: "Runs of each server.") var runs = 3
    @Option(help: "The vigla program; without it the one beside vigla-bench.") var vigla: String?

    func validate() throws {
        guard IdleLoad.range.contains(connections) else {
            throw ValidationError("--connections is \(IdleLoad.range.lowerBound) to \(IdleLoad.range.upperBound) (ports of one address)")
        }
        guard runs > 0 else { throw ValidationError("--runs must be above 0") }
    }

    func run() throws {
        raiseDescriptorLimit()
        print("idle, \(connections) connections")
        let load = IdleLoad(connections: connections)
        for subject in IdleLoad.subjects(vigla) {
            var figures: [Double] = []
            for run in 1...runs {
                let kilobytes = try load.kilobytes(subject.start(), subject.target)
                figures.append(kilobytes)
                print("  \(run) \(subject.name): \(kilobytes.fixed(2)) KB resident each")
            }
            print("  median \(subject.name): \(figures.median.fixed(2)) KB")
        }
    }
}

/// The number of clients that can connect per second.
struct Connect: ParsableCommand {
    static let configuration = CommandConfiguration(abstract: "New WebSocket connections per second, each upgraded, then reset.")

    @Option(help: "Connections per run.") var connections = 20_000
    @Option(help: "Connections under way at a time.") var atOnce = 200
    @Option(help: "Runs of each server.") var runs = 3
    @Option(help: "The vigla program; without it the one beside vigla-bench.") var vigla: String?

    func validate() throws {
        guard connections > 0, runs > 0, (1...5000).contains(atOnce) else {
            throw ValidationError("numbers must be above 0, --at-once at most 5000")
        }
    }

    func run() throws {
        raiseDescriptorLimit()
        print("connect, \(connections) connections, \(atOnce) at once")
        for subject in IdleLoad.subjects(vigla) {
            let (name, target) = (subject.name, subject.target)
            var figures: [Double] = []
            for run in 1...runs {
                let server = try subject.start()
                let (begin, cpu) = (monotonicNs(), server.cpuNs)
                for _ in 0..<max(1, connections / atOnce) {
                    let swarm = try Swarm(port: server.port)
                    for _ in 0..<atOnce { _ = try swarm.connect(target) }
                    try swarm.finishUpgrades()
                    swarm.reset()
                }
                let count = Double(max(1, connections / atOnce) * atOnce)
                let perSecond = count / (Double(monotonicNs() - begin) / 1e9)
                figures.append(perSecond)
                print("  \(run) \(name): \(Int(perSecond)) /s, server cpu \((Double(server.cpuNs - cpu) / 1000 / count).fixed(1)) µs each")
            }
            print("  median \(name): \(Int(figures.median)) /s, no errors")
        }
    }
}

private func monotonicNs() -> UInt64 {
    var now = timespec()
    clock_gettime(CLOCK_MONOTONIC, &now)
    return UInt64(now.tv_sec) * 1_000_000_000 + UInt64(now.tv_nsec)
}
