import Testing

@testable import Outbound

/// Answers of receivers, and what follows for the device and the outbox.
struct DeliveryOutcomeTests {
    private func outcome(
        _ service: OutboundRequest.Service, _ status: Int, _ retryAfter: String? = nil, _ text: String = ""
    ) -> DeliveryOutcome {
        DeliveryOutcome(service, status: status, retryAfter: retryAfter, excerpt: Array(text.utf8), now: Samples.now)
    }

    @Test func success_isDelivered() {
        for service in [OutboundRequest.Service.push, .ntfy, .webhook, .event] {
            for status in [200, 201, 202, 204, 299] { #expect(outcome(service, status) == .delivered) }
        }
    }

    @Test func gone_dependsOnTheService() {
        #expect(outcome(.push, 404) == .gone && outcome(.push, 410) == .gone && outcome(.webhook, 410) == .gone)
        for (service, status) in [(OutboundRequest.Service.webhook, 404), (.ntfy, 404), (.ntfy, 410), (.event, 404), (.event, 410)] {
            #expect(outcome(service, status) == .refused(reason: "answered \(status)"))
        }
    }

    @Test func refusal_hasTheAnswersTextOnOneLine() {
        #expect(outcome(.push, 403, nil, "{\"reason\":\n \"BadJwtToken\"}\u{1b}[2J") == .refused(
            reason: "answered 403: {\"reason\": \"BadJwtToken\"} [2J"))
        for status in [400, 401, 413, 418] { #expect(outcome(.webhook, status) == .refused(reason: "answered \(status)")) }
        for status in [301, 302, 307, 308] {
            #expect(outcome(.webhook, status) == .refused(reason: "answered \(status), a redirect, which is not followed"))
        }
        #expect(outcome(.push, 400, nil, String(repeating: "x", count: 900))
            == .refused(reason: "answered 400: " + String(repeating: "x", count: 200)))
    }

    @Test func temporaryFaults_keepTheWaitThatIsAskedFor() {
        for status in [408, 425, 429, 500, 502, 503, 504, 599] {
            #expect(outcome(.push, status, "120") == .later(afterMs: 120_000, reason: "answered \(status)"))
            #expect(outcome(.push, status) == .later(afterMs: nil, reason: "answered \(status)"))
        }
    }

    @Test func retryAfter_isANumberOrADate() {
        // Samples.now is Mon, 21 Sep 2026 14:13:20 GMT.
        let cases: [(String, Int64?)] = [
            ("0", nil), ("00", nil), ("7", 7_000), ("7  ", 7_000), ("7 \t", nil), ("7 8", nil),
            ("86400", 86_400_000), ("86401", 86_400_000), ("99999999999999999999", 86_400_000),
            ("Mon, 21 Sep 2026 14:13:50 GMT ", 30_000), ("Mon, 21 Sep 2026 14:00:00 GMT", nil),
            ("Sun, 06 Nov 1994 08:49:37 GMT", nil),
            ("Mon, 21 Sep 2099 14:13:50 GMT", 86_400_000), ("", nil), ("-1", nil), ("1.5", nil), ("soon", nil), ("Mon, 21 Sep 2026", nil),
            ("Mon, 21 Sep 2026 14:13:50 CET", nil), ("Mon, 21 Foo 2026 14:13:50 GMT", nil), ("Mon, 21 Sep 20260 14:13:50 GMT", nil),
        ]
        for (value, wait) in cases { #expect(DeliveryOutcome.waitMs(value, now: Samples.now) == wait, "\(value)") }
    }
}
