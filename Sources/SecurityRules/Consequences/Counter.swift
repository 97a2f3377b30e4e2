import JSONTree

/// A counter that the hub maintains at a node: what the children of a place amount to.
struct Counter: Sendable {
    enum Operation: String, Sendable, CaseIterable {
        /// How many members count; the sum of their values; the greatest and the least value; whether any member counts.
        case count, sum, max, min, any
    }

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
        /// `*`: the members are the children of all these places.
        case every
    }

    let operation: Operation
    /// The rule node that declares it, and its name there.
    let place: Int32
    let name: Key
    /// The place whose children are counted.
    let set: [Segment]
    /// The node's place, computed from a member.
    let node: [Source]
    /// The instruction of a member's value; -1 for the member itself.
    let value: Int32
    /// The instruction of the filter; -1 if all members count.
    let filter: Int32
    /// Whether it creates its node. A node with nothing but empty counters goes again, so without the node nothing counts.
    let creates: Bool

    /// Whether members must be evaluated one by one: otherwise their number tells.
    var readsMember: Bool {
        operation != .count || filter >= 0 || node.contains { if case .value = $0 { true } else { false } }
    }
}

extension Counter.Operation {
    /// Whether it keeps the best of the members, not their sum.
    var isBest: Bool { self != .count && self != .sum }

    /// Adds a member's amount to a total. A total is nil while no member counts.
    func add(_ amount: CounterSum, to total: inout CounterSum?) {
        guard let known = total else { return total = amount }
        switch self {
        case .count, .sum: total = known + amount
        case .max, .any: total = Swift.max(known, amount)
        case .min: total = Swift.min(known, amount)
        }
    }

    /// The stored form: 0, false or nothing for no members.
    func node(_ total: CounterSum?) -> Node {
        switch self {
        case .count, .sum: (total ?? .zero).node
        case .max, .min: total?.node ?? .null
        case .any: .bool(total != nil)
        }
    }

    /// The stored form after some members came and others went.
    /// - Parameters:
    ///   - former: the stored form before.
    ///   - gained: the total of those that came or changed, after the change.
    ///   - lost: that of those that went or changed, before it.
    /// - Returns: nil if the set must be counted: the greatest value has gone, or `former` is rounded.
    func value(_ former: Node, gained: CounterSum?, lost: CounterSum?) -> Node? {
        switch self {
        case .count, .sum:
            let (gained, lost) = (gained ?? .zero, lost ?? .zero)
            guard let stored = CounterSum(stored: former) else { return gained == lost ? former : nil }
            return (stored + gained - lost).node
        case .max, .min, .any:
            if gained == nil, lost == nil { return former.isNull ? node(nil) : former }
            let stored: CounterSum?
            switch former {
            case .null, .bool(false): stored = nil
            case .bool: stored = CounterSum(count: 1)
            default:
                guard let sum = CounterSum(stored: former) else { return nil }
                stored = sum
            }
            if let lost {
                // With a value as good as the best one among those that came, the others do not matter.
                var best = gained
                if let stored { add(stored, to: &best) }
                let isBestGained = gained != nil && best == gained
                let isOtherLost = stored.map { lost != $0 } ?? false
                guard isBestGained || isOtherLost else { return nil }
            }
            var total = stored
            if let gained { add(gained, to: &total) }
            return node(total)
        }
    }
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
                case .capture, .every: known = places[here].wildcard
                }
                let next = known ?? places.count
                if known == nil {
                    places.append(Place())
                    switch segment {
                    case .key(let key): places[here].literals[key] = next
                    case .capture, .every: places[here].wildcard = next
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
