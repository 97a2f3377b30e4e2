import JSONTree

/// Counters: each changes by what the members of its set have gained and lost. A set is counted as a whole only for a new node.
///
/// ```
/// written ─► members of sets that differ: before −, after +  ─► counter's place ─► sum of the differences ─┐
///        └─► nodes with counters: new ones, and counters that were written themselves ─────────────────────┴─► former value + difference
/// ```
extension ConsequenceRound {
    /// A child of a counted place.
    struct SetMember: Hashable {
        let set: Int
        let path: Path
    }

    /// The change of one counter in this round.
    struct Counting {
        let counter: Int
        var difference = CounterSum.zero
        /// Whether the counter's node is new.
        var isNew = false
    }

    /// Updates the counters affected by the writes at the locations.
    mutating func count(_ locations: [Path]) throws(ConsequenceFault) {
        for location in locations {
            try members(program.sets.places.startIndex, location, 0, before, after)
            try counted(location)
        }
        for path in order { if let counting = countings[path] { try set(counting, at: path) } }
    }

    // MARK: Members

    /// Processes set members above, at and below a location.
    private mutating func members(_ set: Int, _ location: Path, _ level: Int, _ was: Node, _ isNow: Node) throws(ConsequenceFault) {
        guard level < location.depth else { return try allMembers(set, location, was, isNow) }
        let key = location.keys[level]
        let counters = program.sets.places[set].counters
        if let first = counters.first {
            try chargeSteps(counters.count, program.counters[first].place, .counts)
            try member(set, Path(location.keys.prefix(level + 1)), was.child(key), isNow.child(key), counters)
        }
        for next in program.sets.below(set, key) { try members(next, location, level + 1, was.child(key), isNow.child(key)) }
    }

    /// Processes set members at and below a place that was written as a whole.
    private mutating func allMembers(_ set: Int, _ path: Path, _ was: Node, _ isNow: Node) throws(ConsequenceFault) {
        guard !was.isIdentical(to: isNow) else { return }
        let place = program.sets.places[set]
        var asked: [Int] = []
        for number in place.counters where concerns(number, path) {
            if program.counters[number].readsMember {
                asked.append(number)
            } else if let target = program.counterPath(number, path, []) {
                change(number, target) { $0.difference += CounterSum(count: isNow.childCount - was.childCount) }
            }
        }
        if asked.isEmpty, place.wildcard == nil {
            for (key, next) in place.literals { try allMembers(next, path.appending(key), was.child(key), isNow.child(key)) }
            return
        }
        try chargeKeys((was.childCount + isNow.childCount) * max(1, asked.count), program.counters[asked.first ?? 0].place, .counts)
        for (key, child) in was.children {
            let other = isNow.child(key)
            if !child.isIdentical(to: other) { try changed(set, path.appending(key), key, child, other, asked) }
        }
        for (key, child) in isNow.children where was.child(key).isNull {
            try changed(set, path.appending(key), key, .null, child, asked)
        }
    }

    private mutating func changed(
        _ set: Int, _ path: Path, _ key: Key, _ was: Node, _ isNow: Node, _ asked: [Int]
    ) throws(ConsequenceFault) {
        try member(set, path, was, isNow, asked)
        for next in program.sets.below(set, key) { try allMembers(next, path, was, isNow) }
    }

    /// Whether the counter's node may exist; otherwise its set is ignored, whatever its size.
    private func concerns(_ number: Int, _ set: Path) -> Bool {
        var keys = ContiguousArray<Key>()
        for source in program.counters[number].node {
            switch source {
            case .key(let key): keys.append(key)
            case .set(let i): keys.append(set.keys[i])
            case .value: return true
            }
        }
        return result.tree.node(at: Path(keys)).hasChildren
    }

    /// Processes a member of a set, before and after. Several locations may lead to the same member, which counts once.
    private mutating func member(
        _ set: Int, _ path: Path, _ was: Node, _ isNow: Node, _ numbers: [Int]
    ) throws(ConsequenceFault) {
        if numbers.isEmpty || was.isIdentical(to: isNow) || !seenMembers.insert(SetMember(set: set, path: path)).inserted { return }
        for number in numbers {
            if let (target, amount) = try contribution(number, path, was, in: before) {
                change(number, target) { $0.difference -= amount }
            }
            if let (target, amount) = try contribution(number, path, isNow, in: after) {
                change(number, target) { $0.difference += amount }
            }
        }
    }

    private mutating func change(_ number: Int, _ target: Path, _ body: (inout Counting) -> Void) {
        if countings[target] == nil { order.append(target) }
        body(&countings[target, default: Counting(counter: number)])
    }

    /// The amount that a member adds, and the counter's place.
    private mutating func contribution(
        _ number: Int, _ path: Path, _ member: Node, in tree: Node
    ) throws(ConsequenceFault) -> (Path, CounterSum)? {
        guard member.exists else { return nil }
        let (found, work) = program.contribution(number, path, member, in: tree, textWork: textWork)
        textWork -= work
        if program.counters[number].readsMember { result.evaluated += 1 }
        keys = path.keys
        if textWork <= 0 { throw fault(.tooMuchWork, program.counters[number].place, .counts) }
        return found
    }

    // MARK: Nodes

    /// Processes the nodes with counters above, at and below the location: new nodes, and counters that were written.
    private mutating func counted(_ location: Path) throws(ConsequenceFault) {
        var place: Int32 = 0
        var (was, isNow) = (before, after)
        for (level, key) in location.keys.enumerated() {
            guard tables.places[Int(place)].counts, isNow.exists else { return }
            recordMember(place, Path(location.keys.prefix(level)), was, isNow, written: level == location.depth - 1 ? key : nil)
            place = child(of: place, key)
            if place < 0 { return }
            (was, isNow) = (was.child(key), isNow.child(key))
        }
        try countedBelow(place, location, was, isNow)
    }

    private mutating func countedBelow(_ place: Int32, _ path: Path, _ was: Node, _ isNow: Node) throws(ConsequenceFault) {
        let rules = tables.places[Int(place)]
        guard rules.counts, isNow.hasChildren, !was.isIdentical(to: isNow) else { return }
        recordMember(place, path, was, isNow, written: nil)
        if rules.wildcard >= 0, tables.places[Int(rules.wildcard)].counts {
            try chargeKeys(isNow.childCount, place, .counts)
            for (key, node) in isNow.children {
                let next = child(of: place, key)
                if next >= 0 { try countedBelow(next, path.appending(key), was.child(key), node) }
            }
            return
        }
        for i in Int(rules.firstLiteral)..<Int(rules.firstLiteral + rules.literalCount) {
            let (key, next) = (tables.keys[Int(tables.literals[i].key)], tables.literals[i].place)
            try countedBelow(next, path.appending(key), was.child(key), isNow.child(key))
        }
    }

    /// - Parameter written: the only child that was written; nil if any child may have been.
    private mutating func recordMember(_ place: Int32, _ path: Path, _ was: Node, _ isNow: Node, written: Key?) {
        for number in program.details[Int(place)].counts {
            let name = program.counters[number].name
            // A leaf has no counters, so the node counts as new.
            if !was.hasChildren {
                change(number, path.appending(name)) { $0.isNew = true }
            } else if isFirst, author != .hub, written == nil || written == name, was.child(name) != isNow.child(name) {
                change(number, path.appending(name)) { _ in }
            }
        }
    }

    // MARK: Values

    private mutating func set(_ counting: Counting, at path: Path) throws(ConsequenceFault) {
        let counter = program.counters[counting.counter]
        let node = path.parent
        guard result.tree.node(at: node).hasChildren else { return }
        keys = node.keys
        let former = (isFirst && author != .hub ? before : result.tree).node(at: path)
        let value: Node
        if !counting.isNew, let stored = CounterSum(stored: former) {
            value = (stored + counting.difference).node
        } else if !counting.isNew, counting.difference == .zero {
            value = former
        } else {
            value = try wholeCount(counting.counter, path)?.node ?? (counting.isNew ? .int(0) : former)
        }
        let sent = after.node(at: path)
        if isFirst, author == .client, sent.exists, sent != value, counting.isNew || sent != former {
            throw fault(.counterWritten(counter.name.string), counter.place, .counts)
        }
        try write(value, at: path, counter.place, .counts)
    }

    /// The value of a counter whose node is new, or whose stored sum was rounded. Nil for a large set, which is counted off the queue.
    private mutating func wholeCount(_ number: Int, _ path: Path) throws(ConsequenceFault) -> CounterSum? {
        let counter = program.counters[number]
        var set = Path.root
        for segment in counter.set {
            switch segment {
            case .key(let key): set = set.appending(key)
            case .capture(let depth): set = set.appending(path.keys[depth - 1])
            }
        }
        let members = after.node(at: set)
        guard counter.readsMember else {
            result.counted.append(path)
            return CounterSum(count: members.childCount)
        }
        guard members.childCount <= limits.counted else {
            result.needsCounting = true
            return nil
        }
        try chargeKeys(members.childCount, counter.place, .counts)
        var sum = CounterSum.zero
        for (key, member) in members.children {
            guard let (target, amount) = try contribution(number, set.appending(key), member, in: after), target == path else { continue }
            sum += amount
        }
        result.counted.append(path)
        return sum
    }
}

extension Program {
    /// The amount that a member adds to a counter, and the counter's place. Nil if the member does not count.
    /// - Returns: also the text work done, at most `most`.
    func contribution(
        _ number: Int, _ path: Path, _ member: Node, in tree: Node, textWork most: Int
    ) -> (found: (Path, CounterSum)?, work: Int) {
        let counter = counters[number]
        let amount: CounterSum? = switch counter.operation {
        case .count: CounterSum(count: 1)
        case .sum: CounterSum(member: member.leaf)
        }
        guard let amount else { return (nil, 0) }
        guard counter.readsMember else { return (counterPath(number, path, []).map { ($0, amount) }, 0) }
        return Evaluator.run(self, old: .null, new: tree, auth: .null, now: 0, query: nil) { evaluator in
            evaluator.textWork = most
            let values = path.keys.withUnsafeBufferPointer { keys -> [Key]? in
                evaluator.descend(keys)
                do throws(Fault) {
                    if counter.filter >= 0, try !evaluator.boolean(counter.filter) { return nil }
                    var values: [Key] = []
                    for case .value(let instruction) in counter.node {
                        let key: Key
                        switch try evaluator.value(instruction) {
                        case .text(let text): key = text.key
                        case .number(let number) where number == number.rounded() && abs(number) < 1e15: key = Key(String(Int64(number)))
                        default: return nil
                        }
                        guard key.isValid else { return nil }
                        values.append(key)
                    }
                    return values
                } catch {
                    if error.reason == .tooMuchWork { evaluator.textWork = 0 }
                    return nil
                }
            }
            let found = values.flatMap { counterPath(number, path, $0) }.map { ($0, amount) }
            return (found, most - evaluator.textWork)
        }
    }

    /// The place of a counter.
    /// - Parameter values: the keys that the member's values yield.
    func counterPath(_ number: Int, _ member: Path, _ values: [Key]) -> Path? {
        var (keys, next) = (ContiguousArray<Key>(), 0)
        for source in counters[number].node {
            switch source {
            case .key(let key): keys.append(key)
            case .set(let i): keys.append(member.keys[i])
            case .value:
                guard next < values.count else { return nil }
                keys.append(values[next])
                next += 1
            }
        }
        // A literal rule node may hide the wildcard: then the node has other counters.
        var place: Int32 = 0
        for key in keys {
            place = withUnsafePointer(to: key) { tables.child(of: place, TextCursor($0)) }
            guard place >= 0 else { return nil }
        }
        guard place == counters[number].place else { return nil }
        keys.append(counters[number].name)
        return Path(keys)
    }
}
