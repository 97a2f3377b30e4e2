import TestSupport
import Testing

@testable import Outbound

/// The order of requests, by a naive model and in cases.
struct SendQueueTests {
    private func limits(_ change: (inout SenderLimits) -> Void) -> SenderLimits {
        var limits = SenderLimits()
        change(&limits)
        return limits
    }

    @Test func hosts_takeTurns() {
        var queue = SendQueue(limits { ($0.atOnce, $0.atOncePerHost) = (100, 100) })
        for id in 1...3 { #expect(queue.add(id, host: "a", now: 0) == true) }
        for id in 4...6 { #expect(queue.add(id, host: "b", now: 0) == true) }
        #expect(queue.start().map(\.id) == [1, 4, 2, 5, 3, 6])
    }

    @Test func newHosts_shareAPart() throws {
        var queue = SendQueue(limits { ($0.atOnce, $0.atOnceToNew, $0.atOncePerHost) = (4, 2, 4) })
        _ = queue.add(0, host: "known", now: 0)
        queue.finished(try #require(queue.start().first), isPrompt: true)
        for id in 1...6 { _ = queue.add(id, host: "new\(id)", now: 0) }
        let new = queue.start()
        #expect(new.map(\.id) == [1, 2])
        for id in 7...9 { _ = queue.add(id, host: "known", now: 0) }
        let known = queue.start()
        #expect(known.map(\.id) == [7, 8] && known.allSatisfy { $0.part == .proven })
        queue.finished(new[0], isPrompt: true)
        queue.finished(new[1], isPrompt: true)
        #expect(Set(queue.start().map(\.id)) == [3, 9])
    }

    /// Failed hosts must not take the places of hosts that are tried for the first time.
    @Test func failedHosts_haveAPartOfTheirOwn() {
        var queue = SendQueue(limits { ($0.atOnce, $0.atOnceToNew, $0.atOnceToFailed) = (8, 2, 1) })
        for id in 1...2 { _ = queue.add(id, host: "bad\(id)", now: 0) }
        for place in queue.start() { queue.finished(place, isPrompt: false) }
        // They are remembered without requests.
        for id in 3...4 { _ = queue.add(id, host: "bad\(id - 2)", now: 0) }
        let failed = queue.start()
        #expect(failed == [.init(id: 3, host: "bad1", part: .failed)])
        for id in 5...6 { _ = queue.add(id, host: "new\(id)", now: 0) }
        #expect(queue.start().map(\.id) == [5, 6])
        queue.finished(failed[0], isPrompt: true)
        #expect(queue.start() == [.init(id: 4, host: "bad2", part: .failed)])
    }

    @Test func host_isDemoted_afterThreeFailuresInARow() throws {
        var queue = SendQueue(limits { _ in })
        var id = 0
        func part(thenPrompt isPrompt: Bool) throws -> SendQueue.Part {
            id += 1
            _ = queue.add(id, host: "a", now: 0)
            let place = try #require(queue.start().first)
            queue.finished(place, isPrompt: isPrompt)
            return place.part
        }
        let steps: [(Bool, SendQueue.Part)] = [
            (true, .new), (false, .proven), (false, .proven), (true, .proven), (false, .proven), (false, .proven), (false, .proven),
            (false, .failed), (true, .failed), (true, .proven),
        ]
        for (isPrompt, expected) in steps { #expect(try part(thenPrompt: isPrompt) == expected) }
    }

    @Test func waiting_isLimited_onBothSides() {
        var queue = SendQueue(limits { ($0.waiting, $0.atOnce, $0.waitingPerHost, $0.waitMs) = (0, 3, 2, 10) })
        #expect(queue.add(1, host: "a", now: 0) && queue.add(2, host: "a", now: 5) && !queue.add(3, host: "a", now: 5))
        #expect(queue.add(4, host: "b", now: 5) && !queue.add(5, host: "c", now: 5))
        #expect(queue.expired(now: 10) == [])
        #expect(queue.expired(now: 11) == [1])
        #expect(queue.add(6, host: "c", now: 11) == true)
        #expect(Set(queue.start().map(\.id)) == [2, 4, 6] && queue.waiting == 0)
    }

    /// Against the rules alone: every request starts or expires once, in order for one host, within the limits, and none waits without
    /// reason.
    @Test(arguments: 1...20) func queue_keepsItsRules_inRandomSteps(seed: UInt64) {
        var random = SeededRandom(seed)
        let limits = limits { limits in
            (limits.atOnce, limits.atOnceToNew, limits.atOncePerHost) = (1 + random.below(8), 1 + random.below(4), 1 + random.below(4))
            limits.atOnceToFailed = 1 + random.below(4)
            (limits.waiting, limits.waitingPerHost, limits.waitMs, limits.names) = (40, 15, 60, 3)
        }
        var queue = SendQueue(limits)
        var (waiting, active, now) = ([(id: Int, host: String, since: Int64)](), [SendQueue.Place](), Int64(0))
        for id in 1...2_000 {
            now += Int64(random.below(3))
            let host = "h\(random.below(6))"
            let hasRoom = waiting.count + active.count < limits.waiting + limits.atOnce
                && waiting.count { $0.host == host } < limits.waitingPerHost
            #expect(queue.add(id, host: host, now: now) == hasRoom)
            if hasRoom { waiting.append((id, host, now)) }
            for place in queue.start() {
                let first = waiting.first { $0.host == place.host }
                #expect(first?.id == place.id, "seed \(seed)")
                waiting.removeAll { $0.id == place.id }
                active.append(place)
            }
            let (new, failed) = (active.count { $0.part == .new }, active.count { $0.part == .failed })
            #expect(active.count <= limits.atOnce && new <= limits.atOnceToNew && failed <= limits.atOnceToFailed)
            for host in Set(active.map(\.host)) { #expect(active.count { $0.host == host } <= limits.atOncePerHost) }
            #expect(queue.waiting == waiting.count && queue.active == active.count, "seed \(seed)")
            // None waits while its host and everybody has a free place, in any part.
            if active.count < limits.atOnce, new < limits.atOnceToNew, failed < limits.atOnceToFailed {
                for item in waiting { #expect(active.count { $0.host == item.host } >= limits.atOncePerHost, "seed \(seed)") }
            }
            if random.chance(20) {
                let expired = queue.expired(now: now)
                #expect(Set(expired) == Set(waiting.filter { now - $0.since > limits.waitMs }.map(\.id)))
                waiting.removeAll { expired.contains($0.id) }
            }
            while !active.isEmpty, random.chance(50) {
                let place = active.remove(at: random.below(active.count))
                queue.finished(place, isPrompt: random.chance(60))
            }
        }
    }
}

/// Addresses of names, and which lookups run.
struct NameCacheTests {
    private let address = IPAddress(v4: 1)

    private func cache(_ change: (inout SenderLimits) -> Void = { _ in }) -> NameCache {
        var limits = SenderLimits()
        (limits.namesFreshMs, limits.namesStaleMs, limits.lookupMs) = (100, 1_000, 50)
        change(&limits)
        return NameCache(limits)
    }

    @Test func name_isLookedUpOnce_forAllThatWait() {
        var cache = cache()
        #expect(cache.find("a", for: 1, now: 0) == .wait && cache.find("a", for: 2, now: 0) == .wait)
        let lookups = cache.start(now: 0)
        #expect(lookups == [.init(host: "a", kind: .new, startedAt: 0)] && cache.start(now: 0).isEmpty && cache.lookups == 1)
        #expect(cache.finished(lookups[0], [address], now: 10) == [1, 2] && cache.lookups == 0)
        #expect(cache.find("a", for: 3, now: 109) == .addresses([address]) && cache.start(now: 0).isEmpty)
    }

    @Test func oldAddresses_areUsed_whileTheNameIsLookedUpAgain() {
        var cache = cache()
        _ = cache.find("a", for: 1, now: 0)
        _ = cache.finished(cache.start(now: 0)[0], [address], now: 0)
        #expect(cache.find("a", for: 2, now: 100) == .addresses([address]))
        let again = cache.start(now: 100)
        #expect(again == [.init(host: "a", kind: .known, startedAt: 100)])
        #expect(cache.find("a", for: 3, now: 999) == .addresses([address]))
        #expect(cache.find("a", for: 4, now: 1_000) == .wait)
        #expect(cache.finished(again[0], nil, now: 1_001) == [4])
        #expect(cache.find("a", for: 5, now: 1_002) == .wait)
    }

    @Test func failures_areNotKept() {
        var cache = cache()
        _ = cache.find("a", for: 1, now: 0)
        #expect(cache.finished(cache.start(now: 0)[0], nil, now: 0) == [1])
        #expect(cache.find("a", for: 2, now: 0) == .wait && cache.start(now: 0).count == 1)
    }

    @Test func newAndKnownNames_haveTheirOwnLookups() {
        var cache = cache { $0.lookupsAtOnce = 2 }
        for i in 0..<3 {
            _ = cache.find("known\(i)", for: i, now: 0)
            _ = cache.finished(cache.start(now: 0)[0], [address], now: 0)
        }
        for i in 0..<3 { _ = cache.find("known\(i)", for: i, now: 100) }
        #expect(cache.start(now: 100).map(\.host) == ["known0", "known1"])
        for i in 10..<20 { _ = cache.find("new\(i)", for: i, now: 100) }
        let new = cache.start(now: 100)
        #expect(new.map(\.host) == ["new10", "new11"])
        _ = cache.finished(new[0], nil, now: 100)
        #expect(cache.start(now: 100).map(\.host) == ["new12"])
    }

    /// Such names were found once: their lookups must not keep those of others.
    @Test func slowNames_haveFewLookups_untilTheyArePrompt() {
        var cache = cache { ($0.lookupsAtOnce, $0.promptMs) = (4, 20) }
        for i in 0..<4 { _ = cache.find("hangs\(i)", for: i, now: 0) }
        for lookup in cache.start(now: 0) { _ = cache.finished(lookup, [address], now: 21) }
        for i in 0..<4 { _ = cache.find("hangs\(i)", for: i, now: 200) }
        let slow = cache.start(now: 200)
        #expect(slow.map(\.kind) == [.slow, .slow])
        for i in 10..<14 { _ = cache.find("new\(i)", for: i, now: 200) }
        #expect(cache.start(now: 200).map(\.host) == ["new10", "new11", "new12", "new13"])
        _ = cache.finished(slow[0], [address], now: 220)
        _ = cache.finished(slow[1], nil, now: 201)
        #expect(cache.start(now: 220).map(\.host) == ["hangs2", "hangs3"])
        for i in 0..<2 { _ = cache.find("hangs\(i)", for: i, now: 400) }
        // A lookup that failed counts as slow, too, and must wait for the two that run.
        #expect(cache.start(now: 400).map(\.host) == ["hangs0"])
    }

    @Test func requests_waitForALimitedTime() {
        var cache = cache()
        _ = cache.find("a", for: 1, now: 0)
        _ = cache.find("a", for: 2, now: 30)
        #expect(cache.expired(now: 50).isEmpty && cache.expired(now: 51).map(\.id) == [1])
        #expect(cache.finished(cache.start(now: 0)[0], [address], now: 60) == [2])
    }

    @Test func names_areBounded() {
        var cache = cache { ($0.names, $0.lookupsAtOnce) = (2, 8) }
        #expect(cache.find("a", for: 1, now: 0) == .wait && cache.find("b", for: 2, now: 0) == .wait)
        #expect(cache.find("c", for: 3, now: 0) == .full)
        for lookup in cache.start(now: 0) { _ = cache.finished(lookup, [address], now: 0) }
        // Names are only checked once a second.
        #expect(cache.find("c", for: 4, now: 999) == .full)
        #expect(cache.find("c", for: 5, now: 1_000) == .wait)
    }
}
