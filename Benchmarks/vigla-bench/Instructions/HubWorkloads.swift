extension Workload {
    /// Requests of the stock SDKs to a whole hub in this process, over local connections, one request at a time: from the received
    /// frame to the sent frames.
    static let hub: [Workload] = [
        Workload(name: "get", count: 200) {
            let hub = try MeasuredHub()
            let peer = try hub.realtime()
            try peer.ask("p", #"{"p":"/bench/x","d":"\#(text("v"))"}"#)
            return try repeating(hub, peer, [MeasuredPeer.request("g", #"{"p":"/bench/x"}"#)])
        },
        Workload(name: "put-with-rules", count: 200) {
            let hub = try MeasuredHub()
            return try repeating(hub, hub.realtime(), puts)
        },
        Workload(name: "put-to-observer-above", count: 200) {
            let hub = try MeasuredHub()
            let observer = try hub.realtime()
            try observer.ask("q", #"{"p":"/bench","h":""}"#)
            let peer = try hub.realtime()
            let put = try repeating(hub, peer, puts)
            let bytes = try puts.map { _ in try observer.frame().count }[0]
            // The first put writes the existing value, which is not a change.
            try put(1)
            return { times in
                for first in stride(from: 0, to: times, by: 20) {
                    let some = min(20, times - first)
                    try put(some)
                    try observer.pass(some * bytes)
                }
            }
        },
        Workload(name: "put-to-100-observers", count: 60) {
            let hub = try MeasuredHub()
            let observers = try (0..<100).map { _ in try hub.realtime() }
            for observer in observers { try observer.ask("q", #"{"p":"/bench/x","h":""}"#) }
            let peer = try hub.realtime()
            let put = try repeating(hub, peer, puts)
            try put(1)
            let bytes = try observers.map { try $0.frame().count }
            return { times in
                for first in stride(from: 0, to: times, by: 20) {
                    let some = min(20, times - first)
                    try put(some)
                    // Read later, many at once: the observers' reads must not count as the hub's work.
                    for (observer, bytes) in zip(observers, bytes) { try observer.pass(some * bytes) }
                }
            }
        },
        // The writer itself observes the latest 50: its own change comes before the answer.
        Workload(name: "window-update", count: 100) {
            let hub = try MeasuredHub()
            let peer = try hub.realtime()
            try peer.ask("q", #"{"p":"/posts","q":{"i":"at","l":50,"vf":"r"},"t":7,"h":""}"#)
            var number = 0
            func next() -> [UInt8] {
                number += 1
                let record = #"{"author":"user-17","at":\#(1_763_846_400_000 + number),"on":true,"text":"a message of some words"}"#
                return MeasuredPeer.request("p", #"{"p":"/posts/-Nx8sKq2Ld0aB\#(1_000_000 + number)","d":\#(record)}"#)
            }
            for _ in 0..<60 {
                try peer.send(next())
                try peer.awaitAnswer()
            }
            try peer.send(next())
            let bytes = try peer.awaitAnswer()
            return { [hub] times in
                for _ in 0..<times {
                    try peer.send(next())
                    try peer.pass(bytes)
                }
                workloadSink &+= Int(hub.port)
            }
        },
    ]

    private static func text(_ letter: Character) -> String { String(repeating: letter, count: 64) }

    /// Two alternating values, as writing the existing value is not a change.
    private static var puts: [[UInt8]] {
        (["v", "w"] as [Character]).map { MeasuredPeer.request("p", #"{"p":"/bench/x","d":"\#(text($0))"}"#) }
    }

    /// Sends requests in turn, whose answers have the same length.
    private static func repeating(_ hub: MeasuredHub, _ peer: MeasuredPeer, _ requests: [[UInt8]]) throws -> (Int) throws -> Void {
        var bytes = 0
        for request in requests {
            try peer.send(request)
            bytes = try peer.awaitAnswer()
        }
        var turn = 0
        return { times in
            for _ in 0..<times {
                turn += 1
                try peer.send(requests[turn % requests.count])
                try peer.pass(bytes)
            }
            workloadSink &+= Int(hub.port)
        }
    }
}
