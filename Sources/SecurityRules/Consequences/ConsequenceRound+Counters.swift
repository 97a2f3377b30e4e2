import JSONTree

/// Counters: each changes by the members of its set that were added and removed. A set is counted as a whole only for a new node, and where the
/// greatest or least member has gone.
///
/// ```
/// written ─► members of sets that differ: lost before, gained after ─► counter's place ─► totals of both ─┐
///        └─► nodes with counters: new ones, and counters that were written themselves ─────────────────────┴─► former value, changed
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
        /// The totals of the members that came and went; a changed member did both.
        var gained: CounterSum?
        var lost: CounterSum?
        /// Whether the counter's node is new, so that its set is counted.
        var isNew = false
    }

    /// Updates the counters affected by the writes at the locations.
    mutating func count(_ locations: [Path]) throws(ConsequenceFault) {
        for location in locations {
            try members(program.sets.places.startIndex, location, 0, before, after)
            try counted(location)
        }
        for path in order { if let counting = countings[path] { try set(counting, at: path) } }
        for (path, place) in created.sorted(by: { $0.key < $1.key }) { try removeEmpty(path, place) }
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
                change(number, target) { Counter.Operation.count.add(CounterSum(count: isNow.childCount - was.childCount), to: &$0.gained) }
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
        if program.counters[number].creates { return true }
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
            let operation = program.counters[number].operation
            if let (target, amount) = try contribution(number, path, was, in: before) {
                change(number, target) { operation.add(amount, to: &$0.lost) }
            }
            if let (target, amount) = try contribution(number, path, isNow, in: after) {
                change(number, target) { operation.add(amount, to: &$0.gained) }
            }
        }
    }

    private mutating func change(_ number: Int, _ target: Path, _ body: (inout Counting) -> Void) {
        if countings[target] == nil { order.append(target) }
        body(&countings[target, default: Counting(counter: number)])
    }

    /// The amount that a member adds, and the counter's place.
    mutating func contribution(
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
            guard tables.places[Int(place)].counts, isNow.hasChildren else { return }
            recordNode(place, Path(location.keys.prefix(level)), was, isNow, written: level == location.depth - 1 ? key : nil)
            place = child(of: place, key)
            if place < 0 { return }
            (was, isNow) = (was.child(key), isNow.child(key))
        }
        try countedBelow(place, location, was, isNow)
    }

    private mutating func countedBelow(_ place: Int32, _ path: Path, _ was: Node, _ isNow: Node) throws(ConsequenceFault) {
        let rules = tables.places[Int(place)]
        guard rules.counts, isNow.hasChildren, !was.isIdentical(to: isNow) else { return }
        recordNode(place, path, was, isNow, written: nil)
        if rules.wildcard >= 0, tables.places[Int(rules.wildcard)].counts {
            keys = path.keys
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
    private mutating func recordNode(_ place: Int32, _ path: Path, _ was: Node, _ isNow: Node, written: Key?) {
        for number in program.details[Int(place)].counts {
            let (name, creates) = (program.counters[number].name, program.counters[number].creates)
            let target = path.appending(name)
            if creates { created[path] = place }
            if isNow.hasChildren, !was.hasChildren {
                // A leaf has no counters, so the node counts as new. Without a node nothing counts, if the counter creates it.
                change(number, target) { $0.isNew = !creates }
            } else {
                guard isFirst, author != .hub, written == nil || written == name, was.child(name) != isNow.child(name) else { continue }
                change(number, target) { _ in }
            }
        }
    }
}

extension Program {
    /// The amount that a member adds to a counter, and the counter's place. Nil if the member does not count.
    /// - Returns: also the text work done, at most `most`.
    func contribution(
        _ number: Int, _ path: Path, _ member: Node, in tree: Node, textWork most: Int
    ) -> (found: (Path, CounterSum)?, work: Int) {
        let counter = counters[number]
        var amount: CounterSum? = switch counter.operation {
        case .count, .any: CounterSum(count: 1)
        case .sum, .max, .min: CounterSum(member: member.leaf)
        }
        guard amount != nil || counter.value >= 0 else { return (nil, 0) }
        return Evaluator.run(self, old: .null, new: tree, auth: .null, now: 0, query: nil) { evaluator in
            evaluator.textWork = most
            let values = path.keys.withUnsafeBufferPointer { keys -> [Key]? in
                evaluator.descend(keys)
                do throws(Fault) {
                    if counter.filter >= 0, try !evaluator.boolean(counter.filter) { return nil }
                    if counter.value >= 0 {
                        guard case .number(let number) = try evaluator.value(counter.value) else { return nil }
                        amount = CounterSum(member: .number(number))
                    }
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
            guard let values, let amount, let place = counterPath(number, path, values) else { return (nil, most - evaluator.textWork) }
            return ((place, amount), most - evaluator.textWork)
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
