import Logging
import Synchronization
import Testing
import TestSupport

@testable import Limits

/// Lines that strangers cause are few, however many requests there are.
@Suite(.timeLimit(.minutes(30))) struct LogThrottleTests {
    /// A clock and its timers, moved by hand.
    private final class Timers: Sendable {
        private struct State {
            var now: Int64 = 5_000
            var due: [(at: Int64, work: @Sendable () -> Void)] = []
        }
        private let state = Mutex(State())

        var now: Int64 { state.withLock { $0.now } }
        var count: Int { state.withLock { $0.due.count } }
        func add(_ ms: Int64, _ work: @escaping @Sendable () -> Void) { state.withLock { $0.due.append(($0.now + ms, work)) } }

        func advance(_ ms: Int64) {
            let due = state.withLock { state in
                state.now += ms
                let now = state.now
                defer { state.due.removeAll { $0.at <= now } }
                return state.due.filter { $0.at <= now }
            }
            for timer in due { timer.work() }
        }
    }

    private let timers = Timers()
    private let lines = LineLog()

    private func throttle(_ level: Logger.Level = .notice, above: Logger.Level = .trace) -> LogThrottle {
        var logger = lines.logger
        logger.logLevel = above
        return LogThrottle(logger, level, now: { [timers] in timers.now }, after: { [timers] in timers.add($0, $1) })
    }

    @Test func firstLines_areInFull_andTheOthersAreCounted() {
        let throttle = throttle()
        for i in 0..<12_355 { throttle.log("unknown namespace", ["namespace": "\(i)"]) }
        #expect(lines.all.count == 10 && lines.all.first == #"unknown namespace ["namespace": 0]"# && lines.all.last == #"unknown namespace ["namespace": 9]"#)
        #expect(timers.count == 1)
        timers.advance(59_999)
        #expect(lines.all.count == 10)
        timers.advance(1)
        #expect(lines.all.count == 11 && lines.all.last == #"unknown namespace ["more": 12345]"#)
        // And so on in each minute; a quiet one costs nothing.
        for i in 0..<11 { throttle.log("unknown namespace", ["namespace": "\(i)"]) }
        #expect(lines.all.count == 21 && timers.count == 1)
        timers.advance(60_000)
        #expect(lines.all.count == 22 && lines.all.last == #"unknown namespace ["more": 1]"# && timers.count == 0)
        timers.advance(600_000)
        #expect(lines.all.count == 22)
    }

    @Test func lines_areInFull_whenTheyAreFew() {
        let throttle = throttle()
        for _ in 0..<5 {
            for i in 0..<10 { throttle.log("x", ["i": "\(i)"]) }
            timers.advance(60_000)
        }
        #expect(lines.all.count == 50 && timers.count == 0 && !lines.all.contains { $0.contains("more") })
    }

    /// What is left out is never written as text, nor what the logger does not take.
    @Test func text_isMadeForWrittenLinesOnly() {
        var made = 0
        func metadata() -> Logger.Metadata {
            made += 1
            return [:]
        }
        let throttle = throttle()
        for _ in 0..<100 { throttle.log("x", metadata()) }
        #expect(made == 10)
        let quiet = self.throttle(.debug, above: .notice)
        for _ in 0..<100 { quiet.log("x", metadata()) }
        #expect(made == 10 && lines.all.count == 10 && timers.count == 1)
    }
}
