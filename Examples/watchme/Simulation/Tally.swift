import Histogram

/// The counters of the run, and whether it was correct.
struct Tally {
    var written = 0
    var acknowledged = 0
    var expected = 0
    var delivered = 0
    var lost = 0
    var outOfOrder = 0
    var strange = 0
    var posts = 0
    var postsExpected = 0
    var postsDelivered = 0
    var announcements = 0
    var announcementsExpected = 0
    var announcementsDelivered = 0
    /// Post or announcement seen a second time.
    var repeated = 0
    var reconnects = 0
    /// Refusals and other errors; the texts of the first few are kept.
    var failures = 0
    private(set) var firstFailures: [String] = []
    /// Microseconds from the write to the follower's handler.
    private var latency = Histogram<UInt64>(numberOfSignificantValueDigits: .three)

    mutating func failed(_ text: String) {
        failures += 1
        if firstFailures.count < 5 { firstFailures.append(text) }
    }

    mutating func delivered(afterNs: UInt64) {
        delivered += 1
        latency.record(max(1, afterNs / 1_000))
    }

    var everythingArrived: Bool {
        delivered == expected && postsDelivered == postsExpected && announcementsDelivered == announcementsExpected && acknowledged == written
    }

    var isPerfect: Bool { everythingArrived && lost == 0 && outOfOrder == 0 && strange == 0 && repeated == 0 && failures == 0 }

    func percentileMs(_ percentile: Double) -> String { Self.ms(latency.valueAtPercentile(percentile)) }

    /// `1.9`, from microseconds.
    private static func ms(_ microseconds: UInt64) -> String { "\(microseconds / 1_000).\(microseconds % 1_000 / 100)" }

    var progress: String {
        "\(written) positions, \(delivered) of \(expected) deliveries, p99 \(percentileMs(99)) ms, \(posts) posts, \(announcements) announcements\(failures > 0 ? ", \(failures) FAILURES" : "")"
    }

    func report(_ scene: String) -> String {
        var lines = [
            "WatchMe simulation: \(scene)",
            "  positions written     \(written) (acknowledged \(acknowledged))",
            "  deliveries            \(delivered) of \(expected)",
            "  lost \(lost)   out of order or twice \(outOfOrder)   unknown \(strange)   reconnects \(reconnects)",
            "  tick to follower      p50 \(percentileMs(50)) ms   p95 \(percentileMs(95)) ms   p99 \(percentileMs(99)) ms   max \(Self.ms(latency.maxRecorded)) ms",
            "  danger posts          \(posts), on timelines \(postsDelivered) of \(postsExpected)",
            "  announcements         \(announcements), seen \(announcementsDelivered) of \(announcementsExpected)\(repeated > 0 ? " (\(repeated) twice)" : "")",
        ]
        if failures > 0 { lines.append("  failures              \(failures): " + firstFailures.joined(separator: " | ")) }
        lines.append(isPerfect ? "  Every follower saw every position, in order and once." : "  NOT COMPLETE.")
        return lines.joined(separator: "\n")
    }
}
