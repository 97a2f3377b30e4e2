import JSONTree

/// A counter that the hub maintains at a node: the number of children of a place, or the sum of their values.
struct Counter: Sendable {
    enum Operation: Sendable { case count, sum }

    /// The source of one segment of the counter's place.
    enum Source: Sendable {
        case key(Key)
        /// The key at this index of the member's path.
        case set(Int)
        /// The value of an instruction evaluated at the member.
        case value(Int32)
    }

    /// A segment of the set's place.
    enum Segment: Sendable {
        case key(Key)
        /// A wildcard of the node's place, by its depth.
        case capture(depth: Int)
    }

    let operation: Operation
    /// The rule node that declares it, and its name there.
    let place: Int32
    let name: Key
    /// The place whose children are counted.
    let set: [Segment]
    /// The node's place, computed from a member.
    let node: [Source]
    /// The instruction of the filter; -1 if all members count.
    let filter: Int32

    /// Whether a member's data must be evaluated.
    var readsMember: Bool { filter >= 0 || operation == .sum || node.contains { if case .value = $0 { true } else { false } } }
}

/// The places of the sets of all counters, as a tree from the root.
struct CounterSets: Sendable {
    struct Place: Sendable {
        var literals: [Key: Int] = [:]
        var wildcard: Int?
        /// The indexes of the counters that count the children here.
        var counters: [Int] = []
    }

    private(set) var places: [Place] = [Place()]

    init(_ counters: [Counter]) {
        for (number, counter) in counters.enumerated() {
            var here = 0
            for segment in counter.set {
                let known: Int?
                switch segment {
                case .key(let key): known = places[here].literals[key]
                case .capture: known = places[here].wildcard
                }
                let next = known ?? places.count
                if known == nil {
                    places.append(Place())
                    switch segment {
                    case .key(let key): places[here].literals[key] = next
                    case .capture: places[here].wildcard = next
                    }
                }
                here = next
            }
            places[here].counters.append(number)
        }
    }

    /// The set places below one, for a key.
    func below(_ place: Int, _ key: Key) -> [Int] {
        let place = places[place]
        return [place.literals.isEmpty ? nil : place.literals[key], place.wildcard].compactMap { $0 }
    }
}
