public import JSONTree

/// Which written places may have consequences: checked before a write that names many places.
extension RuleSet {
    /// Whether a write at a place may have consequences. False is certain. O(depth)
    public func mayFollow(from path: Path) -> Bool {
        guard hasConsequences else { return false }
        var place: Int32 = 0
        var isKnown = true
        for (level, key) in path.keys.enumerated() {
            guard program.tables.places[Int(place)].isFollowed else {
                isKnown = false
                break
            }
            if level > 0, program.tables.places[Int(place)].isSource { return true }
            place = withUnsafePointer(to: key) { program.tables.child(of: place, TextCursor($0)) }
            if place < 0 {
                isKnown = false
                break
            }
        }
        if isKnown, program.tables.places[Int(place)].isFollowed { return true }
        return isCounted(path) || isWatched(path)
    }

    /// Whether a place is at, above or below one that watches depend on. O(watches · depth)
    func isWatched(_ path: Path) -> Bool { program.watchPatterns.contains { WatchRule.touches($0, path) } }

    /// Whether a place lies in, above or below a counted set.
    func isCounted(_ path: Path) -> Bool { !program.counters.isEmpty && isCounted(path, 0, program.sets.places.startIndex) }

    /// The same, from a level of the path and a node of the sets' tree.
    private func isCounted(_ path: Path, _ level: Int, _ set: Int) -> Bool {
        guard level < path.depth else { return true }
        if !program.sets.places[set].counters.isEmpty { return true }
        return program.sets.below(set, path.keys[level]).contains { isCounted(path, level + 1, $0) }
    }

    /// Whether indexed copies or set members may be at, above or below a place. False is certain. O(depth · copies)
    public func mayHoldCopies(around path: Path) -> Bool {
        program.indexed.contains { places in
            zip(places.segments, path.keys).allSatisfy { segment, key in
                if case .key(let known) = segment { known == key } else { true }
            }
        }
    }
}

extension PlaceDetails {
    /// Whether the node itself has consequences.
    var isFollowed: Bool { !(removes.isEmpty && counts.isEmpty && copies.isEmpty && inboxes.isEmpty && notifications.isEmpty && webhooks.isEmpty) }
}

extension Place {
    /// Whether the node or one below it has consequences.
    fileprivate var isFollowed: Bool { removes || counts || copies || delivers }
}
