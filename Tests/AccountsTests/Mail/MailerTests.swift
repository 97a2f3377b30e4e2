import Synchronization
import Testing
import TestSupport

@testable import Mail

@Suite(.timeLimit(.minutes(30))) struct MailerTests {
    private static func message(_ text: String = "") -> Message { SMTPTransportTests.message(text: text) }

    /// Succeeds or fails on the test's command, and keeps its messages.
    private final class Transport: MailTransport {
        let carried = Mutex<[String]>([])
        let fault: @Sendable (Int) -> MailFault?

        init(_ fault: @escaping @Sendable (Int) -> MailFault? = { _ in nil }) { self.fault = fault }

        func deliver(_ message: Message) async throws(MailFault) {
            let count = carried.withLock { $0.append(message.text); return $0.count }
            if let fault = fault(count) { throw fault }
        }
    }

    private func ids(_ queue: inout MailQueue, _ now: Int64) -> [Int] { queue.startDue(now: now).map(\.id) }
    private func texts(_ queue: inout MailQueue, _ now: Int64) -> [String] { queue.startDue(now: now).map(\.message.text) }

    @Test func message_isSentAgain_withLongerWaits_thenGivenUp() {
        var settings = MailerSettings()
        settings.waitsMs = [10, 100]
        var queue = MailQueue(settings)
        #expect(queue.add(Self.message(), until: 400, now: 0) == true)
        #expect(ids(&queue, 0) == [0])
        #expect(ids(&queue, 0) == [])
        #expect(queue.finished(0, .later("busy"), now: 1) == .waits(10))
        #expect(queue.nextDue == 11)
        #expect(ids(&queue, 10) == [])
        for now in [11, 121, 231] as [Int64] {
            #expect(ids(&queue, now) == [0])
            #expect(queue.finished(0, .later("busy"), now: now + 10) == .waits(100))
        }
        #expect(ids(&queue, 341) == [0])
        #expect(queue.finished(0, .later("busy"), now: 341) == .late)
        #expect(queue.count == 0 && queue.nextDue == nil)
    }

    @Test func messages_areSent_fewAtATime_oldestFirst() {
        var settings = MailerSettings()
        (settings.atOnce, settings.waiting) = (2, 5)
        var queue = MailQueue(settings)
        for i in 0..<5 { #expect(queue.add(Self.message("\(i)"), until: 1_000, now: 0) == true) }
        #expect(queue.add(Self.message("5"), until: 1_000, now: 0) == false)
        #expect(texts(&queue, 0) == ["0", "1"])
        #expect(queue.nextDue == nil)
        #expect(queue.finished(1, nil, now: 1) == .gone)
        #expect(texts(&queue, 1) == ["2"])
        #expect(queue.finished(0, .never("no such user"), now: 1) == .gone)
        #expect(texts(&queue, 1) == ["3"])
        #expect(queue.add(Self.message("5"), until: 1_000, now: 1) == true)
        #expect(queue.count == 4)
    }

    @Test(arguments: [1, 3]) func mailer_retries_untilItIsTaken(_ failures: Int) async {
        let transport = Transport { $0 <= failures ? .later("busy") : nil }
        let lines = LineLog()
        let clock = FakeClock()
        let mailer = Mailer(transport, logger: lines.logger, clock.scheduler)
        var tries: Int { transport.carried.withLock { $0.count } }
        #expect(mailer.send(Self.message("secret c0de"), until: clock.steadyMs + 3_600_000))
        for (count, wait) in [5_000, 15_000, 60_000].prefix(failures).enumerated() {
            // The attempt runs concurrently.
            #expect(await becomes { clock.waiting == 1 })
            clock.advance(ms: Int64(wait) - 1)
            #expect(tries == count + 1)
            clock.advance(ms: 1)
            #expect(await becomes { tries == count + 2 })
        }
        #expect(await becomes { mailer.count == 0 })
        #expect(clock.waiting == 0 && tries == failures + 1)
        #expect(lines.all.count == failures)
        #expect(lines.all.allSatisfy { !$0.contains("c0de") && !$0.contains("ana") && $0.contains("example.org") })
    }

    @Test func check80_printedLetter_isOneLineWithItsLink() async throws {
        let lines = Mutex<[String]>([])
        try await PrintedMail { line in lines.withLock { $0.append(line) } }.deliver(Self.message())
        #expect(lines.withLock { $0 } == ["mail to ana+test@example.org, resetPassword: http://localhost/?oobCode=c0de"])
    }
}
