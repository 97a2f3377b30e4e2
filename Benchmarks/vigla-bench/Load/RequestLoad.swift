import CBaseline
import CLinux
import Histogram

/// Every connection sends one request at a time to a hub, in realtime protocol v5 (contract §2), and the next one after the answer.
struct RequestLoad {
    enum Kind: String, CaseIterable {
        /// Reads an existing value.
        case get
        /// Each connection writes its own place, in memory.
        case put
        /// Each connection writes its own place, under rules, on disk.
        case durable
        /// The same with an observer of all places, which is notified of each write.
        case notified = "told"

        var isOnDisk: Bool { self == .durable || self == .notified }
    }

    let kind: Kind
    let connections: Int
    /// Bytes of the value that is read or written.
    let valueBytes: Int
    let seconds: Double

    /// Rules of the places that are written.
    static let rules = #"{"rules":{"bench":{".read":true,"$place":{".write":true,".validate":"newData.isString()"}}}}"#

    func run(against server: ServerProcess) throws -> Sample {
        let swarm = try Swarm(port: server.port)
        for _ in 0..<connections { _ = try swarm.connect(Realtime.target) }
        let first = try begin(swarm)
        let observer = kind == .notified ? try observe(swarm) : nil

        var latencies = Histogram<UInt64>(highestTrackableValue: 60_000_000_000)
        var (answered, payload) = (0, first)
        let warmUntil = vigla_monotonic_ns() + UInt64(min(0.5, seconds / 5) * 1e9)
        var start: (ns: UInt64, cpu: UInt64)?
        var end: (ns: UInt64, cpu: UInt64)?
        let duration = UInt64(seconds * 1e9)
        for peer in swarm.peers.prefix(connections) { try ask(peer) }
        try swarm.run(until: { end != nil }, missing: { "an answer, after \(answered)" }) { peer, bytes, now in
            if peer === observer { return }
            try check(bytes, of: peer)
            payload = bytes.count
            if let start {
                guard end == nil else { return }
                answered += 1
                latencies.record(now - peer.sentNs)
                if now - start.ns >= duration { return end = (now, server.cpuNs) }
            } else if now >= warmUntil {
                start = (now, server.cpuNs)
            }
            try ask(peer)
        }
        guard let start, let end else { throw BenchError.incomplete("the run did not begin") }
        return Sample(
            count: answered, wallNs: end.ns - start.ns, cpuNs: end.cpu - start.cpu, latencies: latencies, payloadBytes: payload)
    }

    /// Waits for every greeting and writes the value to be read.
    /// - Returns: bytes of the answer.
    private func begin(_ swarm: Swarm) throws -> Int {
        var greeted = 0
        try swarm.run(until: { greeted == connections }, missing: { "\(connections - greeted) greetings" }) { _, _, _ in greeted += 1 }
        guard let peer = swarm.peers.first else { return 0 }
        peer.sequence += 1
        try peer.send(WebSocketBytes.masked(message(peer.sequence, "p", #"{"p":"/bench/x","d":"\#(value)"}"#)))
        var bytes = 0
        try swarm.run(until: { bytes > 0 }, missing: { "the answer to the first write" }) { peer, payload, _ in
            try check(payload, of: peer)
            bytes = payload.count
        }
        return bytes
    }

    private func observe(_ swarm: Swarm) throws -> LoadPeer {
        let observer = try swarm.connect(Realtime.target)
        var isObserving = false
        try swarm.run(until: { isObserving }, missing: { "the answer to the listen" }) { peer, payload, _ in
            let text = String(decoding: payload, as: UTF8.self)
            if text.contains(#""t":"h""#) { try peer.send(WebSocketBytes.masked(message(1, "q", #"{"p":"/bench","h":""}"#))) }
            if text.contains(#""r":1,"#) { isObserving = text.contains(#""s":"ok""#) }
        }
        return observer
    }

    private var value: String { value(0) }

    /// Alternating values: writing the existing value is not a change, so an observer would not be notified.
    private func value(_ number: Int) -> String { String(repeating: number % 2 == 0 ? "v" : "w", count: valueBytes) }

    private func message(_ number: Int, _ action: String, _ body: String) -> String {
        #"{"t":"d","d":{"r":\#(number),"a":"\#(action)","b":\#(body)}}"#
    }

    private func ask(_ peer: LoadPeer) throws {
        peer.sequence += 1
        let text = switch kind {
        case .get: message(peer.sequence, "g", #"{"p":"/bench/x"}"#)
        case .put, .durable, .notified: message(peer.sequence, "p", #"{"p":"/bench/p\#(peer.index)","d":"\#(value(peer.sequence))"}"#)
        }
        let frame = WebSocketBytes.masked(text)
        peer.sentNs = vigla_monotonic_ns()
        try peer.send(frame)
    }

    /// The answer must be to the connection's last request, and say ok.
    private func check(_ payload: UnsafeRawBufferPointer, of peer: LoadPeer) throws {
        let head = Array(#"{"t":"d","d":{"r":\#(peer.sequence),"b":{"s":"ok""#.utf8)
        guard payload.count >= head.count, payload.prefix(head.count).elementsEqual(head) else {
            throw BenchError.unexpected(String(decoding: payload.prefix(200), as: UTF8.self))
        }
    }
}
