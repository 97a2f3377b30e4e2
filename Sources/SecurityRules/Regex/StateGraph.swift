/// A non-deterministic automaton over classes of code units (Thompson's construction).
struct StateGraph {
    enum State {
        /// Continues with `next` after a unit of the set.
        case units(set: Int, next: Int32)
        /// Continues with both states; -1 for none.
        case split(Int32, Int32)
        case accept
    }

    private(set) var states: [State] = []
    private(set) var sets: [UnitSet] = []
    private(set) var start: Int32 = 0
    private var setIndex: [UnitSet: Int] = [:]

    init(_ syntax: RegexSyntax) {
        states.append(.accept)
        start = add(syntax, then: 0)
    }

    private mutating func append(_ state: State) -> Int32 {
        states.append(state)
        return Int32(states.count - 1)
    }

    /// Adds the states of a syntax, followed by `next`; returns their entry.
    private mutating func add(_ syntax: RegexSyntax, then next: Int32) -> Int32 {
        switch syntax {
        case .empty: return next
        case .units(let set):
            if setIndex[set] == nil {
                setIndex[set] = sets.count
                sets.append(set)
            }
            return append(.units(set: setIndex[set] ?? 0, next: next))
        case .sequence(let parts):
            var entry = next
            for part in parts.reversed() { entry = add(part, then: entry) }
            return entry
        case .alternatives(let parts):
            var entry: Int32 = -1
            for part in parts.reversed() {
                let branch = add(part, then: next)
                entry = entry < 0 ? branch : append(.split(branch, entry))
            }
            return entry
        case .repeated(let part, let minimum, let maximum):
            var entry = next
            if let maximum {
                for _ in minimum..<maximum { entry = append(.split(add(part, then: entry), next)) }
            } else {
                let loop = append(.split(-1, next))
                states[Int(loop)] = .split(add(part, then: loop), next)
                entry = loop
            }
            for _ in 0..<minimum { entry = add(part, then: entry) }
            return entry
        }
    }
}

/// Groups code units such that every set of the pattern contains all or none of a group.
struct UnitClasses {
    /// The first unit of each interval, ascending from 0, and its group.
    private var bounds: [UInt16] = []
    private var groups: [UInt16] = []
    private var ascii: [UInt16] = []
    private(set) var count = 0
    /// For each group, whether each set contains it.
    private(set) var membership: [[Bool]] = []

    init(_ sets: [UnitSet]) {
        var starts: Set<UInt16> = [0]
        for range in sets.flatMap(\.ranges) {
            starts.insert(range.lowerBound)
            if range.upperBound < UInt16.max { starts.insert(range.upperBound + 1) }
        }
        bounds = starts.sorted()
        var known: [[Bool]: UInt16] = [:]
        for bound in bounds {
            let signature = sets.map { $0.contains(bound) }
            if known[signature] == nil {
                known[signature] = UInt16(count)
                membership.append(signature)
                count += 1
            }
            groups.append(known[signature] ?? 0)
        }
        ascii = (UInt16(0)..<128).map(search)
    }

    private func search(_ unit: UInt16) -> UInt16 {
        var (low, high) = (0, bounds.count)
        while high - low > 1 {
            let middle = (low + high) / 2
            if bounds[middle] <= unit { low = middle } else { high = middle }
        }
        return groups[low]
    }

    @inline(__always)
    subscript(unit: UInt16) -> Int { unit < 128 ? Int(ascii[Int(unit)]) : Int(search(unit)) }
}
