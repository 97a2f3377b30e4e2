import DequeModule
import JSONTree

/// Where the last commits of a namespace have written: what a prepared write takes over before it is made, and later what a client that
/// resumes has missed. Bounded in commits, places and bytes; while nothing is prepared few are kept.
///
/// Confined to the database queue. O(keys of the places) for each commit.
struct RecentCommits {
    /// One place of a commit.
    private struct Entry {
        let sequence: UInt64
        let place: Path
        /// Of the place: its keys may be as long as a message has room.
        let bytes: Int
    }

    /// Of one commit behind the other.
    private var entries: Deque<Entry> = []
    private var commitCount = 0
    private(set) var bytes = 0
    /// All commits after this one are known.
    private var start: UInt64
    /// Writes that are being prepared.
    private(set) var followers = 0
    /// Places that are kept while writes are prepared; a write that is behind more of them is prepared again.
    private let mostPlaces: Int
    private let mostBytes: Int
    /// Commits that are kept while none are.
    private let mostCommits: Int

    /// - Parameter sequence: the last commit before all that will be recorded.
    init(after sequence: UInt64, places: Int, bytes: Int, commits: Int) {
        start = sequence
        mostPlaces = places
        mostBytes = bytes
        mostCommits = commits
    }

    /// A write is being prepared: places are kept for it.
    mutating func follow() { followers += 1 }

    /// A write is no longer being prepared.
    mutating func unfollow() {
        followers -= 1
        trim()
    }

    mutating func record(_ places: some Sequence<Path>, sequence: UInt64) {
        for place in places {
            if entries.last?.sequence != sequence { commitCount += 1 }
            let entry = Entry(sequence: sequence, place: place, bytes: place.memoryBytes)
            entries.append(entry)
            bytes += entry.bytes
        }
        trim()
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

    /// The places that commits after this one have written, in order; nil when they are no longer known. O(result)
    func places(since sequence: UInt64) -> [Path]? {
        guard sequence >= start else { return nil }
        guard let last = entries.last, last.sequence > sequence else { return [] }
        var first = entries.count
        while first > 0, entries[first - 1].sequence > sequence { first -= 1 }
        return entries[first...].map(\.place)
    }

    /// Commits after this one were taken back.
    mutating func rollBack(to sequence: UInt64) {
        while let last = entries.last, last.sequence > sequence {
            entries.removeLast()
            bytes -= last.bytes
            if entries.last?.sequence != last.sequence { commitCount -= 1 }
        }
        start = min(start, sequence)
    }
}
