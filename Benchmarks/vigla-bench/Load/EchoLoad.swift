import CBaseline
import CLinux
import Histogram

/// Every connection sends a message, waits for exactly that message, and sends the next.
struct EchoLoad {
    let connections: Int
    let messageBytes: Int
    let seconds: Double

    func run(against server: ServerProcess) throws -> Sample {
        let swarm = try Swarm(port: server.port)
        for _ in 0..<connections { _ = try swarm.connect("/echo") }
        try swarm.finishUpgrades()

        var texts = NumberedText(length: messageBytes)
        var frame: [UInt8] = []
        func sendNext(_ peer: LoadPeer) throws {
            peer.sequence += 1
            frame.removeAll(keepingCapacity: true)
            WebSocketBytes.appendMasked(texts.text(peer.sequence), to: &frame)
            peer.sentNs = vigla_monotonic_ns()
            try peer.send(frame)
        }

        var latencies = Histogram<UInt64>(highestTrackableValue: 60_000_000_000)
        var answered = 0
        let warmUntil = vigla_monotonic_ns() + UInt64(min(0.5, seconds / 5) * 1e9)
        var start: (ns: UInt64, cpu: UInt64)?
        var end: (ns: UInt64, cpu: UInt64)?
        let duration = UInt64(seconds * 1e9)
        for peer in swarm.peers { try sendNext(peer) }
        try swarm.run(until: { end != nil }, missing: { "an answer, after \(answered)" }) { peer, payload, now in
            guard texts.number(in: payload) == peer.sequence else {
                throw BenchError.unexpected("not the message \(peer.sequence) of connection \(peer.index)")
            }
            if let start {
                guard end == nil else { return }
                answered += 1
                latencies.record(now - peer.sentNs)
                if now - start.ns >= duration { return end = (now, server.cpuNs) }
            } else if now >= warmUntil {
                start = (now, server.cpuNs)
            }
            try sendNext(peer)
        }
        guard let start, let end else { throw BenchError.incomplete("the run did not begin") }
        return Sample(
            count: answered, wallNs: end.ns - start.ns, cpuNs: end.cpu - start.cpu, latencies: latencies,
            payloadBytes: messageBytes)
    }
}
