public import JSONTree

/// Which places of a write matter to what follows from it: found before it is made, where it names many.
extension RuleSet {
    /// Whether something may follow from a write at a place. False is certain. O(depth)
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
        return isCounted(path)
    }

    /// Whether a place is in a set that is counted, or lies above one.
    func isCounted(_ path: Path) -> Bool { !program.counters.isEmpty && isCounted(path, 0, program.sets.places.startIndex) }

    /// Whether a place is a child of a set that is counted, or lies above or below one.
    private func isCounted(_ path: Path, _ level: Int, _ set: Int) -> Bool {
        guard level < path.depth else { return true }
        if !program.sets.places[set].counters.isEmpty { return true }
        return program.sets.below(set, path.keys[level]).contains { isCounted(path, level + 1, $0) }
    }

    /// Whether copies or sets that are known by an index may be at, above or below a place. False is certain. O(depth · copies)
    public func mayHoldCopies(around path: Path) -> Bool {
        program.indexed.contains { places in
            zip(places.segments, path.keys).allSatisfy { segment, key in
                if case .key(let known) = segment { known == key } else { true }
            }
        }
    }
}

extension PlaceDetails {
    /// Whether the node itself has anything follow.
    var isFollowed: Bool { !(removes.isEmpty && counts.isEmpty && copies.isEmpty && inboxes.isEmpty) }
}

extension Place {
    /// Whether it or something below has anything follow.
    fileprivate var isFollowed: Bool { removes || counts || copies }
}
