import Scheduling
import Testing
import TestSupport

@testable import Observing

/// The table of recent use by caller.
@Suite(.timeLimit(.minutes(30))) struct CallerTableTests {
    /// Compared with a table that keeps all buckets: users within its bound get the same decisions.
    @Test(arguments: 0..<8) func table_agreesWithAllBucketsKept(_ seed: UInt64) {
        var random = SeededRandom(seed)
        let rate = TokenBucket.Rate(burst: 3, interval: 10)
        var (table, all, now) = (CallerTable<Int, TokenBucket>(most: 1_000), [Int: TokenBucket](), Int64(1))
        for _ in 0..<20_000 {
            now += Int64(Int.random(in: 0...3, using: &random))
            let (key, tokens) = (Int.random(in: 0..<200, using: &random), Int64(Int.random(in: 1...3, using: &random)))
            var expected = all[key] ?? TokenBucket(fullAt: 0)
            var bucket = table[key] ?? TokenBucket(fullAt: 0)
            #expect(bucket.wait(rate, tokens: tokens, now: now) == expected.wait(rate, tokens: tokens, now: now))
            guard expected.wait(rate, tokens: tokens, now: now) == 0 else { continue }
            bucket.record(rate, tokens: tokens, now: now)
            table.keep(bucket, of: key, now: now)
            expected.record(rate, tokens: tokens, now: now)
            all[key] = expected
        }
        #expect(table.count <= 200 && table.count >= all.values.count { !$0.isFull(now: now) })
    }
}
