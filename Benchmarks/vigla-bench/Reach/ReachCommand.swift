import ArgumentParser
import CLinux
import Glibc
import Histogram

/// An announcement to many people: rows in their inboxes, those who are online, and deliveries to the devices of all.
struct Reach: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "reach", abstract: "An announcement to many people: inbox rows, clients online, and a delivery for each person.",
        discussion: """
            Each person has a device at a webhook, which this program answers on the same machine. Some are online and observe their inbox.
            They are spread over all, so that the last row online is about the last of all. One client writes elsewhere all the time, first
            while nothing else happens. Times in ms; those of rows and deliveries are from the announcement.
            """)

    @Option(help: "People with a device.") var people = 20_000
    @Option(help: "People who are online.") var online = 500
    @Option(help: "Announcements, one after the other.") var runs = 2
    @Option(help: "The vigla program; without it the one beside vigla-bench.") var vigla: String?

    func validate() throws {
        guard 1...1_000_000 ~= people, 0...people ~= online, runs >= 1 else {
            throw ValidationError("--people is 1 to 1000000, --online at most as many, --runs 1 or more")
        }
    }

    private static let rules = #"""
        {"rules":{".read":true,".write":true,
          "news":{"$k":{".inbox":{"to":"inbox/$u/$k","each":"subs/$u","value":{"title":"newData.child('title').val()"}}}},
          "inbox":{"$u":{"$k":{".notify":{"devices":"devices/$u","title":"newData.child('title').val()","wait":0}}}}}}
        """#

    func run() throws {
        raiseDescriptorLimit()
        let (folder, sink) = (try BenchFolder(), try DeliverySink())
        try folder.write(Self.rules, to: "rules.json")
        let webhook = #"{"url":"http://127.0.0.1:\#(sink.port)/","secret":"a secret of this program","private":true,"devices":true}"#
        try folder.write(#"{"outbound":{"webhooks":{"sink":\#(webhook)}}}"#, to: "hub.json")
        let hub = try ServerProcess(
            vigla ?? besideThisProgram("vigla"),
            [
                "serve", "--dev", "--port", "0", "--data", folder.path, "--config", "\(folder.path)/hub.json", "--rules",
                "\(folder.path)/rules.json", "--log-level", "error",
            ])
        let names = (0..<people).map { "u\($0)" }
        try putAsAdmin("/subs.json?print=silent", "{" + names.map { #""\#($0)":true"# }.joined(separator: ",") + "}", port: hub.port)
        let device = #"{"d":{"kind":"webhook","name":"sink"}}"#
        try putAsAdmin("/devices.json?print=silent", "{" + names.map { #""\#($0)":\#(device)"# }.joined(separator: ",") + "}", port: hub.port)

        let load = try ReachLoad(port: hub.port, online: (0..<online).map { names[$0 * people / online] })
        print("\(people) people, \(online) online, hub \(hub.residentBytes >> 20) MiB")
        try load.write(forSeconds: 5)
        load.show("quiet")
        for number in 1...runs {
            let (cpu, start, before) = (hub.cpuNs, vigla_monotonic_ns(), sink.received)
            try load.announce("k\(number)")
            let end = start + 120_000_000_000
            while sink.received < before + people, vigla_monotonic_ns() < end { try load.write(forSeconds: 0.05) }
            let took = Double(sink.lastNs - start) / 1e6
            let busy = Double(hub.cpuNs - cpu) / Double(sink.lastNs - start) * 100
            print("announcement \(number): \(sink.received - before) deliveries in \(took.fixed(0)) ms, hub \(busy.fixed(0)) % of a core")
            load.show("  meanwhile")
        }
    }
}

/// The clients of `Reach`: one that writes, and those who are online.
private final class ReachLoad {
    private let swarm: Swarm
    private var nextID = 1
    private var sentNs: UInt64 = 0
    private var announcedNs: UInt64 = 0
    private var isWaiting = false
    private var writes = Histogram<UInt64>(highestTrackableValue: 60_000_000_000)
    private var rows = Histogram<UInt64>(highestTrackableValue: 60_000_000_000)

    /// - Parameter online: the people who observe their inboxes.
    init(port: UInt16, online: [String]) throws {
        swarm = try Swarm(port: port)
        for _ in 0...online.count { _ = try swarm.connect("/.observe") }
        try swarm.finishUpgrades()
        var ready = 0
        for (peer, name) in zip(swarm.peers.dropFirst(), online) {
            try peer.send(WebSocketBytes.masked(#"{"id":1,"op":"observe","path":"/inbox/\#(name)","events":["added"]}"#))
        }
        try swarm.run(until: { ready >= online.count }, missing: { "\(online.count - ready) observers" }) { _, frame, _ in
            if frame.starts(with: #"{"id":1,"#.utf8) { ready += 1 }
        }
    }

    /// Writes one value after the other, with a pause of some ms between them.
    func write(forSeconds seconds: Double) throws {
        let end = vigla_monotonic_ns() + UInt64(seconds * 1e9)
        var next = vigla_monotonic_ns()
        while vigla_monotonic_ns() < end {
            if !isWaiting, vigla_monotonic_ns() >= next {
                (isWaiting, sentNs, next) = (true, vigla_monotonic_ns(), vigla_monotonic_ns() + 5_000_000)
                nextID += 1
                try swarm.peers[0].send(WebSocketBytes.masked(#"{"id":\#(nextID),"op":"set","path":"/elsewhere","value":\#(nextID)}"#))
            }
            _ = try swarm.frames(withinMs: 1) { try receive($0, $1, $2) }
        }
    }

    func announce(_ key: String) throws {
        nextID += 1
        let value = #"{"title":"An announcement to everybody"}"#
        announcedNs = vigla_monotonic_ns()
        try swarm.peers[0].send(WebSocketBytes.masked(#"{"id":0,"op":"set","path":"/news/\#(key)","value":\#(value)}"#))
    }

    private func receive(_ peer: LoadPeer, _ frame: UnsafeRawBufferPointer, _ nowNs: UInt64) throws {
        if peer.index == 0 {
            guard frame.starts(with: #"{"id":\#(nextID),"#.utf8) else { return }
            isWaiting = false
            writes.record(nowNs - sentNs)
            return
        }
        rows.record(nowNs - announcedNs)
    }

    func show(_ title: String) {
        func line(_ figures: Histogram<UInt64>) -> String {
            func ms(_ percentile: Double) -> String { (Double(figures.valueAtPercentile(percentile)) / 1e6).fixed(1) }
            return "\(figures.totalCount)  p50 \(ms(50))  p99 \(ms(99))  max \(ms(100))"
        }
        print("\(title): other writes \(line(writes))" + (rows.totalCount > 0 ? "; rows online \(line(rows))" : ""))
        writes = Histogram(highestTrackableValue: 60_000_000_000)
        rows = Histogram(highestTrackableValue: 60_000_000_000)
    }
}
