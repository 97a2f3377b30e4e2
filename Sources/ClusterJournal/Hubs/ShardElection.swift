/// Chooses the hub that writes a shard: the one of the highest rank that has caught up with the log. Each shard ranks the hubs in a different
/// order, so that they share the shards, and a hub that comes or goes moves no other hub's shards.
enum Ranking {
    static func rank(_ hub: UInt64, at shard: Int) -> UInt64 { mixed(hub ^ mixed(UInt64(shard) &+ 0x9E37_79B9_7F4A_7C15)) }

    static func isBetter(_ a: UInt64, _ b: UInt64, at shard: Int) -> Bool { (rank(a, at: shard), a) > (rank(b, at: shard), b) }

    static func best(_ hubs: some Sequence<UInt64>, at shard: Int) -> UInt64? { hubs.max { isBetter($1, $0, at: shard) } }

    /// SplitMix64: each bit of the result depends on all bits of the number.
    private static func mixed(_ number: UInt64) -> UInt64 {
        var z = number
        z = (z ^ (z >> 30)) &* 0xBF58_476D_1CE4_E5B9
        z = (z ^ (z >> 27)) &* 0x94D0_49BB_1331_11EB
        return z ^ (z >> 31)
    }
}

/// One hub's part in the election of a shard's writer. Safety does not depend on it: if two hubs both believe that they write, the log
/// decides between them. A pure value.
///
/// ```
/// following ── no hub writes, and this hub is the best ready one ──────► writing
///     ▲                                                                   │ a better one is ready, for a while
///     ├── all pending writes are settled ───────────── yielding ◄─────────┘
///     └── another one has written: not ready for a while ─────────────────┘
/// ```
struct ShardElection {
    struct Settings: Sendable {
        /// Time for which a superseded hub does not write.
        var cooldownMs: Int64 = 5_000
        /// Time for which a better hub must be ready before this one yields.
        var yieldAfterMs: Int64 = 2_000
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
    private var cooldownEndsMs = Int64.min
    /// Start of the time for which a better hub has been ready without a break.
    private var betterSince: Int64?

    init(hub: UInt64, shard: Int, _ settings: Settings) { (self.hub, self.shard, self.settings) = (hub, shard, settings) }

    /// Whether this hub may write, as far as the election is concerned.
    func isReady(nowMs: Int64) -> Bool { nowMs >= cooldownEndsMs }

    /// Decides the next step and updates this hub's part.
    /// - Parameters:
    ///   - isCaughtUp: whether this hub has caught up with the log.
    ///   - peers: the other live hubs; nil while they are unknown.
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
            // If two hubs write, the worse one yields at once.
            guard nowMs - since >= settings.yieldAfterMs || better.contains(where: \.writes) else { return nil }
            (part, betterSince) = (.yielding, nil)
            return .yield
        }
    }

    /// Completes a yield: all pending writes are settled.
    mutating func yielded() { if part == .yielding { part = .following } }

    /// Stops writing, because another hub has written or the log rejected this hub's write.
    mutating func superseded(nowMs: Int64) {
        (part, betterSince, cooldownEndsMs) = (.following, nil, nowMs + settings.cooldownMs)
    }
}
