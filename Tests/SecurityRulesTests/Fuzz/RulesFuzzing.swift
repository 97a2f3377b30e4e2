import Foundation
import Testing
import TestSupport

/// Seeded fuzzing of the rules, a few hundred inputs per target; see `FuzzLoop` for long runs. An input that breaks an invariant becomes a file of
/// the corpus.
struct RulesFuzzing {
    let name: String
    /// Inputs per target in the suite.
    var count = 300

    /// Statistics of one target.
    struct Tally {
        /// Inputs that were accepted.
        var accepted = 0
        /// Decisions that were taken.
        var decisions = 0
        /// CPU of the most expensive input, and its seed.
        var worstMs = 0.0
        var worstSeed: UInt64 = 0
        /// CPU of the code under test for this input, without that of generating it.
        fileprivate var inputMs = 0.0

        mutating func timed<R>(_ body: () throws -> R) rethrows -> R {
            let start = RulesFuzzing.cpuMs()
            defer { inputMs += RulesFuzzing.cpuMs() - start }
            return try body()
        }
    }

    /// CPU limit per input: a linear run stays far below it, also on busy machines and in debug builds.
    private static let tooLongMs = 20_000.0

    /// - Parameter check: describes the broken invariant of an input; nil if every invariant held.
    @discardableResult
    func run(_ check: (inout SeededRandom, inout Tally) throws -> String?) throws -> Tally {
        var tally = Tally()
        let loop = FuzzLoop("rules-\(name)", count: count)
        let cost = { "\(Int(tally.worstMs)) ms of CPU (seed \(tally.worstSeed))" }
        let said = { ", \(tally.accepted) accepted, \(tally.decisions) decisions, worst \(cost())" }
        try loop.run(saying: said) { seed in
            // Neighbouring seeds would give the same stream, shifted by a step.
            var mixer = SeededRandom(seed)
            var random = SeededRandom(mixer.next())
            tally.inputMs = 0
            let fault = try check(&random, &tally)
            if tally.inputMs > tally.worstMs { (tally.worstMs, tally.worstSeed) = (tally.inputMs, seed) }
            if let fault { return fault }
            return tally.inputMs > Self.tooLongMs ? "took \(tally.inputMs) ms" : nil
        }
        return tally
    }

    fileprivate static func cpuMs() -> Double {
        var time = timespec()
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
        return Double(time.tv_sec) * 1e3 + Double(time.tv_nsec) / 1e6
    }

    // MARK: Corpus

    private static let corpora = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent().path + "/Corpora"

    /// The committed inputs of a target, in the order of their names.
    static func corpus(_ name: String) throws -> [(file: String, bytes: [UInt8])] {
        let folder = corpora + "/" + name
        let files = try FileManager.default.contentsOfDirectory(atPath: folder).filter { !$0.hasPrefix(".") }.sorted()
        let entries = try files.map { file in (file, [UInt8](try Data(contentsOf: URL(fileURLWithPath: folder + "/" + file)))) }
        try #require(!entries.isEmpty, "no corpus in \(folder)")
        return entries
    }

    /// A corpus entry with parts changed, duplicated, removed, joined with another entry's, or replaced by tokens.
    static func mutated(_ corpus: [[UInt8]], _ tokens: [String], _ random: inout SeededRandom) -> [UInt8] {
        var bytes = random.pick(corpus)
        if random.chance(15) {
            let other = random.pick(corpus)
            bytes = Array(bytes.prefix(random.below(bytes.count + 1))) + other.suffix(random.below(other.count + 1))
        }
        for _ in 0..<(random.chance(60) ? 1 : random.below(6) + 1) {
            let at = random.below(bytes.count + 1)
            let length = random.below(min(24, bytes.count - at) + 1)
            switch random.below(6) {
            case 0: bytes.insert(contentsOf: random.pick(tokens).utf8, at: at)
            case 1: bytes.replaceSubrange(at..<at + length, with: random.pick(tokens).utf8)
            case 2: bytes.removeSubrange(at..<at + length)
            case 3: bytes.insert(contentsOf: bytes[at..<at + length], at: random.below(bytes.count + 1))
            case 4: if at < bytes.count { bytes[at] = UInt8(truncatingIfNeeded: random.next()) }
            default: if at < bytes.count { bytes[at] ^= 1 << UInt8(random.below(8)) }
            }
        }
        return bytes
    }
}
