import CBaseline
import CLinux
import Histogram

/// One publisher, many observers. A burst of messages is published; the next follows when every observer has every message of
/// it. Each observer must get all messages, in order and byte for byte.
struct FanoutLoad {
    let observers: Int
    let messages: Int
    /// Messages per burst; 1 is "one at a time".
    let burst: Int
    let textBytes: Int
    let speech: Speech
    /// The server's certificate; nil without TLS.
    let trusting: String?

    /// The protocol of a server.
    enum Speech {
        /// Plain text frames: connections to `/observe` listen, others publish.
        case plain
        /// Realtime protocol v5 (contract §1.3, §2).
        case realtime
    }

    func run(against server: ServerProcess) throws -> Sample { try run(against: [server]) }

    /// - Parameter servers: with the same content; observers are distributed over them, the publisher uses the first. The CPU time is their sum.
    func run(against servers: [ServerProcess]) throws -> Sample {
        let swarm = try Swarm(port: servers[0].port, trusting: trusting)
        var cpuNs: UInt64 { servers.reduce(0) { $0 + $1.cpuNs } }
        for i in 0..<observers {
            _ = try swarm.connect(speech == .plain ? "/observe" : Realtime.target, port: servers[i % servers.count].port)
        }
        let publisher = try swarm.connect(speech == .plain ? "/publish" : Realtime.target)
        if speech == .plain { try swarm.finishUpgrades() } else { try Realtime.begin(swarm, publisher) }

        var texts = NumberedText(length: textBytes)
        var latencies = Histogram<UInt64>(highestTrackableValue: 60_000_000_000)
        let warmUp = min(max(burst, messages / 10), 200)
        let total = warmUp + messages
        var published = 0
        var burstNs: UInt64 = 0
        var behind = 0  // observers × messages of this burst that are still missing
        var acknowledged = 0
        var start = (ns: UInt64(0), cpu: UInt64(0))
        var isMeasuring = false

        while published < total {
            if !isMeasuring, published >= warmUp {
                isMeasuring = true
                start = (vigla_monotonic_ns(), cpuNs)
            }
            let size = min(burst, (isMeasuring ? total : warmUp) - published)
            var frames: [UInt8] = []
            for number in (published + 1)...(published + size) {
                let text = texts.text(number)
                WebSocketBytes.appendMasked(speech == .plain ? text : Realtime.put(text, request: number), to: &frames)
            }
            published += size
            behind = observers * size
            burstNs = vigla_monotonic_ns()
            try publisher.send(frames)
            try swarm.run(
                until: { behind == 0 },
                missing: { "\(behind) of \(observers * size) deliveries of the messages up to \(published)" }
            ) { peer, payload, now in
                if peer === publisher {
                    try Realtime.checkAcknowledgement(payload)
                    acknowledged += 1
                    return
                }
                guard let number = texts.number(in: payload), number == peer.sequence + 1 else {
                    let text = String(decoding: payload.prefix(200), as: UTF8.self)
                    throw BenchError.unexpected("observer \(peer.index) after \(peer.sequence): \(text)")
                }
                peer.sequence = number
                behind -= 1
                if isMeasuring { latencies.record(now - burstNs) }
            }
        }
        let end = (ns: vigla_monotonic_ns(), cpu: cpuNs)
        if speech == .realtime {
            try swarm.run(until: { acknowledged == total }, missing: { "\(total - acknowledged) acknowledgements" }) {
                peer, payload, _ in
                guard peer === publisher else { throw BenchError.unexpected("a push after the last message") }
                try Realtime.checkAcknowledgement(payload)
                acknowledged += 1
            }
        }
        return Sample(
            count: observers * messages, wallNs: end.ns - start.ns, cpuNs: end.cpu - start.cpu, latencies: latencies,
            payloadBytes: texts.wrappedLength ?? textBytes)
    }
}

/// The load generator's messages to a hub (contract §1.2, §1.3, §2).
enum Realtime {
    static let target = "/.ws?v=5&ns=bench"
    private static let listen = #"{"t":"d","d":{"r":1,"a":"q","b":{"p":"/bench/x","h":""}}}"#

    static func put(_ text: [UInt8], request: Int) -> [UInt8] {
        Array(#"{"t":"d","d":{"r":\#(request),"a":"p","b":{"p":"/bench/x","d":""#.utf8) + text + Array(#""}}}"#.utf8)
    }

    /// Waits for every hello, makes every connection but the publisher listen, and waits for every answer.
    static func begin(_ swarm: Swarm, _ publisher: LoadPeer) throws {
        var greeted = 0
        var listening = 0
        let request = WebSocketBytes.masked(listen)
        try swarm.run(
            until: { greeted == swarm.peers.count && listening == swarm.peers.count - 1 },
            missing: { "\(swarm.peers.count - greeted) greetings, \(swarm.peers.count - 1 - listening) listens" }
        ) { peer, payload, _ in
            let text = String(decoding: payload, as: UTF8.self)
            if text.contains(#""t":"h""#) {
                greeted += 1
                if peer !== publisher { try peer.send(request) }
            } else if text.contains(#""r":1"#) {
                guard text.contains(#""s":"ok""#) else { throw BenchError.unexpected(text) }
                listening += 1
            }
        }
    }

    static func checkAcknowledgement(_ payload: UnsafeRawBufferPointer) throws {
        let text = String(decoding: payload, as: UTF8.self)
        guard text.contains(#""s":"ok""#) else { throw BenchError.unexpected(text) }
    }
}
