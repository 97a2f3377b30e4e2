import HubEngine
import JSONTree
import SecurityRules
import Synchronization
import Testing
import TestSupport

/// A deploy reports which derived data the hub still has to compute, and when that is complete.
@Suite(.timeLimit(.minutes(30))) struct DerivedDataTests {
    private static let plain = #"{"rules":{".read":true,".write":true}}"#
    private static let all = #"""
        {"rules":{".read":true,".write":true,
          "e":{"$e":{".counts":{"n":"count(v/$e)"}}},
          "p":{"$p":{".copy":{"to":"line/$f/$p","each":"friends/$f"},".expire":"data.child('at').val()"}}}}
        """#

    private func deploy(_ hub: EngineHarness, _ rules: String) throws -> DerivedReport {
        let told = Mutex<DerivedReport?>(nil)
        hub.database.replace(try RuleSet(parsing: rules)) { [database = hub.database] in told.withLock { $0 = database.derived } }
        hub.settle()
        return try #require(told.withLock { $0 })
    }

    private final class ReportRecorder: Sendable {
        let reports = Mutex<[DerivedReport]>([])
        var all: [DerivedReport] { reports.withLock { $0 } }
        func wait(_ hub: EngineHarness, ms: Int64?) {
            hub.database.whenDerived(waitMs: ms) { report in self.reports.withLock { $0.append(report) } }
            hub.settle()
        }
    }

    @Test func deploy_saysWhatDoesNotHoldYet_andTellsWhenItDoes() throws {
        let hub = EngineHarness(rules: try RuleSet(parsing: Self.plain), root: ["e": ["x": ["t": 1]], "v": ["x": ["a": 1]]])
        let recorder = ReportRecorder()
        recorder.wait(hub, ms: nil)
        #expect(recorder.all == [DerivedReport(pending: [], ms: 0)], "rules without any of it hold at once")
        hub.work.close()
        #expect(try deploy(hub, Self.all).pending == [.counters, .copies, .expiry])
        recorder.wait(hub, ms: 0)
        #expect(recorder.all.last == DerivedReport(pending: [.counters, .copies, .expiry], ms: 0))
        recorder.wait(hub, ms: 500)
        recorder.wait(hub, ms: nil)
        hub.time.advance(ms: 499)
        #expect(recorder.all.count == 2)
        hub.time.advance(ms: 1)
        hub.settle()
        #expect(recorder.all.count == 3 && recorder.all.last == DerivedReport(pending: [.counters, .copies, .expiry], ms: 500))
        hub.time.advance(ms: 100)
        hub.work.open()
        for _ in 0..<4 { hub.settle() }
        #expect(recorder.all.count == 4 && recorder.all.last == DerivedReport(pending: [], ms: 600))
        #expect(hub.ask(.make(), .get("e/x/n")) == ["value 0 1"])
        recorder.wait(hub, ms: nil)
        #expect(recorder.all.last == DerivedReport(pending: [], ms: 600))
    }

    /// Other rules are deployed first: derived data that they do not define is not waited for.
    @Test func deployMeanwhile_countsAnew() throws {
        let hub = EngineHarness(rules: try RuleSet(parsing: Self.plain), root: ["e": ["x": ["t": 1]]])
        let recorder = ReportRecorder()
        hub.work.close()
        _ = try deploy(hub, Self.all)
        recorder.wait(hub, ms: nil)
        hub.time.advance(ms: 300)
        #expect(try deploy(hub, #"{"rules":{"e":{"$e":{".counts":{"n":"count(v/$e)"}}}}}"#).pending == [.counters])
        hub.time.advance(ms: 40)
        hub.work.open()
        for _ in 0..<4 { hub.settle() }
        #expect(recorder.all == [DerivedReport(pending: [], ms: 40)])
        #expect(try deploy(hub, Self.plain).pending == [])
    }
}
