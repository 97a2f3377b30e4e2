package import Commits
package import JSONTree

/// The observations of one client, found by path or by subscription id in O(1).
package struct Observations: Sequence {
    /// Most clients observe a path once; a set of one would take more memory than the observer.
    private enum AtPlace {
        case one(Observation)
        case many(Set<Observation>)
    }

    private var byPath: [Path: AtPlace] = [:]
    private var byID: [Int64: Observation] = [:]
    package private(set) var count = 0

    package func contains(_ observation: Observation) -> Bool {
        switch byPath[observation.path] {
        case .one(let known): known == observation
        case .many(let known): known.contains(observation)
        case nil: false
        }
    }

    /// - Returns: false when it exists already.
    @discardableResult
    package mutating func insert(_ observation: Observation) -> Bool {
        guard !contains(observation) else { return false }
        switch byPath.removeValue(forKey: observation.path) {
        case nil: byPath[observation.path] = .one(observation)
        case .one(let known): byPath[observation.path] = .many([known, observation])
        case .many(var known):
            known.insert(observation)
            byPath[observation.path] = .many(known)
        }
        if case .events(let id, _, _) = observation.style { byID[id] = observation }
        count += 1
        return true
    }

    /// - Returns: false when there is none.
    @discardableResult
    package mutating func remove(_ observation: Observation) -> Bool {
        guard contains(observation) else { return false }
        if case .many(var known) = byPath.removeValue(forKey: observation.path) {
            known.remove(observation)
            if !known.isEmpty { byPath[observation.path] = .many(known) }
        }
        if case .events(let id, _, _) = observation.style { byID[id] = nil }
        count -= 1
        return true
    }

    /// The observers of a path with a style. Realtime clients distinguish queries of one path by their tag. O(observers there)
    package func at(_ path: Path, style: ObserverStyle) -> [Observation] { at(path).filter { $0.style == style } }

    /// The client's number of observers at a path.
    package func count(at path: Path) -> Int {
        switch byPath[path] {
        case .one: 1
        case .many(let known): known.count
        case nil: 0
        }
    }

    private func at(_ path: Path) -> [Observation] { byPath[path].map(Self.all) ?? [] }

    private static func all(_ observers: AtPlace) -> [Observation] {
        switch observers {
        case .one(let known): [known]
        case .many(let known): Array(known)
        }
    }

    /// Whether there are at most `count`, and all satisfy a condition. O(count)
    package func areFew(_ count: Int, and isFulfilled: (Observation) -> Bool) -> Bool {
        guard byPath.count <= count else { return false }
        var left = count
        for observers in byPath.values {
            if case .many(let known) = observers, known.count > left { return false }
            for observation in Self.all(observers) {
                left -= 1
                if left < 0 || !isFulfilled(observation) { return false }
            }
        }
        return true
    }

    /// At most `most` of them, in any order. O(result), apart from empty dictionary slots
    package func some(_ most: Int) -> [Observation] {
        var found: [Observation] = []
        for observers in byPath.values {
            found += Self.all(observers).prefix(most - found.count)
            if found.count >= most { break }
        }
        return found
    }

    /// The observer with a subscription id (observe protocol).
    package subscript(id: Int64) -> Observation? { byID[id] }

    package func makeIterator() -> IndexingIterator<[Observation]> { byPath.values.flatMap(Self.all).makeIterator() }
}
