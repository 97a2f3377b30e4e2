package import Commits
package import JSONTree

/// Observers with the changes each has missed, in the order of their first miss. If not all can be notified at once, those that have waited
/// longest come first.
package struct MissedChanges: Sequence, Sendable, ExpressibleByDictionaryLiteral {
    private var changes: [Observation: MissedPaths] = [:]
    /// Includes observers forgotten since. One that misses changes again is appended again.
    private var order: [Observation] = []

    package init() {}

    package init(dictionaryLiteral elements: (Observation, MissedPaths)...) {
        for (observation, missed) in elements { mark(observation, missed, limit: .max) }
    }

    package var count: Int { changes.count }
    package var isEmpty: Bool { changes.isEmpty }
    package subscript(observation: Observation) -> MissedPaths? { changes[observation] }

    package mutating func mark(_ observation: Observation, _ missed: MissedPaths, limit: Int) {
        let known = changes[observation]
        if known == nil { order.append(observation) }
        changes[observation] = (known ?? .at([])).joined(with: missed, limit: limit)
    }

    package mutating func forget(_ observation: Observation) {
        guard changes.removeValue(forKey: observation) != nil else { return }
        // Amortized O(1): as many were marked before.
        if order.count > 2 * changes.count + 16 { order = map(\.0) }
    }

    /// O(observers) in total.
    package func makeIterator() -> AnyIterator<(Observation, MissedPaths)> {
        var (left, next) = (changes, order.makeIterator())
        return AnyIterator {
            while let observation = next.next() {
                if let missed = left.removeValue(forKey: observation) { return (observation, missed) }
            }
            return nil
        }
    }
}

/// The changes that an observer has missed.
package enum MissedPaths {
    /// These paths at or below its own; none is below another.
    case at(Set<Path>)
    /// Too many to remember, or its whole path.
    case whole

    /// The written paths, none of which is below another. More than `limit` are not scanned and count as `whole`.
    package static func of(_ written: ArraySlice<Path>, limit: Int) -> MissedPaths {
        written.count > limit ? .whole : .at(Set(written))
    }

    /// O(limit · depth²)
    package func joined(with other: MissedPaths, limit: Int) -> MissedPaths {
        guard case .at(let places) = self, case .at(let more) = other, more.count <= limit else { return .whole }
        let all = places.union(more)
        let outermost = all.filter { !$0.isBelow(oneOf: all) }
        return outermost.count > limit ? .whole : .at(outermost)
    }
}

extension Path {
    /// Whether another of the paths contains this one.
    fileprivate func isBelow(oneOf places: Set<Path>) -> Bool {
        var above = self
        while above.keys.popLast() != nil { if places.contains(above) { return true } }
        return false
    }
}

extension Observation {
    /// Whether a newer state may replace older ones. Child events are all sent (observe protocol): each describes a change, not the
    /// state.
    package var mayConflate: Bool {
        switch style {
        case .patches, .stream, .countStream: true
        case .events(_, let kinds, _): kinds.areValues
        }
    }
}
