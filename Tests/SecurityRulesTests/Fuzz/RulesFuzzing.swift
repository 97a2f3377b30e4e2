import Foundation
import Testing

/// Seeded fuzzing of the rules: every input has a seed of its own, counted up, so that each can be made again alone.
///
/// In the suite each target is fuzzed with a few hundred inputs. By environment:
/// ```
/// VIGLA_FUZZ_SECONDS=600   how long, for each target
/// VIGLA_FUZZ_SEED=42       where to begin
/// ```
/// An input that breaks an invariant is printed with its seed, and ends the fuzzing of its target; the seed of one that ends the
/// process stands in `.build/fuzz/rules-NAME.seed`. It becomes a file of the corpus.
struct RulesFuzzing {
    /// The target, and the folder of its corpus in `Corpora`.
    let name: String
    /// Inputs when no time is given.
    var count = 300

    /// What one target did.
    struct Tally {
        /// Inputs, and those that were accepted.
        var inputs = 0
        var accepted = 0
        /// Decisions that were taken.
        var decisions = 0
        /// CPU of the most expensive input, and its seed.
        var worstMs = 0.0
        var worstSeed: UInt64 = 0
        /// CPU of what is fuzzed with this input; that of making it does not count.
        fileprivate var inputMs = 0.0

        mutating func timed<R>(_ body: () throws -> R) rethrows -> R {
            let start = RulesFuzzing.cpuMs()
            defer { inputMs += RulesFuzzing.cpuMs() - start }
            return try body()
        }
    }

    /// CPU after which one input has taken too long to be linear in anything that it holds. Far above what any takes, for busy
    /// machines and debug builds.
    private static let tooLongMs = 20_000.0

    /// - Parameter check: what is wrong with how an input was taken; nil when every invariant held.
    @discardableResult
    func run(_ check: (inout SeededRandom, inout Tally) throws -> String?) throws -> Tally {
        let environment = ProcessInfo.processInfo.environment
        let seconds = environment["VIGLA_FUZZ_SECONDS"].flatMap(Double.init)
        var seed = environment["VIGLA_FUZZ_SEED"].flatMap(UInt64.init) ?? (seconds == nil ? 1 : UInt64.random(in: 0 ... .max >> 8))
        let first = seed
        let end = Date(timeIntervalSinceNow: seconds ?? 0)
        let note = seconds == nil ? nil : seedFile()
        var tally = Tally()
        while seconds == nil ? tally.inputs < count : Date() < end {
            if let note { try? Data("\(seed)\n".utf8).write(to: note) }
            // Neighbours would be one stream, a step apart.
            var mixer = SeededRandom(seed)
            var random = SeededRandom(mixer.next())
            tally.inputMs = 0
            let fault = try check(&random, &tally)
            let cost = tally.inputMs
            if cost > tally.worstMs { (tally.worstMs, tally.worstSeed) = (cost, seed) }
            if let fault { Issue.record("\(name), VIGLA_FUZZ_SEED=\(seed): \(fault)") }
            if cost > Self.tooLongMs { Issue.record("\(name), VIGLA_FUZZ_SEED=\(seed): took \(cost) ms") }
            if fault != nil || cost > Self.tooLongMs { break }
            tally.inputs += 1
            seed &+= 1
        }
        if seconds != nil {
            print("fuzz \(name): \(tally.inputs) inputs from seed \(first), \(tally.accepted) accepted, \(tally.decisions) decisions, worst \(Int(tally.worstMs)) ms of CPU (seed \(tally.worstSeed))")
        }
        return tally
    }

    private func seedFile() -> URL {
        let folder = URL(fileURLWithPath: Self.corpora + "/../../../.build/fuzz")
        try? FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        return folder.appendingPathComponent("rules-\(name).seed")
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

    /// A corpus entry with pieces changed, doubled, removed, joined with another's, or replaced by tokens.
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
