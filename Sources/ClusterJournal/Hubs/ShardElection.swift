/// Which of several hubs writes a shard: the one of the highest rank that has what the log holds. Each shard ranks the hubs in an order of
/// its own, so that they share the shards, and one that comes or goes moves no others.
enum Ranking {
    static func rank(_ hub: UInt64, at shard: Int) -> UInt64 { mixed(hub ^ mixed(UInt64(shard) &+ 0x9E37_79B9_7F4A_7C15)) }

    static func isBetter(_ a: UInt64, _ b: UInt64, at shard: Int) -> Bool { (rank(a, at: shard), a) > (rank(b, at: shard), b) }

    static func best(_ hubs: some Sequence<UInt64>, at shard: Int) -> UInt64? { hubs.max { isBetter($1, $0, at: shard) } }

    /// SplitMix64: each bit of the result depends on all of the number's.
    private static func mixed(_ number: UInt64) -> UInt64 {
        var z = number
        z = (z ^ (z >> 30)) &* 0xBF58_476D_1CE4_E5B9
        z = (z ^ (z >> 27)) &* 0x94D0_49BB_1331_11EB
        return z ^ (z >> 31)
    }
}

/// One hub's part in the election of a shard's writer. Safety does not rest on it: two hubs that both believe that they write are decided
/// between by the log. A pure value.
///
/// ```
/// following ── nobody writes, and this hub is the best that is ready ──► writing
///     ▲                                                                   │ a better one is ready, for a while
///     ├── all that was under way is settled ────────── yielding ◄─────────┘
///     └── another one has written: not ready for a while ─────────────────┘
/// ```
struct ShardElection {
    struct Settings: Sendable {
        /// For which a hub that another one has superseded does not write.
        var restMs: Int64 = 5_000
        /// For which a better hub has to be ready before it is yielded to.
        var preferMs: Int64 = 2_000
    }

    struct Peer: Equatable, Sendable {
        var hub: UInt64
        var isReady: Bool
        var writes: Bool
    }

    enum Part: Equatable { case following, writing, yielding }
    enum Step: Equatable { case write, yield }

    let hub: UInt64
    let shard: Int
    let settings: Settings
    private(set) var part = Part.following
    private var restsUntil = Int64.min
    /// Since when a better hub was ready without a break.
    private var betterSince: Int64?

    init(hub: UInt64, shard: Int, _ settings: Settings) { (self.hub, self.shard, self.settings) = (hub, shard, settings) }

    /// Whether it may write as far as this is concerned.
    func isReady(nowMs: Int64) -> Bool { nowMs >= restsUntil }

    /// What to do now; the part has changed with it.
    /// - Parameters:
    ///   - isCaughtUp: whether this hub has what the log holds.
    ///   - peers: the others that are alive; nil while that is not known.
    mutating func decide(isCaughtUp: Bool, _ peers: [Peer]?, nowMs: Int64) -> Step? {
        guard let peers else { return nil }
        let better = peers.filter { $0.isReady && (!isCaughtUp || Ranking.isBetter($0.hub, hub, at: shard)) }
        switch part {
        case .yielding: return nil
        case .following:
            betterSince = nil
            guard isCaughtUp, isReady(nowMs: nowMs), better.isEmpty, !peers.contains(where: \.writes) else { return nil }
            part = .writing
            return .write
        case .writing:
            guard !better.isEmpty else {
                betterSince = nil
                return nil
            }
            let since = betterSince ?? nowMs
            betterSince = since
            // Of two that write, the worse one yields at once.
            guard nowMs - since >= settings.preferMs || better.contains(where: \.writes) else { return nil }
            (part, betterSince) = (.yielding, nil)
            return .yield
        }
    }

    /// All that was under way is settled.
    mutating func yielded() { if part == .yielding { part = .following } }

    /// Another hub has written, or the log was not to be written.
    mutating func superseded(nowMs: Int64) {
        (part, betterSince, restsUntil) = (.following, nil, nowMs + settings.restMs)
    }
}
