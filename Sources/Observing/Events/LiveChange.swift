import Commits
package import JSONTree
package import LiveQueries

/// A change of a live query, or its whole result.
package struct LiveChange: Sendable {
    /// Nil if only the current result is sent.
    package let change: LiveQueryView.Change?
    /// Events of earlier commits that were held back because the query showed too few children.
    package let earlier: [ContiguousArray<LiveEvent>]
    package let query: Query
    /// How many children it shows now.
    package let count: Int
    /// Keys of all shown children, in the query's order if it has one; nil if no observer wants them.
    package var shown: ContiguousArray<Key>?

    /// True for a whole result without events.
    package var isWhole: Bool { change == nil && earlier.isEmpty }
    /// True if the number of children may have changed.
    var hasOtherCount: Bool {
        if isWhole || !earlier.isEmpty { return true }
        if case .count? = change { return true }
        return change?.events.contains { $0.kind == .added || $0.kind == .removed } ?? false
    }
    /// The events, commit by commit.
    package var commits: [ContiguousArray<LiveEvent>] { earlier + (change.map { [$0.events] } ?? []) }
}

extension LiveChange {
    /// Patches with each child once, at its current value.
    package func patches(below path: Path) -> [(path: Path, value: Node)] {
        var patches = (change?.events ?? []).map { (path: path.appending($0.key), value: $0.kind == .removed ? .null : $0.value) }
        if earlier.isEmpty { return patches }
        var seen = Set(patches.map(\.path))
        for event in earlier.reversed().joined() where seen.insert(path.appending(event.key)).inserted {
            patches.append((path.appending(event.key), event.kind == .removed ? .null : event.value))
        }
        return patches
    }
}
