import DequeModule
package import JSONTree

/// The paths that recent commits wrote. Prepared writes merge them before they are committed. Bounded in commits, paths and bytes; while no write is being prepared, few commits are kept.
///
/// Confined to the database queue. O(keys of the paths) per commit.
package struct RecentCommits {
    /// One path of a commit.
    private struct Entry {
        let sequence: UInt64
        let place: Path
        /// Memory of the path: its keys may be as long as a message allows.
        let bytes: Int
    }

    /// In commit order.
    private var entries: Deque<Entry> = []
    private var commitCount = 0
    package private(set) var bytes = 0
    /// All commits after this one are known.
    private var start: UInt64
    /// Writes being prepared.
    package private(set) var followers = 0
    /// Paths kept while writes are prepared. A write that is further behind is prepared again.
    private let mostPlaces: Int
    private let mostBytes: Int
    /// Commits kept while no write is being prepared.
    private let mostCommits: Int

    /// - Parameter sequence: the last commit before the first one to be recorded.
    package init(after sequence: UInt64, places: Int, bytes: Int, commits: Int) {
        start = sequence
        mostPlaces = places
        mostBytes = bytes
        mostCommits = commits
    }

    /// A write is being prepared: paths are kept for it.
    package mutating func retain() { followers += 1 }

    /// A write is no longer being prepared.
    package mutating func release() {
        followers -= 1
        trim()
    }

    package mutating func record(_ place: Path, sequence: UInt64) {
        add(place, sequence)
        trim()
    }

    package mutating func record(_ places: [Path], sequence: UInt64) {
        for place in places { add(place, sequence) }
        trim()
    }

    private mutating func add(_ place: Path, _ sequence: UInt64) {
        if entries.last?.sequence != sequence { commitCount += 1 }
        let entry = Entry(sequence: sequence, place: place, bytes: place.memoryBytes)
        entries.append(entry)
        bytes += entry.bytes
    }

    private mutating func trim() {
        while entries.count > mostPlaces || bytes > mostBytes || (followers == 0 && commitCount > mostCommits), let first = entries.first {
            start = first.sequence
            while let entry = entries.first, entry.sequence == start {
                bytes -= entry.bytes
                entries.removeFirst()
            }
            commitCount -= 1
        }
    }

    /// The paths that commits after this one wrote, in order. Nil when they are no longer known. O(result)
    package func places(since sequence: UInt64) -> [Path]? {
        guard sequence >= start else { return nil }
        guard let last = entries.last, last.sequence > sequence else { return [] }
        var first = entries.count
        while first > 0, entries[first - 1].sequence > sequence { first -= 1 }
        return entries[first...].map(\.place)
    }

    /// Commits after this one were rolled back.
    package mutating func rollBack(to sequence: UInt64) {
        while let last = entries.last, last.sequence > sequence {
            entries.removeLast()
            bytes -= last.bytes
            if entries.last?.sequence != last.sequence { commitCount -= 1 }
        }
        start = min(start, sequence)
    }
}
