import Logging
import Testing
import TestSupport

@testable import Limits

/// Strangers can cause only a few log lines, however many requests they send.
@Suite(.timeLimit(.minutes(30))) struct LogThrottleTests {
    private let clock = FakeClock()
    private var waiting: Int { clock.waiting }
    private let lines = LineLog()

    private func throttle(_ level: Logger.Level = .notice, above: Logger.Level = .trace) -> LogThrottle {
        var logger = lines.logger
        logger.logLevel = above
        return LogThrottle(logger, level, clock.scheduler)
    }

    @Test func firstLines_areInFull_andTheOthersAreCounted() {
        let throttle = throttle()
        for i in 0..<12_355 { throttle.log("unknown namespace", ["namespace": "\(i)"]) }
        #expect(lines.all.count == 10)
        #expect(lines.all.first == #"unknown namespace ["namespace": 0]"# && lines.all.last == #"unknown namespace ["namespace": 9]"#)
        #expect(waiting == 1)
        clock.advance(ms: 59_999)
        #expect(lines.all.count == 10)
        clock.advance(ms: 1)
        #expect(lines.all.count == 11 && lines.all.last == #"unknown namespace ["more": 12345]"#)
        // The same in each minute; a quiet minute costs nothing.
        for i in 0..<11 { throttle.log("unknown namespace", ["namespace": "\(i)"]) }
        #expect(lines.all.count == 21 && waiting == 1)
        clock.advance(ms: 60_000)
        #expect(lines.all.count == 22 && lines.all.last == #"unknown namespace ["more": 1]"# && waiting == 0)
        clock.advance(ms: 600_000)
        #expect(lines.all.count == 22)
    }

    @Test func lines_areInFull_whenTheyAreFew() {
        let throttle = throttle()
        for _ in 0..<5 {
            for i in 0..<10 { throttle.log("x", ["i": "\(i)"]) }
            clock.advance(ms: 60_000)
        }
        #expect(lines.all.count == 50 && waiting == 0 && !lines.all.contains { $0.contains("more") })
    }

    /// Text is never formatted for lines that are left out, or that the logger drops for their level.
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
        #expect(made == 10 && lines.all.count == 10 && waiting == 1)
    }
}
