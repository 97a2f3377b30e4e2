import JSONTree
import Testing
import TestSupport

/// Push ids (contract §5).
@Suite(.timeLimit(.minutes(30))) struct PushIDTests {
    private static let alphabet = Array("-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz")

    private func time(_ id: Key) -> Int {
        id.string.prefix(8).reduce(0) { $0 * 64 + (Self.alphabet.firstIndex(of: $1) ?? -1) }
    }

    /// The random part as base-64 digits.
    private func random(_ id: Key) -> [Int] { id.string.dropFirst(8).map { Self.alphabet.firstIndex(of: $0) ?? -1 } }

    private func successor(_ digits: [Int]) -> [Int] {
        var digits = digits
        for i in digits.indices.reversed() {
            digits[i] = (digits[i] + 1) % 64
            if digits[i] != 0 { break }
        }
        return digits
    }

    @Test func pushID_form_isTwentyCharactersOfTheAlphabetWithTheTimeFirst() {
        var ids = PushIDGenerator()
        let id = ids.next(now: 1_700_000_000_123)
        #expect(id.string.count == 20 && id.isValid)
        #expect(id.string.allSatisfy { Self.alphabet.contains($0) })
        #expect(time(id) == 1_700_000_000_123)
    }

    @Test func pushID_advancingClock_ascendsInKeyAndTextOrder() {
        var ids = PushIDGenerator()
        var random = SeededRandom(2)
        var now: Int64 = 1_700_000_000_000
        var last = ids.next(now: now)
        for _ in 0..<2000 {
            now += Int64(random.below(3))
            let next = ids.next(now: now)
            #expect(last < next && last.string < next.string)
            #expect(time(next) == now)
            last = next
        }
    }

    @Test func pushID_sameMillisecond_countsTheRandomPartUp() {
        var ids = PushIDGenerator()
        var last = ids.next(now: 5)
        for _ in 0..<300 {
            let next = ids.next(now: 5)
            #expect(time(next) == 5 && random(next) == successor(random(last)))
            last = next
        }
    }

    @Test func pushID_clockSteppingBack_goesOnAscending() {
        var ids = PushIDGenerator()
        let first = ids.next(now: 1000)
        let second = ids.next(now: 10)
        #expect(first < second && time(second) == 1000)
        #expect(second < ids.next(now: 1001))
    }

    @Test func pushID_differentMilliseconds_haveDifferentRandomParts() {
        var ids = PushIDGenerator()
        #expect(random(ids.next(now: 1)) != random(ids.next(now: 2)))
    }
}
