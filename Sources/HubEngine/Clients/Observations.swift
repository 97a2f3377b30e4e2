import JSONTree

/// What one client observes, found by place or by subscription id in O(1).
struct Observations: Sequence {
    private var byPath: [Path: [Observation]] = [:]
    private var byID: [Int64: Observation] = [:]

    /// - Returns: false when it was there already.
    @discardableResult
    mutating func insert(_ observation: Observation) -> Bool {
        guard byPath[observation.path]?.contains(observation) != true else { return false }
        byPath[observation.path, default: []].append(observation)
        if case .events(let id, _) = observation.style { byID[id] = observation }
        return true
    }

    /// - Returns: false when it was not there.
    @discardableResult
    mutating func remove(_ observation: Observation) -> Bool {
        guard let index = byPath[observation.path]?.firstIndex(of: observation) else { return false }
        byPath[observation.path]?.remove(at: index)
        if byPath[observation.path]?.isEmpty == true { byPath[observation.path] = nil }
        if case .events(let id, _) = observation.style { byID[id] = nil }
        return true
    }

    /// Whether there are at most `count`, and all fulfil a condition. O(count)
    func areFew(_ count: Int, and isFulfilled: (Observation) -> Bool) -> Bool {
        guard byPath.count <= count else { return false }
        var left = count
        for observation in byPath.values.lazy.joined() {
            left -= 1
            if left < 0 || !isFulfilled(observation) { return false }
        }
        return true
    }

    /// The observers of a place in a style; realtime clients tell queries of one place apart by their tag.
    func at(_ path: Path, style: ObserverStyle) -> [Observation] { byPath[path]?.filter { $0.style == style } ?? [] }

    /// The observer with a subscription id (observe protocol).
    subscript(id: Int64) -> Observation? { byID[id] }

    func makeIterator() -> IndexingIterator<[Observation]> { byPath.values.flatMap { $0 }.makeIterator() }
}
