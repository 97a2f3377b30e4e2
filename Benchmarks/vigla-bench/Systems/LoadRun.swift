import CLinux
import Glibc
import Histogram
import JSONTree

/// The clients of some systems on one hub, with a development hub's unsigned tokens, and the latencies that they see.
final class LoadRun {
    /// The state of one connection.
    private struct Connection {
        let system: Int
        let number: Int
        var nextID = 1
        var answersAwaited = 0
        var requests: [(id: Int, flow: Int, sentNs: UInt64)] = []
        /// Requests whose event the first observer has not got yet, oldest first.
        var deliveries: [(flow: Int, sentNs: UInt64)] = []
    }

    /// The latencies of a flow in ns, and what was lost.
    struct Figures {
        let system: String
        let flow: LoadFlow
        var sent = 0
        var answered = Histogram<UInt64>(highestTrackableValue: 60_000_000_000)
        var delivered = Histogram<UInt64>(highestTrackableValue: 60_000_000_000)
    }

    private let swarm: Swarm
    private var systems: [any SystemLoad]
    private var connections: [Connection] = []
    /// Where the connections of each system begin.
    private var first: [Int] = []
    private(set) var figures: [Figures] = []
    /// The system and the number of each flow in it.
    private let flows: [(system: Int, number: Int)]
    private let scale: Double
    private var random = SystemRandomNumberGenerator()
    /// How late this program sent requests, at most; its own delay is not the hub's.
    private(set) var latestNs: UInt64 = 0

    init(_ systems: [any SystemLoad], port: UInt16, scale: Double) throws {
        (self.systems, self.scale) = (systems, scale)
        swarm = try Swarm(port: port)
        flows = systems.enumerated().flatMap { system, load in type(of: load).flows.indices.map { (system, $0) } }
        forget()
    }

    /// Forgets all latencies.
    func forget() {
        figures = flows.map { Figures(system: type(of: systems[$0.system]).name, flow: type(of: systems[$0.system]).flows[$0.number]) }
        latestNs = 0
    }

    /// Connects all clients, and returns when all their observers have their first events.
    /// - Parameter seconds: how long the clients take to come; 0 for as fast as the hub takes them.
    func connect(within seconds: Double = 0) throws {
        for (system, load) in systems.enumerated() {
            first.append(connections.count)
            for number in 0..<scaled(type(of: load).connections, scale) {
                _ = try swarm.connect("/.observe?ns=\(type(of: load).name)")
                connections.append(Connection(system: system, number: number))
            }
        }
        try swarm.finishUpgrades()
        let start = vigla_monotonic_ns()
        for peer in swarm.peers {
            let due = start + UInt64(seconds * 1e9) * UInt64(peer.index) / UInt64(connections.count)
            while vigla_monotonic_ns() < due { _ = try swarm.frames(withinMs: 1) { try receive($0, $1, $2) } }
            let (system, number) = (connections[peer.index].system, connections[peer.index].number)
            let (uid, claims) = systems[system].user(of: number)
            // Observers have the first numbers, so that the first one's events are found by theirs.
            let observers = systems[system].observers(of: number)
            var frames = WebSocketBytes.masked(#"{"id":0,"op":"auth","token":"\#(unsignedToken(uid, claims))"}"#)
            for members in observers { frames += WebSocketBytes.masked(request(peer.index, members)) }
            connections[peer.index].answersAwaited = observers.count + 1
            try peer.send(frames)
            // Not all at once: the hub may refuse too much at a time.
            if peer.index % 50 == 0 { _ = try swarm.frames(withinMs: 1) { try receive($0, $1, $2) } }
        }
        try swarm.run(
            until: { connections.allSatisfy { $0.answersAwaited == 0 } },
            missing: { "\(connections.filter { $0.answersAwaited > 0 }.count) connections without all their answers" }
        ) { try receive($0, $1, $2) }
    }

    /// Sends requests for some time, and receives what follows.
    func run(seconds: Double) throws {
        let start = vigla_monotonic_ns()
        let end = start + UInt64(seconds * 1e9)
        let interval = flows.indices.map { UInt64(1e9 / max(0.001, figures[$0].flow.perSecond * scale)) }
        // Not all flows at the same moment.
        var due = flows.indices.map { start + interval[$0] * UInt64($0 + 1) / UInt64(flows.count + 1) }
        while true {
            let now = vigla_monotonic_ns()
            guard now < end else { break }
            for flow in flows.indices where due[flow] <= now {
                latestNs = max(latestNs, now - due[flow])
                due[flow] += interval[flow]
                try send(flow)
            }
            let wait = (due.min() ?? end) &- vigla_monotonic_ns()
            _ = try swarm.frames(withinMs: wait > 1 << 40 ? 0 : Int32(wait / 1_000_000)) { try receive($0, $1, $2) }
        }
        // What is still under way.
        while try swarm.frames(withinMs: 1_000, { try receive($0, $1, $2) }) {
            if connections.allSatisfy({ $0.requests.isEmpty && $0.deliveries.isEmpty }) { break }
        }
    }

    /// Requests without an answer, and deliveries that did not come.
    var missing: Int { connections.reduce(0) { $0 + $1.requests.count + $1.deliveries.count } }

    /// Ends all connections with a reset.
    func reset() {
        swarm.reset()
        (connections, first) = ([], [])
    }

    private func request(_ connection: Int, _ members: String) -> String {
        defer { connections[connection].nextID += 1 }
        return #"{"id":\#(connections[connection].nextID),\#(members)}"#
    }

    private func send(_ flow: Int) throws {
        let (system, number) = flows[flow]
        let step = systems[system].next(number, &random)
        let connection = first[system] + step.connection
        let id = connections[connection].nextID
        let frame = WebSocketBytes.masked(request(connection, step.members))
        let now = vigla_monotonic_ns()
        connections[connection].requests.append((id, flow, now))
        for follower in step.followers { connections[first[system] + follower].deliveries.append((flow, now)) }
        figures[flow].sent += 1
        try swarm.peers[connection].send(frame)
    }

    private func receive(_ peer: LoadPeer, _ frame: UnsafeRawBufferPointer, _ nowNs: UInt64) throws {
        let at = peer.index
        if frame.starts(with: #"{"sub":1,"#.utf8) {
            guard let delivery = connections[at].deliveries.first else { return }
            connections[at].deliveries.removeFirst()
            figures[delivery.flow].delivered.record(nowNs - delivery.sentNs)
        } else if frame.starts(with: #"{"id":"#.utf8) {
            var (id, end) = (0, 6)
            while end < frame.count, (48...57).contains(frame[end]) {
                id = id * 10 + Int(frame[end]) - 48
                end += 1
            }
            guard frame[end...].starts(with: #","ok""#.utf8) else {
                let name = type(of: systems[connections[at].system]).name
                throw BenchError.unexpected("\(name): \(String(decoding: frame.prefix(300), as: UTF8.self))")
            }
            if connections[at].answersAwaited > 0 {
                connections[at].answersAwaited -= 1
            } else if let i = connections[at].requests.firstIndex(where: { $0.id == id }) {
                let request = connections[at].requests.remove(at: i)
                figures[request.flow].answered.record(nowNs - request.sentNs)
            }
        }
    }
}

/// A number of clients at a scale; enough for every role.
func scaled(_ count: Int, _ scale: Double) -> Int { max(100, Int(Double(count) * scale)) }

private func unsignedToken(_ uid: String, _ claims: String) -> String {
    var now = timespec()
    clock_gettime(CLOCK_REALTIME, &now)
    let times = #""iat":\#(now.tv_sec - 10),"auth_time":\#(now.tv_sec - 10),"exp":\#(now.tv_sec + 3600)"#
    let body = #"{"sub":"\#(uid)","user_id":"\#(uid)",\#(times),"firebase":{"sign_in_provider":"password"},\#(claims)}"#
    return [#"{"alg":"none","typ":"JWT"}"#, body, ""].map { Base64.encodeURL($0.utf8) }.joined(separator: ".")
}

/// The date of a time in ms, in UTC.
func utcDay(_ ms: Int64) -> String {
    var (seconds, parts) = (time_t(ms / 1000), tm())
    gmtime_r(&seconds, &parts)
    func two(_ number: Int32) -> String { number < 10 ? "0\(number)" : "\(number)" }
    return "\(parts.tm_year + 1900)-\(two(parts.tm_mon + 1))-\(two(parts.tm_mday))"
}
