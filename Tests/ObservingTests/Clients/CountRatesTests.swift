import Commits
import JSONTree
import LiveQueries
import Observing
import SecurityRules
import Testing
import TestSupport

/// How many counts are admitted per minute, and for which circles.
@Suite(.timeLimit(.minutes(30))) struct CountRatesTests {
    private static func caller(_ address: String?, _ place: Path = "p") -> CountRates.Caller { .init(address: address, place: place) }

    @Test func rate_admitsSoMany_ofEachAddressAndRule() {
        var rates = CountRates(callers: 10)
        func admits(_ caller: CountRates.Caller, atMost most: Int, now: Int64) -> Bool {
            rates.admit(caller, atMost: most, now: now) == nil
        }
        let admitted = (0..<5).count { _ in rates.admit(Self.caller("a"), atMost: 3, now: 1_000) == nil }
        #expect(admitted == 3)
        #expect(admits(Self.caller("b"), atMost: 3, now: 1_000) && admits(Self.caller(nil), atMost: 3, now: 1_000))
        #expect(admits(Self.caller("a", "q"), atMost: 3, now: 1_000))
        #expect(!admits(Self.caller("a"), atMost: 3, now: 60_999))
        #expect(admits(Self.caller("a"), atMost: 3, now: 70_000))
    }

    /// One customer of a provider may have 65,536 networks of 64 bits, so a network of 48 bits gets four times the rate of one address.
    @Test func rate_isSharedByANetworkOfIPv6() {
        var rates = CountRates(callers: 100)
        func address(_ network: Int, _ number: Int) -> String { "20010db80\(100 + network)\(1_000 + number)/64" }
        func admits(_ address: String) -> Bool { rates.admit(Self.caller(address), atMost: 3, now: 1_000) == nil }
        for number in 0..<4 { for _ in 0..<3 { #expect(admits(address(1, number))) } }
        #expect(!admits(address(1, 4)), "an address that has not asked")
        #expect(admits(address(2, 4)), "of another network")
        for _ in 0..<20 { #expect(admits("192.0.2.\(rates.count)")) }
    }

    /// Random times: never more than the limit within 60 s, and no refusal if fewer were admitted in the 70 s before.
    @Test func rate_holdsInEveryMinute() {
        var random = SeededRandom(16)
        for _ in 0..<50 {
            var (rates, now, admitted) = (CountRates(callers: 10), Int64(random.below(100_000)), [Int64]())
            let most = 1 + random.below(20)
            for _ in 0..<500 {
                now += Int64(random.below(random.chance(5) ? 90_000 : 6_000))
                var trial = rates
                if let wait = rates.admit(Self.caller("a"), atMost: most, now: now) {
                    #expect(admitted.count { $0 > now - 70_000 } >= most)
                    // Admitted at the announced time, and not a millisecond earlier.
                    let (before, then) = (now + wait - 1, now + wait)
                    let tooEarly = trial.admit(Self.caller("a"), atMost: most, now: before)
                    let inTime = trial.admit(Self.caller("a"), atMost: most, now: then)
                    #expect(wait > 0 && tooEarly == 1 && inTime == nil)
                } else {
                    admitted.append(now)
                }
                #expect(admitted.count { $0 > now - 60_000 } <= most)
            }
        }
    }

    @Test func callers_areBounded_andForgottenWhenIdle() {
        var rates = CountRates(callers: 2)
        func admits(_ caller: CountRates.Caller, atMost most: Int, now: Int64) -> Bool {
            rates.admit(caller, atMost: most, now: now) == nil
        }
        #expect(admits(Self.caller("a"), atMost: 5, now: 0) && admits(Self.caller("b"), atMost: 5, now: 0))
        #expect(rates.count == 2 && admits(Self.caller("a"), atMost: 5, now: 50_000))
        #expect(admits(Self.caller("c"), atMost: 5, now: 70_000), "b has not asked for long")
        #expect(rates.count == 2)
        #expect(admits(Self.caller("c"), atMost: 5, now: 150_000) && admits(Self.caller("d"), atMost: 5, now: 150_000))
        #expect(rates.count == 2)
    }

    /// A client that fills the table locks no other out, and a caller at its limit is not evicted by strangers that ask once.
    @Test func newcomer_findsRoom_andTheCallerThatHasAskedLeastGoes() {
        var rates = CountRates(callers: 8)
        func admits(_ caller: CountRates.Caller, atMost most: Int) -> Bool { rates.admit(caller, atMost: most, now: 5_000) == nil }
        for _ in 0..<3 { #expect(admits(Self.caller("busy"), atMost: 3)) }
        for number in 0..<1_000 {
            #expect(admits(Self.caller("n\(number)"), atMost: 3))
            #expect(rates.count <= 8)
        }
        #expect(!admits(Self.caller("busy"), atMost: 3))
    }

    @Test func circle_liesOnTheGrid_ofThoseWithoutAnAccount() throws {
        let rules = try RuleSet(
            parsing: #"{"rules":{"p":{".geoIndex":{"lat":"x","lng":"y"},".count":{"if":"query.near","radius":1000,"snap":100}}}}"#)
        let user: Node = ["uid": "u", "provider": "password"]
        func circle(_ latitude: Double, _ longitude: Double, _ metres: Double?) throws -> Query {
            let centre = try #require(GeoPoint(latitude: latitude, longitude: longitude))
            return try Query(TreeQuery(), near: NearQuery(centre: centre, metres: metres, limit: metres == nil ? 5 : nil))
        }
        let (one, near) = (try circle(37.97501, 23.73501, 1000), try circle(37.97502, 23.73502, 1000))
        let counted = try #require(rules.counted(one, at: "p", by: .null))
        #expect(counted != one && rules.counted(near, at: "p", by: .null) == counted)
        #expect(rules.counted(counted, at: "p", by: .null) == counted, "a circle of the grid is counted as it is")
        #expect(rules.counted(one, at: "p", by: user) == one && rules.counted(one, at: "q", by: .null) == one)
        #expect(rules.counted(nil, at: "p", by: .null) == nil)
        let radii = [
            (500.0, 500.0), (1000, 1000), (1000.5, 2000), (2000, 2000), (2001, 4000), (7001, 8000), (64_000, 64_000), (3e6, 64_000),
        ]
        for (asked, metres) in radii {
            let query = try #require(rules.counted(circle(1, 1, asked), at: "p", by: .null))
            #expect(query.near?.metres == metres && query.near?.grid == 250)
            #expect(rules.counted(query, at: "p", by: .null) == query)
        }
        // The wider the circle, the farther apart the centres of the grid.
        func asCounted(_ latitude: Double, _ metres: Double) throws -> Query? {
            try rules.counted(circle(latitude, 23.735, metres), at: "p", by: .null)
        }
        let places = try [(1_000.0, 37.97590), (16_000, 37.97590), (16_000, 37.99)].map { metres, other in
            try asCounted(37.97501, metres) == asCounted(other, metres)
        }
        #expect(places == [false, true, false])
        #expect(try rules.counted(circle(1, 1, nil), at: "p", by: .null)?.near?.metres == nil)
    }
}
