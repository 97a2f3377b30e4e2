import Glibc
import Testing

/// Seeded, structured fuzzing of one parser: entries of its corpus are changed, joined and checked, over and over.
///
/// In the suite each parser is fuzzed for a moment. By environment:
/// ```
/// VIGLA_FUZZ_SECONDS=600   how long, for each parser
/// VIGLA_FUZZ_SEED=42       where to begin; each input has a seed of its own, counted up from here
/// ```
/// An input that breaks an invariant is printed with its seed, and the fuzzing of its parser ends; so does one that ends the
/// process, by the last line of `.build/fuzz/NAME.seed`. It becomes a file of the corpus, and a test with a name.
struct Fuzzing {
    /// The folder of the corpus in `Corpora`.
    let name: String
    /// Pieces of text with a meaning for the parser.
    var tokens: [String] = []
    /// Makes an input from scratch, every second time; without it all inputs come from the corpus.
    var make: ((inout SeededGenerator) -> [UInt8])?

    /// - Parameter check: what is wrong with how the parser took an input; nil when every invariant held.
    func run(_ check: ([UInt8], inout SeededGenerator) -> String?) throws {
        let corpus = try Corpus.entries(name)
        try #require(!corpus.isEmpty)
        var generator = SeededGenerator(seed: 1)
        for (file, bytes) in corpus {
            if let fault = check(bytes, &generator) { Issue.record("\(name)/\(file): \(fault)") }
        }
        let seconds = number("VIGLA_FUZZ_SECONDS")
        let entries = corpus.map(\.bytes)
        let trace = seconds.map { _ in SeedTrace(name) }
        let first = number("VIGLA_FUZZ_SEED") ?? (seconds == nil ? 1 : Int(time(nil)) << 20)
        let end = Self.now() + (seconds.map { $0 * 1000 } ?? 250)
        var seed = first
        var settledMemory: Int?
        while seed & 15 != 0 || Self.now() < end {
            trace?.note(seed)
            generator = SeededGenerator(seed: UInt64(seed))
            let bytes = input(entries, &generator)
            if let fault = check(bytes, &generator) {
                Issue.record("\(name), VIGLA_FUZZ_SEED=\(seed): \(fault)\n  bytes \(bytes)\n  text \(text(bytes).debugDescription)")
                return
            }
            seed += 1
            // By then every buffer that is kept has its size.
            if trace != nil, seed - first == 10_000 { settledMemory = Self.residentBytes() }
        }
        guard seconds != nil else { return }
        print("fuzz \(name): \(seed - first) inputs from seed \(first)")
        if let settledMemory { #expect(Self.residentBytes() - settledMemory < 64 << 20, "memory grows with the number of inputs") }
    }

    // MARK: Inputs

    private func input(_ entries: [[UInt8]], _ generator: inout SeededGenerator) -> [UInt8] {
        var bytes: [UInt8]
        if let make, generator.below(2) == 0 {
            bytes = make(&generator)
            if generator.below(2) == 0 { return bytes }
        } else {
            bytes = entries[generator.below(entries.count)]
            if generator.below(4) == 0 {
                let other = entries[generator.below(entries.count)]
                bytes = Array(bytes.prefix(generator.below(bytes.count + 1))) + other.suffix(generator.below(other.count + 1))
            }
        }
        if !tokens.isEmpty, generator.below(3) == 0 {
            let token = tokens[generator.below(tokens.count)]
            let at = generator.below(bytes.count + 1)
            let replaced = generator.below(2) == 0 ? min(bytes.count - at, token.utf8.count) : 0
            bytes.replaceSubrange(at..<at + replaced, with: token.utf8)
        }
        return mutated(bytes, &generator)
    }

    private func number(_ variable: String) -> Int? { getenv(variable).flatMap { Int(String(cString: $0)) } }

    // MARK: The process

    /// ms of the monotonic clock.
    private static func now() -> Int {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return time.tv_sec * 1000 + time.tv_nsec / 1_000_000
    }

    private static func residentBytes() -> Int {
        let pages = Corpus.read("/proc/self/statm").map { text($0).split(separator: " ") } ?? []
        return pages.count > 1 ? (Int(pages[1]) ?? 0) * 4096 : 0
    }
}

/// The seed of the input that is being checked, in memory that is a file: it survives the end of the process.
private final class SeedTrace {
    private let digits: UnsafeMutableRawPointer?

    init(_ name: String) {
        let folder = Corpus.folder + "/../../../.build/fuzz"
        mkdir(folder, 0o755)
        let fd = open("\(folder)/\(name).seed", O_RDWR | O_CREAT | O_TRUNC, 0o644)
        guard fd >= 0, ftruncate(fd, 20) == 0 else {
            digits = nil
            return
        }
        let mapped = mmap(nil, 20, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)
        digits = mapped == MAP_FAILED ? nil : mapped
        close(fd)
    }

    deinit { if let digits { munmap(digits, 20) } }

    func note(_ seed: Int) {
        guard let digits else { return }
        var rest = seed
        for at in (0..<19).reversed() {
            digits.storeBytes(of: UInt8(ascii: "0") + UInt8(rest % 10), toByteOffset: at, as: UInt8.self)
            rest /= 10
        }
        digits.storeBytes(of: 10, toByteOffset: 19, as: UInt8.self)
    }
}

/// The committed inputs of each parser: what it reads every day, what it must refuse, and what once broke it.
enum Corpus {
    static let folder = #filePath.split(separator: "/", omittingEmptySubsequences: false).dropLast(2).joined(separator: "/") + "/Corpora"

    /// The entries of a parser by file name, in its order.
    static func entries(_ name: String) throws -> [(file: String, bytes: [UInt8])] {
        let path = "\(folder)/\(name)"
        guard let directory = opendir(path) else { return [] }
        defer { closedir(directory) }
        var files: [String] = []
        while let entry = readdir(directory) {
            let file = withUnsafePointer(to: &entry.pointee.d_name) {
                $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
            }
            if !file.hasPrefix(".") { files.append(file) }
        }
        return files.sorted().compactMap { file in read("\(path)/\(file)").map { (file, $0) } }
    }

    static func read(_ path: String) -> [UInt8]? {
        let fd = open(path, O_RDONLY | O_CLOEXEC)
        guard fd >= 0 else { return nil }
        defer { close(fd) }
        var bytes: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 65_536)
        while true {
            let count = Glibc.read(fd, &buffer, buffer.count)
            if count <= 0 { return bytes }
            bytes += buffer[..<count]
        }
    }
}
