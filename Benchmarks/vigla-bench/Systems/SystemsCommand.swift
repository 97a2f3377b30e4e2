import ArgumentParser
import CLinux
import Glibc
import Histogram

/// The five systems on one hub, each with its rules and its usual load, and then with a storm in one of them.
struct Systems: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "systems", abstract: "The five systems of Examples on one hub: their targets, and a storm in one of them.",
        discussion: """
            Four systems are measured by this process, Aboard by another one with a lower priority, as all share the hub's cores. After a
            quiet phase Aboard has an announcement to 20,000 inboxes every two seconds, and then all its clients reconnect within ten
            seconds, again and again. Latencies in ms.
            """)

    @Option(help: "Part of the full load, for connections and rates.") var scale = 1.0
    @Option(help: "Seconds of each phase.") var seconds = 20.0
    @Option(help: "The folder with a folder of rules for each system.") var examples = "Examples"
    @Option(help: "The vigla program; without it the one beside vigla-bench.") var vigla: String?
    @Option(help: "Repetitions of all phases.") var runs = 1

    func validate() throws {
        guard (0.05...4).contains(scale) else { throw ValidationError("--scale is 0.05 to 4") }
        guard seconds >= 1, runs >= 1 else { throw ValidationError("--seconds and --runs are 1 or more") }
    }

    func run() throws {
        raiseDescriptorLimit()
        let folder = try BenchFolder()
        let loads: [any SystemLoad.Type] = [WatchMeLoad.self, PlannerLoad.self, WatchrLoad.self, FitnessLoad.self]
        let all = loads + [AboardLoad.self]
        let databases = all.map { #""\#($0.name)":{"rules":"\#(examples)/\#($0.name)/rules.json"}"# }
        try folder.write(#"{"databases":{\#(databases.joined(separator: ","))}}"#, to: "hub.json")
        let hub = try ServerProcess(
            vigla ?? besideThisProgram("vigla"),
            ["serve", "--dev", "--port", "0", "--data", folder.path, "--config", "\(folder.path)/hub.json", "--log-level", "error"])

        let now = Int64(time(nil)) * 1000
        func make(_ load: any SystemLoad.Type) -> any SystemLoad { load.init(connections: scaled(load.connections, scale), now: now) }
        for load in all { try putAsAdmin("/.json?ns=\(load.name)&print=silent&derive=false", make(load).seed(), port: hub.port) }
        let run = try LoadRun(loads.map(make), port: hub.port, scale: scale)
        try run.connect()
        print("\(all.reduce(0) { $0 + scaled($1.connections, scale) }) connections, \(hub.residentBytes >> 20) MiB")
        // The first query of each kind has its index built.
        try run.run(seconds: min(16, seconds))
        run.forget()
        for number in 1...runs {
            for mode in StormMode.allCases { try measure(run, hub, mode, "\(number) \(mode.title)") }
        }
    }

    private func measure(_ run: LoadRun, _ hub: ServerProcess, _ mode: StormMode, _ title: String) throws {
        let storm = try ServerProcess(["systems-storm", "--port", "\(hub.port)", "--scale", "\(scale)", "--mode", mode.rawValue])
        let (cpu, start) = (hub.cpuNs, vigla_monotonic_ns())
        try run.run(seconds: seconds)
        let load = Double(hub.cpuNs - cpu) / Double(vigla_monotonic_ns() - start)
        withExtendedLifetime(storm) {}
        let late = (Double(run.latestNs) / 1e6).fixed(1)
        print("\(title): hub \((load * 100).fixed(0)) % of a core, this program at most \(late) ms late, missing \(run.missing)")
        for figures in run.figures {
            show(figures, "answered", figures.answered, figures.flow.answered)
            show(figures, "delivered", figures.delivered, figures.flow.delivered)
        }
        run.forget()
    }

    private func show(_ figures: LoadRun.Figures, _ what: String, _ latencies: Histogram<UInt64>, _ target: LoadTarget?) {
        guard latencies.totalCount > 0 else { return }
        func ms(_ percentile: Double) -> String { (Double(latencies.valueAtPercentile(percentile)) / 1e6).fixed(1) }
        let name = "  \(figures.system) \(figures.flow.name) \(what)"
        let padding = String(repeating: " ", count: max(1, 44 - name.count))
        let held = target.map { target in
            let isHeld = Double(latencies.valueAtPercentile(target.percentile)) <= target.ms * 1e6
            return "  p\(target.percentile.fixed(0)) ≤ \(target.ms.fixed(0)): " + (isHeld ? "held" : "MISSED")
        }
        let figures = "\(latencies.totalCount)  p50 \(ms(50))  p95 \(ms(95))  p99 \(ms(99))  max \(ms(100))"
        print(name + padding + figures + (held ?? ""))
    }
}

/// What happens in Aboard.
enum StormMode: String, CaseIterable, ExpressibleByArgument {
    case quiet, posts, reconnects

    var title: String {
        switch self {
        case .quiet: "usual load"
        case .posts: "announcements to 20,000 inboxes"
        case .reconnects: "reconnect storm"
        }
    }
}

/// Aboard's clients, in a process of its own.
struct SystemsStorm: ParsableCommand {
    static let configuration = CommandConfiguration(commandName: "systems-storm", shouldDisplay: false)

    @Option var port: UInt16
    @Option var scale: Double
    @Option var mode: StormMode

    func run() throws {
        setpriority(__priority_which_t(PRIO_PROCESS.rawValue), 0, 10)
        raiseDescriptorLimit()
        let now = Int64(time(nil)) * 1000
        let aboard = AboardLoad(connections: scaled(AboardLoad.connections, scale), now: now)
        let clients = try LoadRun([aboard], port: port, scale: scale)
        if mode != .reconnects { try clients.connect() }
        print("ready 1")
        fflush(nil)
        // Until the measuring process ends this one.
        while true {
            switch mode {
            case .quiet: try clients.run(seconds: 1)
            case .posts:
                try post(now: now)
                try clients.run(seconds: 2)
            case .reconnects:
                try clients.connect(within: 10)
                clients.reset()
            }
        }
    }

    /// An announcement to everybody.
    private func post(now: Int64) throws {
        let key = "storm\(vigla_monotonic_ns())"
        let body = String(repeating: "The examination results are out. ", count: 60)
        let about = #""author":{"uid":"u0","name":"The dean"},"public":true,"tags":{"t2":"Tag 2"}"#
        let value = #"{"id":1,"title":"Results","body":"\#(body)",\#(about)}"#
        try putAsAdmin("/announcements/\(key).json?ns=aboard&print=silent", value, port: port)
    }
}
