import JSONTree
import TestSupport
import Testing

@testable import LiveQueries

struct PredicateIndexTests {
    private static func find(_ index: PredicateIndex, _ old: Node, _ new: Node) -> (found: Set<Int>, calls: Int) {
        var found: Set<Int> = []
        var calls = 0
        withUnsafePointer(to: old) { old in
            withUnsafePointer(to: new) { new in
                index.concerned(old: old.pointee.exists ? NodeCursor(old) : nil, new: new.pointee.exists ? NodeCursor(new) : nil) {
                    found.insert($0)
                    calls += 1
                }
            }
        }
        return (found, calls)
    }

    @Test func index_findsEveryFilterThatSelects_whileFiltersComeAndGo() {
        var records = RandomRecords(1)
        var index = PredicateIndex()
        var filters: [Int: Filter] = [:]
        var free = Array(0..<300)
        for step in 0..<Steps.count(2_000) {
            if records.random.chance(30), let slot = free.popLast() {
                let filter = Filter(records.conditions())
                filters[slot] = filter
                index.insert(slot, filter.conditions)
            } else if records.random.chance(20), let slot = filters.keys.min(by: { ($0 &* 7919) % 307 < ($1 &* 7919) % 307 }) {
                filters[slot] = nil
                free.append(slot)
                free.shuffle(using: &records.random)
                index.remove(slot)
            }
            let old = records.random.chance(20) ? .null : records.record()
            let new = records.random.chance(20) ? .null : (records.random.chance(20) ? old : records.record())
            let found = Self.find(index, old, new).found
            #expect(found.isSubset(of: filters.keys), "a filter that is gone")
            for (slot, filter) in filters where filter.admits(old) || filter.admits(new) {
                if !found.contains(slot) {
                    Issue.record("step \(step): \(filter.json.json) not found for \(old.json) → \(new.json)")
                    return
                }
            }
        }
    }

    @Test func index_asksTheMatchingOnesOnly_ofTenThousandFilters() throws {
        var index = PredicateIndex()
        for i in 0..<10_000 {
            let text =
                switch i % 5 {
                case 0: #"[["status","==","open"],["uid","==","u\#(i)"]]"#
                case 1: #"[["uid","in",["u\#(i)","v\#(i)"]]]"#
                case 2: #"[["at",">=",\#(i)],["at","<",\#(i + 5)]]"#
                case 3: #"[["types","has","t\#(i)"]]"#
                default: #"[["name","prefix","name \#(i) "]]"#
                }
            index.insert(i, try Filter(JSONValue(Array(text.utf8))).conditions)
        }
        let old = try Node(json: #"{"status":"open","uid":"u5000","at":7000,"types":{"t5003":true,"other":true},"name":"name 5004 x"}"#)
        let new = try Node(json: #"{"status":"open","uid":"v5001","at":7005,"types":{"other":true},"name":"another"}"#)
        let (found, calls) = Self.find(index, old, new)
        // The first one was indexed before others had its status, and is found by that.
        #expect(found == [0, 5000, 5001, 6997, 7002, 5003, 5004])
        #expect(calls <= 9)
        #expect(Self.find(index, try Node(json: #"{"other":1}"#), .null).calls == 0)
        for i in 0..<10_000 where i != 7002 { index.remove(i) }
        #expect(Self.find(index, old, new).found == [7002])
    }

    @Test func intervals_areFoundLikeByAScan_withOpenAndClosedEnds() {
        var random = SeededRandom(3)
        var index = IntervalIndex()
        var ranges: [Int: (low: IntervalIndex.End, high: IntervalIndex.End)] = [:]
        func end() -> IntervalIndex.End {
            if random.chance(15) { return IntervalIndex.End() }
            return IntervalIndex.End(constant: Constant(.int(Int64(random.below(50)))), orEqual: random.chance(50))
        }
        func contains(_ range: (low: IntervalIndex.End, high: IntervalIndex.End), _ value: Node) -> Bool {
            let low = range.low.constant.map { value.valueOrder($0.value) >= (range.low.orEqual ? 0 : 1) } ?? true
            let high = range.high.constant.map { value.valueOrder($0.value) <= (range.high.orEqual ? 0 : -1) } ?? true
            return low && high
        }
        for _ in 0..<5_000 {
            let slot = random.below(200)
            if let range = ranges.removeValue(forKey: slot) {
                index.remove(slot, low: range.low)
            } else {
                let range = (low: end(), high: end())
                ranges[slot] = range
                index.insert(slot, low: range.low, high: range.high)
            }
            let value: Node = random.chance(10) ? .null : .int(Int64(random.below(52)) - 1)
            var found: [Int] = []
            withUnsafePointer(to: value) { index.find(value.isNull ? nil : NodeCursor($0)) { found.append($0) } }
            #expect(found.sorted() == ranges.filter { contains($0.value, value) }.keys.sorted())
        }
        #expect(index.count == ranges.count)
    }
}
