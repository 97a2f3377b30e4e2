import Glibc
import Testing
import TestSupport

/// Seeded, structured fuzzing of one parser: entries of its corpus are changed, joined and checked, again and again.
///
/// See `FuzzLoop` for long runs. An input that breaks an invariant becomes a file of the corpus, and a named test.
struct Fuzzing {
    /// The folder of the corpus in `Corpora`.
    let name: String
    /// Pieces of text that have a meaning for the parser.
    var tokens: [String] = []
    /// Inputs in the suite, in addition to the corpus.
    var count = 4_000
    /// Creates an input from scratch, every second time; without it all inputs come from the corpus.
    var make: ((inout SeededRandom) -> [UInt8])?

    /// - Parameter check: describes the broken invariant of an input; nil if every invariant held.
    func run(_ check: ([UInt8], inout SeededRandom) -> String?) throws {
        let corpus = try Corpus.entries(name)
        try #require(!corpus.isEmpty)
        var generator = SeededRandom(1)
        for (file, bytes) in corpus {
            if let fault = check(bytes, &generator) { Issue.record("\(name)/\(file): \(fault)") }
        }
        let entries = corpus.map(\.bytes)
        let loop = FuzzLoop(name, count: count)
        var inputs = 0
        var settledMemory: Int?
        loop.run { seed in
            generator = SeededRandom(seed)
            let bytes = input(entries, &generator)
            if let fault = check(bytes, &generator) { return "\(fault)\n  bytes \(bytes)\n  text \(text(bytes).debugDescription)" }
            inputs += 1
            // By then every retained buffer has reached its size.
            if loop.isLong, inputs == 10_000 { settledMemory = Self.residentBytes() }
            return nil
        }
        if let settledMemory { #expect(Self.residentBytes() - settledMemory < 64 << 20, "memory grows with the number of inputs") }
    }

    // MARK: Inputs

    private func input(_ entries: [[UInt8]], _ generator: inout SeededRandom) -> [UInt8] {
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

    // MARK: The process

    private static func residentBytes() -> Int {
        let pages = Corpus.read("/proc/self/statm").map { text($0).split(separator: " ") } ?? []
        return pages.count > 1 ? (Int(pages[1]) ?? 0) * 4096 : 0
    }
}

/// The committed inputs of each parser: everyday ones, ones it must refuse, and ones that once broke it.
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
