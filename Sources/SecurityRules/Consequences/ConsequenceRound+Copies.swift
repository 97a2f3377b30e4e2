import JSONTree

/// One `.copy` of a node: `{"to": "timeline/$f/$p", "each": "friends/{user}/$f", "if": "each.val() == 'added'"}`.
struct CopyRule: Sendable {
    /// Wildcards of `each` are numbered after those of the node's place: at the depths that follow its own.
    let to: PathTemplate
    /// The places that each get one copy; nil for a single copy.
    let each: PathTemplate?
    /// The instruction of the `if`, which selects places of `each`; -1 for all.
    let condition: Int32
    /// The depth of the node's place.
    let nodeDepth: Int
    /// The index in `Program.indexed`, for finding existing copies with an `each`; nil without `each`.
    var number: Int?
}

/// A copy before checking.
struct SourceCopy {
    let to: LocatedString
    var each: LocatedString?
    var condition: LocatedString?
}

/// Copies: created with the node, kept equal to it while both exist, and removed with it.
extension ConsequenceRound {
    /// Creates, updates and removes the copies of the nodes written at the locations.
    mutating func copy(_ locations: [Path]) throws(ConsequenceFault) {
        for location in locations {
            var place: Int32 = 0
            var (was, isNow) = (before, after)
            var isReached = true
            for (level, key) in location.keys.enumerated() {
                guard tables.places[Int(place)].copies else {
                    isReached = false
                    break
                }
                if level > 0, isNow.exists || !isLater(location) { try source(place, Path(location.keys.prefix(level)), was, isNow) }
                place = child(of: place, key)
                if place < 0 {
                    isReached = false
                    break
                }
                (was, isNow) = (was.child(key), isNow.child(key))
            }
            if isReached, !isLater(location) { try sources(place, location, was, isNow) }
        }
    }

    /// Processes the nodes with copies at and below a place that was written as a whole.
    private mutating func sources(_ place: Int32, _ path: Path, _ was: Node, _ isNow: Node) throws(ConsequenceFault) {
        let rules = tables.places[Int(place)]
        guard rules.copies, !was.isIdentical(to: isNow) else { return }
        if !path.isRoot { try source(place, path, was, isNow) }
        guard rules.wildcard >= 0, tables.places[Int(rules.wildcard)].copies else {
            for i in Int(rules.firstLiteral)..<Int(rules.firstLiteral + rules.literalCount) {
                let (key, next) = (tables.keys[Int(tables.literals[i].key)], tables.literals[i].place)
                try sources(next, path.appending(key), was.child(key), isNow.child(key))
            }
            return
        }
        keys = path.keys
        try chargeKeys(was.childCount + isNow.childCount, place, .copy)
        for (key, node) in was.children {
            let next = child(of: place, key)
            if next >= 0 { try sources(next, path.appending(key), node, isNow.child(key)) }
        }
        for (key, node) in isNow.children where was.child(key).isNull {
            let next = child(of: place, key)
            if next >= 0 { try sources(next, path.appending(key), .null, node) }
        }
    }

    /// Processes a node that may have been created, changed or removed.
    private mutating func source(_ place: Int32, _ path: Path, _ was: Node, _ isNow: Node) throws(ConsequenceFault) {
        let (copies, inboxes) = (program.details[Int(place)].copies, program.details[Int(place)].inboxes)
        guard !(copies.isEmpty && inboxes.isEmpty), was.exists || isNow.exists, !was.isIdentical(to: isNow),
            !(processesRemovalsOnly && isNow.exists), seenSources.insert(path).inserted
        else { return }
        try chargeSteps(copies.count + inboxes.count, place, copies.isEmpty ? .inbox : .copy)
        // Includes the counters of this round. Removals of this round belong to the next one.
        let node = result.tree.node(at: path)
        guard isNow.isNull || node.exists else { return }
        keys = path.keys
        let former = base.node(at: path)
        for copy in copies {
            // Consequences have changed the node back: the commit leaves its copies as it found them.
            if former == node {
                try restore(copy, place, was, isNow)
                continue
            }
            var (targets, left): ([Path], [Path]) = ([], [])
            if was.isNull {
                try created(copy, place, isNow, &targets)
            } else if isNow.exists, former.isNull, !isFirst {
                // The node is new: its copies are those of this commit.
                for write in result.writes where write.kind == .copy {
                    if try isCopy(write.path, of: was, copy, place) { targets.append(write.path) }
                }
            } else if isNamed(copy.to, by: was, place, .copy) {
                try existing(copy, place, was, &targets)
            }
            if was.exists, isNow.exists { left = try move(&targets, copy, place, was, isNow) }
            for path in left { try write(.null, at: path, place, .copy) }
            if targets.isEmpty { continue }
            let depth = copy.to.segments.count
            guard depth <= Path.maxDepth, node.fits(below: depth) else { throw fault(.tooDeep, place, .copy) }
            if was.isNull {
                try write(node, atEach: targets, place, .copy)
            } else {
                for target in targets { try write(isNow.exists ? node : .null, at: target, place, .copy) }
            }
        }
        // A node created in this commit that changed again through consequences is still new, and already has its rows.
        guard isNow.exists, was.isNull || former.exists else { return }
        for inbox in inboxes { try send(inbox, place, node, isNew: was.isNull) }
    }

    /// Gives the places where this commit has written copies of a node the values that the commit itself left there.
    private mutating func restore(_ copy: CopyRule, _ place: Int32, _ was: Node, _ isNow: Node) throws(ConsequenceFault) {
        for path in Set(result.writes.lazy.filter { $0.kind == .copy }.map(\.path)).sorted() {
            var isOfNode = try isCopy(path, of: isNow, copy, place)
            if !isOfNode, isNamed(copy.to, by: was, place, .copy) { isOfNode = try isCopy(path, of: was, copy, place) }
            if isOfNode { try write(candidate.node(at: path), at: path, place, .copy) }
        }
    }

    /// Whether a former node's values can name places. A value that is not a legal key names none, so there is no copy.
    func isNamed(_ template: PathTemplate, by was: Node, _ place: Int32, _ kind: ConsequenceKind) -> Bool {
        template.segments.allSatisfy { segment in
            guard case .value(let field) = segment else { return true }
            return (try? key(was.node(at: field), place, kind)) != nil
        }
    }

    /// Moves copies to another place when a value in their path changed.
    /// - Parameter targets: the current places of the copies; on return their new places.
    /// - Returns: the places that they leave.
    private mutating func move(
        _ targets: inout [Path], _ copy: CopyRule, _ place: Int32, _ was: Node, _ isNow: Node
    ) throws(ConsequenceFault) -> [Path] {
        var names: [(segment: Int, from: Key?, to: Key?)] = []
        for (i, segment) in copy.to.segments.enumerated() {
            guard case .value(let field) = segment else { continue }
            let from = try? key(was.node(at: field), place, .copy)
            names.append((i, from, try key(isNow.node(at: field), place, .copy)))
        }
        guard names.contains(where: { $0.from != $0.to }) else { return [] }
        let former = targets
        targets = []
        // A node that had no target before is treated like a new one.
        if names.contains(where: { $0.from == nil }) { try created(copy, place, isNow, &targets) }
        if !names.contains(where: { $0.to == nil }) {
            for path in former {
                var keys = path.keys
                for name in names { if let key = name.to { keys[name.segment] = key } }
                targets.append(Path(keys))
            }
            // Existing nodes at the targets are made equal, too.
            try existing(copy, place, isNow, &targets)
        }
        let kept = Set(targets)
        targets = kept.sorted()
        return former.filter { !kept.contains($0) }
    }

    /// The places at which a new node is copied.
    private mutating func created(_ copy: CopyRule, _ place: Int32, _ node: Node, _ targets: inout [Path]) throws(ConsequenceFault) {
        guard let each = copy.each else {
            if let target = try self.target(copy.to, place, node, []) { targets.append(target) }
            return
        }
        var found: [[Key]] = []
        try bind(each, 0, place, node, result.tree, [], &found)
        let reached = try holding(copy.condition, place, found, .copy)
        guard !reached.isEmpty, let template = try self.template(copy.to, place, node, .copy) else { return }
        targets = reached.map { template.path($0) }
    }

    /// The existing copies of a node, from the index, or else by scanning the tree.
    private mutating func existing(_ copy: CopyRule, _ place: Int32, _ node: Node, _ targets: inout [Path]) throws(ConsequenceFault) {
        guard let number = copy.number, let index, let written = result.written else {
            return try expand(copy.to, 0, of: node, place, .copy, result.tree, .root, &targets)
        }
        let bound = copy.to.segments.compactMap { segment -> Key? in
            switch segment {
            case .capture(let depth) where depth <= copy.nodeDepth: keys[depth - 1]
            case .generated(let name): GeneratedKey.of(keys, name)
            default: nil
            }
        }
        try chargeKeys(index.count(of: number, bound) + written.count(of: number, bound), place, .copy)
        let known = Set(index.places(of: number, bound) + written.places(of: number, bound))
        for path in known.sorted() where result.tree.node(at: path).exists {
            if try isCopy(path, of: node, copy, place) { targets.append(path) }
        }
        // The index does not know these places yet, so the tree is scanned there.
        for open in index.open + written.open {
            var found: [Path] = []
            try expand(copy.to, 0, of: node, place, .copy, result.tree, .root, around: open, &found)
            targets += found.filter { !known.contains($0) }
        }
    }

    /// Whether a place holds a copy of a node.
    private func isCopy(_ path: Path, of node: Node, _ copy: CopyRule, _ place: Int32) throws(ConsequenceFault) -> Bool {
        guard path.depth == copy.to.segments.count else { return false }
        for (segment, key) in zip(copy.to.segments, path.keys) {
            switch segment {
            case .key(let known): if key != known { return false }
            case .capture(let depth): if depth <= keys.count, keys[depth - 1] != key { return false }
            case .value(let field): if try self.key(node.node(at: field), place, .copy) != key { return false }
            case .generated(let name): if GeneratedKey.of(keys, name) != key { return false }
            case .every: break
            }
        }
        return true
    }

    /// Finds the keys of the template's wildcards, for each existing place that matches it.
    private mutating func bind(
        _ template: PathTemplate, _ i: Int, _ place: Int32, _ node: Node, _ tree: Node, _ bound: [Key], _ found: inout [[Key]]
    ) throws(ConsequenceFault) {
        guard tree.exists else { return }
        guard i < template.segments.count else { return found.append(bound) }
        switch template.segments[i] {
        case .every(let name):
            guard tree.hasChildren else { return }
            try chargeKeys(tree.childCount, place, .copy)
            for (key, child) in tree.children {
                var next = bound
                if name != nil { next.append(key) }
                try bind(template, i + 1, place, node, child, next, &found)
            }
        case .key(let key): try bind(template, i + 1, place, node, tree.child(key), bound, &found)
        case .capture(let depth): try bind(template, i + 1, place, node, tree.child(keys[depth - 1]), bound, &found)
        case .value(let field):
            guard let key = try key(node.node(at: field), place, .copy) else { return }
            try bind(template, i + 1, place, node, tree.child(key), bound, &found)
        // `each` has none.
        case .generated: return
        }
    }

    /// The place of a copy; nil if a value in its path is missing.
    func target(
        _ template: PathTemplate, _ place: Int32, _ node: Node, _ bound: [Key], _ kind: ConsequenceKind = .copy
    ) throws(ConsequenceFault) -> Path? {
        try self.template(template, place, node, kind)?.path(bound)
    }

    /// The template with the node's values filled in, except for the keys of `each`; nil if a value is missing.
    private func template(
        _ template: PathTemplate, _ place: Int32, _ node: Node, _ kind: ConsequenceKind
    ) throws(ConsequenceFault) -> NodeTemplate? {
        var found = NodeTemplate()
        for segment in template.segments {
            switch segment {
            case .key(let key): found.parts.append(.key(key))
            case .capture(let depth): found.parts.append(depth <= keys.count ? .key(keys[depth - 1]) : .bound(depth - keys.count - 1))
            case .value(let field):
                guard let key = try key(node.node(at: field), place, kind) else { return nil }
                found.parts.append(.key(key))
            case .generated(let name): found.parts.append(.key(GeneratedKey.of(keys, name)))
            case .every: return nil
            }
        }
        return found
    }

    /// The bindings of `each` for which the `if` holds. Lookups that they share happen once.
    mutating func holding(
        _ condition: Int32, _ place: Int32, _ all: [[Key]], _ kind: ConsequenceKind
    ) throws(ConsequenceFault) -> [[Key]] {
        guard condition >= 0, !all.isEmpty else { return all }
        result.evaluated += all.count
        var (left, isTooMuch) = (textWork, false)
        let holding = Evaluator.run(program, old: base, new: result.tree, auth: RuleSet.hubAuth, now: now, query: nil) { evaluator in
            evaluator.textWork = left
            defer { left = evaluator.textWork }
            return keys.withUnsafeBufferPointer { keys in
                evaluator.descend(keys)
                return all.filter { bound in
                    if isTooMuch { return false }
                    evaluator.pop(to: keys.count)
                    // The keys of all bindings stay at fixed addresses.
                    bound.withUnsafeBufferPointer { evaluator.descend($0) }
                    do throws(Fault) { return try evaluator.boolean(condition) } catch {
                        evaluator.dropScratch(to: 0)
                        isTooMuch = error.reason == .tooMuchWork
                        return false
                    }
                }
            }
        }
        textWork = left
        if isTooMuch { throw fault(.tooMuchWork, place, kind) }
        return holding
    }
}

/// A template with one node's values filled in.
private struct NodeTemplate {
    enum Part {
        case key(Key)
        /// The binding of `each` with this index.
        case bound(Int)
    }

    var parts: [Part] = []

    func path(_ bound: [Key]) -> Path {
        Path(parts.lazy.map { part in
            switch part {
            case .key(let key): key
            case .bound(let i): bound[i]
            }
        })
    }
}
