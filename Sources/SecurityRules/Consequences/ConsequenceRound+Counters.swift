import JSONTree

/// Counters: each changes by the members of its set that came and went. A set is counted as a whole only for a new node, and where the
/// greatest or least member has gone.
///
/// ```
/// written ─► members of sets that differ: lost before, gained after ─► counter's place ─► totals of both ─────────┐
///        └─► nodes with counters: new ones, and counters that were written themselves ───────────────────────┴─► former value, changed
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

    /// Puts back the counters of removed nodes that they create, as far as they count anything: such a node changes, and is not removed.
    mutating func restoreCounters(_ locations: [Path]) throws(ConsequenceFault) {
        for location in locations {
            var place: Int32 = 0
            var (was, isNow) = (before, after)
            for (level, key) in location.keys.enumerated() {
                guard place >= 0, tables.places[Int(place)].createsNodes else { break }
                if level > 0 { try restore(place, Path(location.keys.prefix(level)), was, isNow) }
                place = child(of: place, key)
                (was, isNow) = (was.child(key), isNow.child(key))
            }
            if place >= 0 { try restoreBelow(place, location, was, isNow) }
        }
        after = result.tree
    }

    private mutating func restoreBelow(_ place: Int32, _ path: Path, _ was: Node, _ isNow: Node) throws(ConsequenceFault) {
        guard tables.places[Int(place)].createsNodes, was.hasChildren, !was.isIdentical(to: isNow) else { return }
        try restore(place, path, was, isNow)
        keys = path.keys
        try chargeKeys(was.childCount, place, .counts)
        for (key, node) in was.children where node.hasChildren {
            let next = child(of: place, key)
            if next >= 0 { try restoreBelow(next, path.appending(key), node, isNow.child(key)) }
        }
    }

    private mutating func restore(_ place: Int32, _ path: Path, _ was: Node, _ isNow: Node) throws(ConsequenceFault) {
        guard was.hasChildren, !isNow.hasChildren, !result.emptied.contains(path) else { return }
        for number in program.details[Int(place)].counts where program.counters[number].creates {
            let (counter, value) = (program.counters[number], was.child(program.counters[number].name))
            if value.isNull || value == counter.operation.node(nil) { continue }
            keys = path.keys
            try write(value, at: path.appending(counter.name), place, .counts)
        }
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

    // MARK: Values

    private mutating func set(_ counting: Counting, at path: Path) throws(ConsequenceFault) {
        let counter = program.counters[counting.counter]
        let node = path.parent
        let isThere = result.tree.node(at: node).hasChildren
        guard isThere || counter.creates && result.tree.mayHold(node) else { return }
        if counter.creates { created[node] = counter.place }
        keys = node.keys
        // Before the round, apart from what clients wrote; a removal of this round is not seen either.
        let former = (isFirst && author != .hub ? before : after).node(at: path)
        let value: Node
        // Not counted yet: it would fall below 0.
        let isUncounted = counter.creates && former.isNull && counting.lost != nil
        if !counting.isNew, !isUncounted, let changed = counter.operation.value(former, gained: counting.gained, lost: counting.lost) {
            value = changed
            if counter.operation.isBest, counting.gained != nil || counting.lost != nil {
                let change = CounterChange(counter.operation, gained: counting.gained, lost: counting.lost)
                result.changedCounters.append((path, change))
            }
        } else if let total = try wholeCount(counting.counter, path) {
            value = counter.operation.node(total)
        } else {
            value = counting.isNew ? counter.operation.node(nil) : former
        }
        if !isThere, value == counter.operation.node(nil) { return }
        let sent = after.node(at: path)
        if isFirst, author == .client, sent.exists, sent != value, counting.isNew || sent != former {
            throw fault(.counterWritten(counter.name.string), counter.place, .counts)
        }
        result.emptied.remove(node)
        try write(value, at: path, counter.place, .counts)
        if isThere, !result.tree.exists(at: node) { result.emptied.insert(node) }
    }

    /// Removes a node that counters create, once it has nothing but empty counters.
    private mutating func removeEmpty(_ path: Path, _ place: Int32) throws(ConsequenceFault) {
        let (node, numbers) = (result.tree.node(at: path), program.details[Int(place)].counts)
        guard node.hasChildren, node.childCount <= numbers.count else { return }
        let isEmpty = node.children.allSatisfy { key, value in
            numbers.contains { program.counters[$0].name == key && value == program.counters[$0].operation.node(nil) }
        }
        guard isEmpty else { return }
        keys = path.keys
        result.emptied.insert(path)
        try write(.null, at: path, place, .counts)
    }

    /// Counts the set of a counter: of a new node, of a greatest value that has gone, of a rounded sum.
    /// - Returns: nil for a large set, which is counted off the queue; else the total.
    private mutating func wholeCount(_ number: Int, _ path: Path) throws(ConsequenceFault) -> CounterSum?? {
        let counter = program.counters[number]
        var sets: [Path] = []
        var (left, total) = (limits.counted, CounterSum?.none)
        guard find(counter.set[...], .root, after, path, &sets, &left) else {
            result.needsCounting = true
            return nil
        }
        try chargeKeys(limits.counted - left, counter.place, .counts)
        guard counter.readsMember else {
            result.counted.append(path)
            return .some(CounterSum(count: sets.reduce(0) { $0 + after.node(at: $1).childCount }))
        }
        search: for set in sets {
            let members = after.node(at: set)
            guard counter.operation == .any || members.childCount <= left else {
                result.needsCounting = true
                return nil
            }
            if counter.operation != .any { try chargeKeys(members.childCount, counter.place, .counts) }
            for (key, member) in members.children {
                guard left > 0 else {
                    result.needsCounting = true
                    return nil
                }
                left -= 1
                if counter.operation == .any { try chargeKeys(1, counter.place, .counts) }
                let found = try contribution(number, set.appending(key), member, in: after)
                guard let (target, amount) = found, target == path else { continue }
                counter.operation.add(amount, to: &total)
                if counter.operation == .any { break search }
            }
        }
        result.counted.append(path)
        return .some(total)
    }

    /// Finds the places that a counter counts the children of.
    /// - Parameter left: keys that a `*` may still range over.
    /// - Returns: false if there are more.
    private func find(
        _ segments: ArraySlice<Counter.Segment>, _ at: Path, _ node: Node, _ counter: Path, _ found: inout [Path], _ left: inout Int
    ) -> Bool {
        guard node.exists else { return true }
        guard let segment = segments.first else {
            found.append(at)
            return true
        }
        let key: Key
        switch segment {
        case .key(let name): key = name
        case .capture(let depth): key = counter.keys[depth - 1]
        case .every:
            guard node.childCount <= left else { return false }
            left -= node.childCount
            return node.children.allSatisfy { find(segments.dropFirst(), at.appending($0), $1, counter, &found, &left) }
        }
        return find(segments.dropFirst(), at.appending(key), node.child(key), counter, &found, &left)
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
