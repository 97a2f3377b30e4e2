import JSONTree

/// The values of counters: changed by what their members have gained and lost, or counted; and the nodes that counters create.
extension ConsequenceRound {
    mutating func set(_ counting: Counting, at path: Path) throws(ConsequenceFault) {
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
    mutating func removeEmpty(_ path: Path, _ place: Int32) throws(ConsequenceFault) {
        let (node, numbers) = (result.tree.node(at: path), program.details[Int(place)].counts)
        guard node.hasChildren, node.childCount <= numbers.count else { return }
        let isEmpty = node.children.allSatisfy { key, value in
            numbers.contains { program.counters[$0].name == key && value == program.counters[$0].operation.node(nil) }
        }
        // A node that consequences have changed and changed back was not written.
        guard isEmpty, isFirst || base.node(at: path) != node else { return }
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

    // MARK: Nodes that counters create

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
}
