import Testing

@testable import ClusterJournal

/// Which hub writes a shard, decided from the hubs' heartbeats.
@Suite struct HubsTests {
    private typealias Peer = ShardElection.Peer

    /// Hubs in the order of their rank at a shard, the best one first.
    private func ranked(_ count: Int, at shard: Int = 3) -> [UInt64] {
        (1...UInt64(count)).sorted { Ranking.isBetter($0, $1, at: shard) }
    }

    private func election(_ hub: UInt64) -> ShardElection { ShardElection(hub: hub, shard: 3, ShardElection.Settings()) }

    // MARK: Ranks

    @Test func ranking_sharesShards_andMovesOnlyThoseOfTheHubThatIsGone() {
        let hubs: [UInt64] = [7, 8, 9, 0x10_0000, .max]
        let writers = (0..<1_000).map { Ranking.best(hubs, at: $0) ?? 0 }
        for hub in hubs {
            let share = writers.count { $0 == hub }
            #expect((140...260).contains(share), "\(share)")
            for (shard, writer) in writers.enumerated() where writer != hub {
                #expect(Ranking.best(hubs.filter { $0 != hub }, at: shard) == writer)
            }
        }
        #expect(Ranking.best([UInt64](), at: 0) == nil && writers == (0..<1_000).map { Ranking.best(hubs.reversed(), at: $0) })
    }

    // MARK: Elections

    @Test func hub_writes_whenItIsTheBestThatIsReady_andNobodyElseDoes() {
        let hubs = ranked(3)
        var best = election(hubs[0])
        #expect(best.decide(isCaughtUp: true, nil, nowMs: 0) == nil, "whom it hears is not known yet")
        #expect(best.decide(isCaughtUp: false, [], nowMs: 0) == nil)
        #expect(best.decide(isCaughtUp: true, [Peer(hub: hubs[1], isReady: true, writes: true)], nowMs: 0) == nil)
        #expect(best.decide(isCaughtUp: true, [Peer(hub: hubs[1], isReady: true, writes: false)], nowMs: 0) == .write)
        #expect(best.decide(isCaughtUp: true, [], nowMs: 1) == nil && best.part == .writing)
        var second = election(hubs[1])
        #expect(second.decide(isCaughtUp: true, [Peer(hub: hubs[0], isReady: true, writes: false)], nowMs: 0) == nil)
        #expect(second.decide(isCaughtUp: true, [Peer(hub: hubs[0], isReady: false, writes: false)], nowMs: 0) == .write)
    }

    @Test func writer_yieldsToABetterOne_thatHasBeenReadyForAWhile() {
        let hubs = ranked(2)
        var second = election(hubs[1])
        #expect(second.decide(isCaughtUp: true, [], nowMs: 0) == .write)
        let (ready, away) = (Peer(hub: hubs[0], isReady: true, writes: false), Peer(hub: hubs[0], isReady: false, writes: false))
        #expect(second.decide(isCaughtUp: true, [ready], nowMs: 100) == nil)
        #expect(second.decide(isCaughtUp: true, [ready], nowMs: 2_099) == nil)
        // The wait restarts if it was not ready in between.
        #expect(second.decide(isCaughtUp: true, [away], nowMs: 2_100) == nil)
        #expect(second.decide(isCaughtUp: true, [ready], nowMs: 2_200) == nil)
        #expect(second.decide(isCaughtUp: true, [ready], nowMs: 4_199) == nil)
        #expect(second.decide(isCaughtUp: true, [ready], nowMs: 4_200) == .yield)
        #expect(second.decide(isCaughtUp: true, [away], nowMs: 4_300) == nil && second.part == .yielding)
        second.yielded()
        #expect(second.part == .following && second.decide(isCaughtUp: true, [ready], nowMs: 4_400) == nil)
        #expect(second.decide(isCaughtUp: true, [], nowMs: 4_500) == .write)
    }

    @Test func writer_thatLacksSomething_yieldsAlsoToAWorseOne() {
        let hubs = ranked(2)
        var best = election(hubs[0])
        #expect(best.decide(isCaughtUp: true, [], nowMs: 0) == .write)
        let worse = Peer(hub: hubs[1], isReady: true, writes: false)
        #expect(best.decide(isCaughtUp: true, [worse], nowMs: 10_000) == nil)
        #expect(best.decide(isCaughtUp: false, [worse], nowMs: 20_000) == nil)
        #expect(best.decide(isCaughtUp: false, [worse], nowMs: 22_000) == .yield)
    }

    @Test func ofTwoThatWrite_theWorseOneYieldsAtOnce() {
        let hubs = ranked(2)
        var (best, second) = (election(hubs[0]), election(hubs[1]))
        #expect(best.decide(isCaughtUp: true, [], nowMs: 0) == .write && second.decide(isCaughtUp: true, [], nowMs: 0) == .write)
        #expect(best.decide(isCaughtUp: true, [Peer(hub: hubs[1], isReady: true, writes: true)], nowMs: 9_000) == nil)
        #expect(second.decide(isCaughtUp: true, [Peer(hub: hubs[0], isReady: true, writes: true)], nowMs: 1) == .yield)
    }

    @Test func hub_thatWasSuperseded_restsBeforeItWritesAgain() {
        let hub = ranked(1)[0]
        var one = election(hub)
        #expect(one.decide(isCaughtUp: true, [], nowMs: 0) == .write)
        one.superseded(nowMs: 1_000)
        #expect(one.part == .following && !one.isReady(nowMs: 5_999) && one.isReady(nowMs: 6_000))
        #expect(one.decide(isCaughtUp: true, [], nowMs: 5_999) == nil)
        #expect(one.decide(isCaughtUp: true, [], nowMs: 6_000) == .write)
    }

    // MARK: Heartbeats

    @Test func beat_isReadAsItWasSaid_andNothingElseIs() {
        let shards = (UInt64(0)..<16).map { (number: UInt64) -> Heartbeat.Shard in
            Heartbeat.Shard(isReady: number % 2 == 0, writes: number % 3 == 0, applied: number << 40)
        }
        let beat = Heartbeat(hub: .max - 1, startedMs: -5, address: "http://é:1", shards: shards)
        #expect(Heartbeat(decoding: beat.encoded) == beat)
        for count in 0..<beat.encoded.count {
            let cut = Heartbeat(decoding: Array(beat.encoded.prefix(count)))
            #expect(cut == nil || cut?.shards.count ?? 0 < 16)
        }
        #expect(Heartbeat(decoding: [1] + beat.encoded) == nil)
    }

    @Test func table_forgetsWhoIsSilent_andWhoHasEnded_butNotWhileThisHubWasAway() {
        var table = HubTable()
        let said = { (hub: UInt64) in Heartbeat(hub: hub, startedMs: 0, address: "", shards: [Heartbeat.Shard(isReady: true, writes: hub == 1)]) }
        table.receive(said(1), nowMs: 100)
        table.receive(said(2), nowMs: 200)
        #expect(Set(table.peers(at: 0).map(\.hub)) == [1, 2] && table.peers(at: 1).isEmpty)
        #expect(table.forget(before: 200).map(\.beat.hub) == [1])
        #expect(table.peers(at: 0) == [Peer(hub: 2, isReady: true, writes: false)])
        table.wasAway(nowMs: 5_000)
        #expect(table.forget(before: 5_000).isEmpty)
        table.receive(Heartbeat(hub: 2, startedMs: 0, address: "", shards: []), nowMs: 5_001)
        #expect(table.hubs.isEmpty)
    }
}
