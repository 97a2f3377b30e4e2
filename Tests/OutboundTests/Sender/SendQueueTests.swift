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

    @Test func unprovenHosts_shareAPart() {
        var queue = SendQueue(limits { ($0.atOnce, $0.atOnceToUnproven, $0.atOncePerHost) = (4, 2, 4) })
        _ = queue.add(0, host: "known", now: 0)
        queue.finished(queue.start()[0], isPrompt: true)
        for id in 1...6 { _ = queue.add(id, host: "new\(id)", now: 0) }
        let new = queue.start()
        #expect(new.map(\.id) == [1, 2])
        for id in 7...9 { _ = queue.add(id, host: "known", now: 0) }
        let known = queue.start()
        #expect(known.map(\.id) == [7, 8] && known.allSatisfy(\.isProven))
        queue.finished(new[0], isPrompt: false)
        #expect(Set(queue.start().map(\.id)).isSubset(of: [3, 9]))
        // A slow answer: its further requests count as those of the others.
        queue.finished(known[0], isPrompt: false)
        queue.finished(known[1], isPrompt: false)
        #expect(queue.start().allSatisfy { !$0.isProven || $0.id == 9 })
    }

    @Test func waiting_isLimited_onBothSides() {
        var queue = SendQueue(limits { ($0.waiting, $0.waitingPerHost, $0.waitMs) = (3, 2, 10) })
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
            (limits.atOnce, limits.atOnceToUnproven, limits.atOncePerHost) = (1 + random.below(8), 1 + random.below(4), 1 + random.below(4))
            (limits.waiting, limits.waitingPerHost, limits.waitMs, limits.names) = (40, 15, 60, 3)
        }
        var queue = SendQueue(limits)
        var (waiting, active, now) = ([(id: Int, host: String, since: Int64)](), [SendQueue.Place](), Int64(0))
        for id in 1...2_000 {
            now += Int64(random.below(3))
            let host = "h\(random.below(6))"
            let hasRoom = waiting.count < limits.waiting && waiting.count { $0.host == host } < limits.waitingPerHost
            #expect(queue.add(id, host: host, now: now) == hasRoom)
            if hasRoom { waiting.append((id, host, now)) }
            for place in queue.start() {
                let first = waiting.first { $0.host == place.host }
                #expect(first?.id == place.id, "seed \(seed)")
                waiting.removeAll { $0.id == place.id }
                active.append(place)
            }
            #expect(active.count <= limits.atOnce && active.count { !$0.isProven } <= limits.atOnceToUnproven)
            for host in Set(active.map(\.host)) { #expect(active.count { $0.host == host } <= limits.atOncePerHost) }
            #expect(queue.waiting == waiting.count && queue.active == active.count, "seed \(seed)")
            // None waits while its host and everybody has a free place, in any part.
            if active.count < limits.atOnce, active.count(where: { !$0.isProven }) < limits.atOnceToUnproven {
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
        let lookups = cache.start()
        #expect(lookups == [.init(host: "a", isNew: true)] && cache.start().isEmpty && cache.lookups == 1)
        #expect(cache.finished(lookups[0], [address], now: 10) == [1, 2] && cache.lookups == 0)
        #expect(cache.find("a", for: 3, now: 109) == .addresses([address]) && cache.start().isEmpty)
    }

    @Test func oldAddresses_areUsed_whileTheNameIsLookedUpAgain() {
        var cache = cache()
        _ = cache.find("a", for: 1, now: 0)
        _ = cache.finished(cache.start()[0], [address], now: 0)
        #expect(cache.find("a", for: 2, now: 100) == .addresses([address]))
        let again = cache.start()
        #expect(again == [.init(host: "a", isNew: false)])
        #expect(cache.find("a", for: 3, now: 999) == .addresses([address]))
        #expect(cache.find("a", for: 4, now: 1_000) == .wait)
        #expect(cache.finished(again[0], nil, now: 1_001) == [4])
        #expect(cache.find("a", for: 5, now: 1_002) == .wait)
    }

    @Test func failures_areNotKept() {
        var cache = cache()
        _ = cache.find("a", for: 1, now: 0)
        #expect(cache.finished(cache.start()[0], nil, now: 0) == [1])
        #expect(cache.find("a", for: 2, now: 0) == .wait && cache.start().count == 1)
    }

    @Test func newNames_haveHalfOfTheLookups() {
        var cache = cache { $0.lookupsAtOnce = 4 }
        for i in 0..<3 {
            _ = cache.find("known\(i)", for: i, now: 0)
            _ = cache.finished(cache.start()[0], [address], now: 0)
        }
        for i in 10..<20 { _ = cache.find("new\(i)", for: i, now: 100) }
        let new = cache.start()
        #expect(new.map(\.host) == ["new10", "new11"])
        for i in 0..<3 { _ = cache.find("known\(i)", for: i, now: 100) }
        #expect(cache.start().map(\.host) == ["known0", "known1"])
        _ = cache.finished(new[0], nil, now: 100)
        #expect(cache.start().map(\.host) == ["known2"])
    }

    @Test func requests_waitForALimitedTime() {
        var cache = cache()
        _ = cache.find("a", for: 1, now: 0)
        _ = cache.find("a", for: 2, now: 30)
        #expect(cache.expired(now: 50) == [] && cache.expired(now: 51) == [1])
        #expect(cache.finished(cache.start()[0], [address], now: 60) == [2])
    }

    @Test func names_areBounded() {
        var cache = cache { ($0.names, $0.lookupsAtOnce) = (2, 8) }
        #expect(cache.find("a", for: 1, now: 0) == .wait && cache.find("b", for: 2, now: 0) == .wait)
        #expect(cache.find("c", for: 3, now: 0) == .full)
        for lookup in cache.start() { _ = cache.finished(lookup, [address], now: 0) }
        // Names are only checked once a second.
        #expect(cache.find("c", for: 4, now: 999) == .full)
        #expect(cache.find("c", for: 5, now: 1_000) == .wait)
    }
}
