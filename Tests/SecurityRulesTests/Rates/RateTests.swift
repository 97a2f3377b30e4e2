import JSONTree
import SecurityRules
import Testing

/// `.rate`: how often one user may write at a place and below it.
@Suite(.timeLimit(.minutes(30))) struct RateTests {
    private static let text = #"""
        {"rules":{".write":true,".rate":{"perSecond":50,"burst":200},
          "rooms":{"$room":{".rate":{"perSecond":0.5,"burst":3},"texts":{".rate":{"perSecond":1,"burst":1}}}},
          "quiet":{"$x":{}}}}
        """#

    /// The budgets that are charged for a write at a place: `50/200@0`, with the depth of the budget's place.
    private func rates(_ path: Path) throws -> [String] {
        var found: [String] = []
        try RuleSet(parsing: Self.text).forEachRate(on: path) { rate, depth in found.append("\(rate.perSecond)/\(rate.burst)@\(depth)") }
        return found
    }

    @Test(arguments: [
        ("/", ["50.0/200@0"]), ("/other/place", ["50.0/200@0"]), ("/rooms", ["50.0/200@0"]), ("/rooms/r", ["50.0/200@0", "0.5/3@2"]),
        ("/rooms/r/name", ["50.0/200@0", "0.5/3@2"]), ("/rooms/r/texts", ["50.0/200@0", "0.5/3@2", "1.0/1@3"]),
        ("/rooms/r/texts/t/at", ["50.0/200@0", "0.5/3@2", "1.0/1@3"]), ("/quiet/x/y", ["50.0/200@0"]),
    ] as [(Path, [String])]) func write_isCountedAtItsPlace_andAbove(_ path: Path, _ expected: [String]) throws {
        #expect(try rates(path) == expected)
    }

    @Test func rulesWithoutRates_haveNone() throws {
        #expect(try RuleSet(parsing: Self.text).hasRates)
        let rules = try RuleSet(parsing: #"{"rules":{"rate":{".write":true}}}"#)
        rules.forEachRate(on: "/rate") { _, _ in Issue.record("counted") }
        #expect(!rules.hasRates && !RuleSet.allowAll.hasRates)
    }

    private static let form = "A '.rate' is how often one user may write: {\"perSecond\": 20, \"burst\": 100}."
    private static let perSecond = "'perSecond' is from 0.001 to 1000000. To refuse all writes grant none."
    private static let burst = "'burst' is a whole number from 1 to 1000000: the writes that may come at once."

    @Test(arguments: [
        (#"5"#, ["1:19: \(form)"]), (#""20/s""#, ["1:19: \(form)"]), ("null", ["1:19: \(form)"]),
        (#"{}"#, ["1:19: A '.rate' has a 'perSecond'.", "1:19: A '.rate' has a 'burst'."]),
        (#"{"perSecond":1}"#, ["1:19: A '.rate' has a 'burst'."]), (#"{"burst":1}"#, ["1:19: A '.rate' has a 'perSecond'."]),
        (#"{"perSecond":"1","burst":1}"#, ["1:32: 'perSecond' is a number."]),
        (#"{"perSecond":1,"burst":true}"#, ["1:42: 'burst' is a number."]),
        (#"{"perSecond":0,"burst":1}"#, ["1:32: \(perSecond)"]), (#"{"perSecond":-1,"burst":1}"#, ["1:32: \(perSecond)"]),
        (#"{"perSecond":0.0009,"burst":1}"#, ["1:32: \(perSecond)"]), (#"{"perSecond":1000001,"burst":1}"#, ["1:32: \(perSecond)"]),
        (#"{"perSecond":1,"burst":0}"#, ["1:42: \(burst)"]), (#"{"perSecond":1,"burst":1.5}"#, ["1:42: \(burst)"]),
        (#"{"perSecond":1,"burst":1000001}"#, ["1:42: \(burst)"]), (#"{"perSecond":1,"burst":1e300}"#, ["1:42: \(burst)"]),
        (#"{"perSecond":1,"burst":1,"burst":2}"#, ["1:44: Duplicate key 'burst'."]),
        (#"{"persecond":1,"burst":1}"#, ["1:19: A '.rate' has a 'perSecond'.", "1:20: A '.rate' has no 'persecond'."]),
        (#"{"perSecond":0.001,"burst":1000000}"#, []), (#"{"perSecond":1000000,"burst":1}"#, []), (#"{"perSecond":1.0,"burst":2.0}"#, []),
    ]) func faults_areToldAtTheirPlace(_ value: String, _ expected: [String]) {
        #expect(faults("{\"rules\":{\".rate\":\(value)}}").map { "\($0.line):\($0.column): \($0.message)" } == expected)
    }

    @Test func explanation_namesWhatCounts_andRefusesWhatIsAlwaysTooMuch() throws {
        let rules = try RuleSet(parsing: Self.text)
        func explain(_ paths: [Path]) -> RuleTrace { rules.explainWrite(paths, old: .null, new: ["x": 1], auth: .null, now: 0) }
        let one = explain(["/rooms/r/name"])
        #expect(one.isAllowed && one.rates.map { "\($0.writes) \($0.path) \($0.rule)" } == ["1 / /.rate", "1 /rooms/r /rooms/$room.rate"])
        #expect(one.description.contains("counts as 1 at /rooms/r by /rooms/$room.rate: 0.5 writes a second, 3 at once\n"))
        let three = explain(["/rooms/r/a", "/rooms/r/b", "/rooms/r/c", "/rooms/s/c"])
        #expect(three.isAllowed && three.rates.map(\.writes) == [4, 3, 1])
        let four = explain(["/rooms/r/a", "/rooms/r/b", "/rooms/r/c", "/rooms/r/d"])
        #expect(!four.isAllowed && four.description.contains("/rooms/$room.rate lets 3 writes through at once, and this is 4."))
        #expect(rules.explainRead("/rooms/r", root: .null, auth: .null, now: 0).rates.isEmpty)
    }
}
