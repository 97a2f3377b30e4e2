import JSONTree

/// The cascade: from the root down for grants, over the written places for validation (rules contract §10).
extension Evaluator {
    /// Whether the rule at a depth of the walk is true; a rule that fails is not.
    @inline(__always)
    private mutating func holds(_ kind: RuleKind, _ place: Int32, _ root: Int32, at level: Int) -> Bool {
        if let recorder { return trace(kind, place, root, at: level, recorder) }
        do { return try boolean(root) } catch {
            dropScratch(to: 0)
            return false
        }
    }

    /// Whether a `.read` from the root down to the path is true; the first true one decides (§10.1).
    mutating func grantsRead(_ path: Path) -> Bool {
        path.keys.withUnsafeBufferPointer { keys in
            var place: Int32 = 0
            for level in 0...keys.count {
                let rule = tables.places[Int(place)].read
                seesQuery = level == keys.count
                if rule >= 0, holds(.read, place, rule, at: level) { return true }
                guard level < keys.count, let key = keys.baseAddress.map({ TextCursor($0 + level) }) else { break }
                place = tables.child(of: place, key)
                if place < 0 { break }
                push(key)
            }
            return false
        }
    }

    /// Whether the children of a place may be counted: decided by the `.count` at exactly this place, or without one by the `.read` rules.
    mutating func grantsCount(_ path: Path) -> Bool {
        path.keys.withUnsafeBufferPointer { keys in
            var place: Int32 = 0
            for level in keys.indices {
                guard let key = keys.baseAddress.map({ TextCursor($0 + level) }) else { break }
                place = tables.child(of: place, key)
                if place < 0 { break }
                push(key)
            }
            if place >= 0 {
                let rule = tables.places[Int(place)].count
                if rule >= 0 { return holds(.count, place, rule, at: keys.count) }
            }
            pop(to: 0)
            return grantsRead(path)
        }
    }

    /// Whether every location is granted by its chain and valid (§10.2, §10.3).
    ///
    /// The rules that a location shares with the one before it are not evaluated again: same rules, trees and keys.
    mutating func allowsWrite(_ locations: some Sequence<Path>) -> Bool {
        // Keys are read in place in `locations`, even those of an earlier location.
        withExtendedLifetime(locations) {
            follow(locations, areKept: true) { evaluator, chain, keys in
                evaluator.dependencies?.writtenDepth = keys.count
                return evaluator.isGranted(&chain) && evaluator.isValid(&chain, keys)
            }
        }
    }

    /// Like `allowsWrite(_:)`, with additional places for which only `.validate` is evaluated.
    mutating func allowsWrite(_ locations: [Path], validating added: [Path]) -> Bool {
        guard allowsWrite(locations) else { return false }
        return added.isEmpty || areValid(added)
    }

    /// Whether the consequences of a commit are valid.
    mutating func areValid(_ found: Consequences) -> Bool {
        let asked = found.placesToValidate(tables)
        return areValid(asked.map(\.path), times: asked.map(\.times))
    }

    /// Whether the written values are valid; `.write` is not evaluated.
    /// - Parameter times: the number of places that each location represents, all with the same result.
    mutating func areValid(_ locations: [Path], times: [Int] = []) -> Bool {
        withExtendedLifetime(locations) {
            pop(to: 0)
            reusesValidity = locations.count > 1 && recorder == nil && dependencies == nil
            defer { (reusesValidity, lastValid) = (false, nil) }
            var number = 0
            return follow(locations, areKept: true) { evaluator, chain, keys in
                evaluator.dependencies?.writtenDepth = keys.count
                let before = evaluator.textWork
                guard evaluator.isValid(&chain, keys) else { return false }
                guard number < times.count else { return true }
                // Charges each represented place the same work.
                let more = (before - evaluator.textWork) * (times[number] - 1)
                number += 1
                guard more <= evaluator.textWork else { return false }
                evaluator.textWork -= more
                return true
            }
        }
    }

    /// Whether some data could make the chain of every location grant; `.validate` rules are not evaluated. Stops at the first location for
    /// which none could. Keeps no reference into a tree, nor to the keys of an earlier location.
    mutating func mayAllowWrite(_ locations: some Sequence<Path>) -> Bool {
        follow(locations, areKept: false) { evaluator, chain, _ in evaluator.mayBeGranted(&chain) }
    }

    /// The places whose rules refuse a write and have a message for it. These are the `.write` rules above a location that none grants,
    /// else every `.validate` that is not true. Empty if an ungranted location has no message.
    mutating func violated(_ locations: [Path], validating added: [Path]) -> (kind: RuleKind, places: [Int32]) {
        withExtendedLifetime(locations) {
            let noted = Violations(limit: RulesLimits.messages)
            let haveMessages = follow(locations, areKept: true) { evaluator, chain, _ in
                if evaluator.isGranted(&chain) { return true }
                let refusing = evaluator.refusing(chain.asked)
                for place in refusing { noted.add(place) }
                return !refusing.isEmpty
            }
            guard haveMessages else { return (.write, []) }
            guard noted.places.isEmpty else { return (.write, noted.places) }
            pop(to: 0)
            violations = noted
            _ = follow(locations + added, areKept: true) { evaluator, chain, keys in evaluator.isValid(&chain, keys) }
            violations = nil
            return (.validate, noted.places)
        }
    }

    /// The rule nodes down to a depth of the walk that have a `.write` message.
    private func refusing(_ count: Int) -> [Int32] {
        (0..<count).map { places[$0] }.filter { program.details[Int($0)].messages[.write] != nil }
    }

    /// Whether a `.validate` that is not true was recorded, so that the walk continues.
    private func isNoted(_ place: Int32) -> Bool {
        guard let violations else { return false }
        return program.details[Int(place)].messages[.validate] == nil ? true : violations.add(place)
    }

    /// Walks the chains of the locations in order; returns false once `decide` does.
    /// - Parameter areKept: whether a location's keys stay in memory while later ones are walked.
    @inline(__always)
    private mutating func follow(
        _ locations: some Sequence<Path>, areKept: Bool,
        _ decide: (_ evaluator: inout Evaluator, _ chain: inout WriteChain, _ keys: UnsafeBufferPointer<Key>) -> Bool
    ) -> Bool {
        var chain = WriteChain()
        var previous: Path?
        for path in locations {
            var common = 0
            if let previous {
                while common < path.keys.count, common < previous.keys.count, path.keys[common] == previous.keys[common] { common += 1 }
            }
            let isAllowed = path.keys.withUnsafeBufferPointer { keys in
                extend(&chain, along: keys, shared: previous == nil ? nil : common, replacesKeys: !areKept)
                return decide(&self, &chain, keys)
            }
            guard isAllowed else { return false }
            previous = path
        }
        return true
    }

    /// The state of the walk along one location's path.
    private struct WriteChain {
        /// The number of rule nodes from the root down, in the evaluator's `places`; at least 1.
        var count = 1
        /// The depth at which a `.write` granted.
        var grant: Int?
        /// The number of rule nodes whose `.write` was evaluated, and the number whose `.validate` holds.
        var asked = 0
        var validated = 0
    }

    /// Extends the chain of rule nodes along a location, from where it differs from the previous one.
    /// - Parameters:
    ///   - shared: the number of leading keys shared with the previous location; nil for the first.
    ///   - replacesKeys: whether to read the shared keys from this location from now on.
    @inline(__always)
    private mutating func extend(_ chain: inout WriteChain, along keys: UnsafeBufferPointer<Key>, shared: Int?, replacesKeys: Bool) {
        if let shared {
            let kept = min(shared + 1, chain.count)
            chain.count = kept
            chain.asked = min(chain.asked, kept)
            chain.validated = min(chain.validated, kept)
            if let grant = chain.grant, grant > shared { chain.grant = nil }
            pop(to: kept - 1)
            if replacesKeys, let base = keys.baseAddress { replaceKeys(by: base) }
        }
        while chain.count <= keys.count, let key = keys.baseAddress.map({ TextCursor($0 + (chain.count - 1)) }) {
            let place = tables.child(of: places[chain.count - 1], key)
            if place < 0 { break }
            places[chain.count] = place
            chain.count += 1
            push(key)
        }
    }

    private mutating func isGranted(_ chain: inout WriteChain) -> Bool {
        if chain.grant != nil { return true }
        while chain.asked < chain.count {
            let level = chain.asked
            let place = places[level]
            chain.asked += 1
            let rule = tables.places[Int(place)].write
            if rule >= 0, holds(.write, place, rule, at: level) {
                chain.grant = level
                return true
            }
        }
        return false
    }

    /// Like `isGranted`, over all possible data.
    private mutating func mayBeGranted(_ chain: inout WriteChain) -> Bool {
        if chain.grant != nil { return true }
        while chain.asked < chain.count {
            let level = chain.asked
            chain.asked += 1
            let rule = tables.places[Int(places[level])].write
            if rule >= 0, mayHold(rule) {
                chain.grant = level
                return true
            }
        }
        return false
    }

    /// - Parameter keys: the keys of the location, in place.
    private mutating func isValid(_ chain: inout WriteChain, _ keys: UnsafeBufferPointer<Key>) -> Bool {
        let length = keys.count
        var work = textWork
        while chain.validated < chain.count {
            let level = chain.validated
            guard existsInNew(at: level) else { return true }
            let place = places[level]
            if level == length, reusesValidity, let node = node(.new, at: level) {
                if isKnownValid(place, node) {
                    chain.validated += 1
                    return true
                }
                work = textWork
            }
            let rule = tables.places[Int(place)].validate
            if rule >= 0, !holds(.validate, place, rule, at: level), !isNoted(place) { return false }
            chain.validated += 1
        }
        guard length == chain.count - 1 else { return true }
        guard areChildrenValid(places[length]) else { return false }
        if reusesValidity { noteValid(places[length], keys, work: work - textWork) }
        return true
    }

    /// Whether everything below the current place is valid, as far as it exists and has rules.
    private mutating func areChildrenValid(_ place: Int32) -> Bool {
        let rules = tables.places[Int(place)]
        guard rules.validates, let node = node(.new, at: depth), case .object = node.kind else { return true }
        if rules.wildcard >= 0, tables.places[Int(rules.wildcard)].validates {
            return node.allChildren { key, child in isChildValid(tables.child(of: place, key), key, child) }
        }
        for i in Int(rules.firstLiteral)..<Int(rules.firstLiteral &+ rules.literalCount) {
            let literal = tables.literals[i]
            guard tables.places[Int(literal.place)].validates else { continue }
            let key = tables.key(literal.key)
            guard let child = node.child(key) else { continue }
            guard isChildValid(literal.place, key, child) else { return false }
        }
        return true
    }

    private mutating func isChildValid(_ place: Int32, _ key: TextCursor, _ node: NodeCursor) -> Bool {
        guard place >= 0, tables.places[Int(place)].validates else { return true }
        let level = depth
        push(key, newNode: node)
        let rule = tables.places[Int(place)].validate
        let isValid = (rule < 0 || holds(.validate, place, rule, at: depth) || isNoted(place)) && areChildrenValid(place)
        pop(to: level)
        return isValid
    }
}
