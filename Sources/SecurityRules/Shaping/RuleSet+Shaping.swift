public import JSONTree

/// A commit's writes after `.drop` and `.default`, which apply before the access rules are evaluated.
public struct ShapedWrites: Sendable {
    /// The tree after the shaped writes.
    public var tree: Node
    /// Indexes of the locations at or below a `.drop`, ascending: nothing of them is stored.
    public var ignored: [Int] = []
    /// Indexes of the locations at or below which the stored data differs from the sent data, ascending.
    public var changed: [Int] = []
    /// Places outside the locations where a `.default` was written.
    public var added: [Path] = []
    /// The text work that the expressions used.
    public var textWork = 0
    /// Whether they exceeded the budget: then the writes are refused.
    public var needsTooMuchWork = false
    /// The data that the shape depends on, if requested.
    public var dependencies: WriteDecision?

    /// Whether the stored data differs from the sent data.
    public var differsFromSent: Bool { !(ignored.isEmpty && changed.isEmpty && added.isEmpty) }
}

extension RuleSet {
    /// Whether the rules have a `.default` or a `.drop`; otherwise writes are stored as sent.
    public var shapesWrites: Bool { program.shapesWrites }

    /// Drops the values sent to places with a `.drop`, then writes each `.default` that is absent and whose parent was written.
    ///
    /// A parent counts as written if a location is at or above it, is one of its children, or has created it. For a kept default any
    /// location below the parent counts, and what is sent to the default's own place is dropped. Costs the size of the data
    /// written at places with such rules.
    /// - Parameters:
    ///   - locations: the places that the commit writes; none contains another.
    ///   - old: the tree before the writes.
    ///   - new: the tree after the writes, with server values resolved.
    ///   - auth: `.null` when signed out, else an object of `uid`, `provider` and `token`.
    ///   - now: ms since the epoch.
    ///   - most: the most text work for the expressions.
    ///   - limit: the most dependencies to record; nil for none.
    ///   - without: returns the tree after the writes, except for the locations at these indexes.
    public func shape(
        _ locations: [Path], old: Node, new: Node, auth: Node, now: Int64, textWork most: Int = RulesLimits.textWork,
        keeping limit: Int? = nil, without: ([Int]) -> Node
    ) -> ShapedWrites {
        guard shapesWrites else { return ShapedWrites(tree: new) }
        var shaper = WriteShaper(
            program, old: old, new: new, auth: auth, now: now, textWork: min(most, program.textWork),
            recorder: limit.map { DependencyRecorder(limit: $0) })
        shaper.drop(locations, without)
        shaper.fill(locations)
        return shaper.result(textWork: min(most, program.textWork))
    }
}

/// Shapes the writes of one commit.
struct WriteShaper {
    private let program: Program
    private let old: Node
    private let auth: Node
    private let now: Int64
    private let recorder: DependencyRecorder?
    private var shaped: ShapedWrites
    private var changed: Set<Int> = []
    private var ignored: Set<Int> = []
    private var textWork: Int

    private var tables: ProgramTables { program.tables }

    init(_ program: Program, old: Node, new: Node, auth: Node, now: Int64, textWork: Int, recorder: DependencyRecorder?) {
        self.program = program
        self.old = old
        self.auth = auth
        self.now = now
        self.textWork = textWork
        self.recorder = recorder
        shaped = ShapedWrites(tree: new)
    }

    func result(textWork most: Int) -> ShapedWrites {
        var result = shaped
        (result.changed, result.ignored) = (changed.sorted(), ignored.sorted())
        result.textWork = most - textWork
        if let recorder {
            result.dependencies = WriteDecision(
                isAllowed: true, dependencies: recorder.places, subtreeDependencies: recorder.subtreeDependencies,
                dependsOnOverwritten: recorder.readsOverwritten, dependsOnEverything: recorder.hasOverflowed)
        }
        return result
    }

    // MARK: Drops

    mutating func drop(_ locations: [Path], _ without: ([Int]) -> Node) {
        guard tables.places[0].drops else { return }
        for (i, location) in locations.enumerated() where isDropped(location) { ignored.insert(i) }
        if !ignored.isEmpty { shaped.tree = without(ignored.sorted()) }
        for (i, location) in locations.enumerated() where !ignored.contains(i) {
            guard let place = place(of: location, { $0.drops }), drop(below: place, location, depth: location.depth) else { continue }
            changed.insert(i)
        }
    }

    /// Whether the location is at or below a place with a `.drop` that holds, and is not a removal.
    private mutating func isDropped(_ location: Path) -> Bool {
        var place: Int32 = 0
        for (level, key) in location.keys.enumerated() {
            place = child(of: place, key)
            guard place >= 0, tables.places[Int(place)].drops else { return false }
            // The place of a kept default is the hub's, also for removals.
            if isKept(place) { return true }
            guard program.details[Int(place)].drop >= 0 else { continue }
            // Removals are not dropped.
            let here = Path(location.keys.prefix(level + 1))
            if shaped.tree.node(at: location).exists, drops(place, here, writtenDepth: location.depth) { return true }
        }
        return false
    }

    /// Whether a place has a kept default.
    private func isKept(_ place: Int32) -> Bool { program.details[Int(place)].defaultRule?.isKept == true }

    private mutating func drops(_ place: Int32, _ path: Path, writtenDepth: Int) -> Bool {
        let rule = program.details[Int(place)].drop
        if isKept(place) { return true }
        guard rule >= 0 else { return false }
        return evaluate(path, writtenDepth: writtenDepth) { evaluator throws(Fault) in try evaluator.boolean(rule) } ?? false
    }

    /// Drops the values below a written place; returns whether any existed.
    private mutating func drop(below place: Int32, _ path: Path, depth: Int) -> Bool {
        guard tables.places[Int(place)].drops else { return false }
        var isChanged = false
        for (key, next) in children(of: place, at: path, { $0.drops }) {
            let child = path.appending(key)
            if drops(next, child, writtenDepth: depth) {
                shaped.tree.set(.null, at: child)
                isChanged = true
            } else if drop(below: next, child, depth: depth) {
                isChanged = true
            }
        }
        return isChanged
    }

    // MARK: Defaults

    mutating func fill(_ locations: [Path]) {
        guard tables.places[0].defaults else { return }
        for (i, location) in locations.enumerated() where !ignored.contains(i) {
            var place: Int32 = 0
            for (level, key) in location.keys.enumerated() {
                guard tables.places[Int(place)].defaults else { break }
                if !program.details[Int(place)].defaulted.isEmpty {
                    let parent = Path(location.keys.prefix(level))
                    let isChild = level == location.depth - 1
                    if !isChild { recorder?.record(parent.keys, whole: false) }
                    let isWritten = isChild || old.node(at: parent).isNull
                    if isWritten { for added in put(place, parent, depth: nil) { recordAdded(added, in: location, i) } }
                }
                place = child(of: place, key)
                if place < 0 { break }
            }
            if place >= 0, fill(below: place, location, depth: location.depth) { changed.insert(i) }
        }
        guard tables.places[0].keeps else { return }
        for (i, location) in locations.enumerated() where !ignored.contains(i) { keep(location, i) }
    }

    // MARK: Kept defaults

    /// Evaluates the kept defaults below, at and above a location, the innermost first: outer ones may read them.
    private mutating func keep(_ location: Path, _ i: Int) {
        var above: [(place: Int32, path: Path)] = []
        var place: Int32 = 0
        for (level, key) in location.keys.enumerated() {
            guard place >= 0, tables.places[Int(place)].keeps else { break }
            above.append((place, Path(location.keys.prefix(level))))
            place = child(of: place, key)
        }
        if place >= 0, above.count == location.depth, keep(below: place, location, depth: location.depth) { changed.insert(i) }
        for (place, path) in above.reversed() { for added in keep(place, path, depth: nil) { recordAdded(added, in: location, i) } }
    }

    /// Returns whether any changed.
    private mutating func keep(below place: Int32, _ path: Path, depth: Int) -> Bool {
        guard tables.places[Int(place)].keeps else { return false }
        var isChanged = false
        for (key, next) in children(of: place, at: path, { $0.keeps }) where keep(below: next, path.appending(key), depth: depth) {
            isChanged = true
        }
        return !keep(place, path, depth: depth).isEmpty || isChanged
    }

    /// Evaluates the kept defaults of a place's own children, in the order of the file. A place that holds nothing else has none.
    /// - Parameter depth: the depth of the location that contains them; nil if each is a write of its own.
    private mutating func keep(_ place: Int32, _ path: Path, depth: Int?) -> [Path] {
        let kept = program.details[Int(place)].defaulted.filter { isKept($0.place) }
        let node = shaped.tree.node(at: path)
        guard !kept.isEmpty, node.hasChildren else { return [] }
        if depth == nil { recorder?.record(path.keys, whole: true) }
        let isAlone = node.childCount <= kept.count && node.children.allSatisfy { key, _ in kept.contains { $0.key == key } }
        var changed: [Path] = []
        for (key, next) in kept {
            guard let rule = program.details[Int(next)].defaultRule else { continue }
            let child = path.appending(key)
            let former = shaped.tree.node(at: child)
            if former.exists { shaped.tree.set(.null, at: child) }
            let value = isAlone ? .null : value(of: rule, child, depth ?? child.depth)
            if value.exists {
                shaped.tree.set(value, at: child)
                _ = fill(below: next, child, depth: depth ?? child.depth)
            }
            if shaped.tree.node(at: child) != former { changed.append(child) }
        }
        return changed
    }

    /// The value of a default; null if its expression fails.
    private mutating func value(of rule: DefaultRule, _ child: Path, _ writtenDepth: Int) -> Node {
        switch rule.value {
        case .node(let known): known
        case .expression(let instruction):
            evaluate(child, writtenDepth: writtenDepth) { evaluator throws(Fault) in
                switch try evaluator.value(instruction) {
                case .number(let number): .number(number)
                case .object: .null
                case let value: value.node
                }
            } ?? .null
        }
    }

    private mutating func recordAdded(_ added: Path, in location: Path, _ i: Int) {
        if location.contains(added) { changed.insert(i) } else { shaped.added.append(added) }
    }

    /// Writes the defaults below a place that was written as a whole; returns whether there were any.
    private mutating func fill(below place: Int32, _ path: Path, depth: Int) -> Bool {
        guard tables.places[Int(place)].defaults else { return false }
        var isChanged = !put(place, path, depth: depth).isEmpty
        for (key, next) in children(of: place, at: path, { $0.defaults }) where fill(below: next, path.appending(key), depth: depth) {
            isChanged = true
        }
        return isChanged
    }

    /// Writes the defaults of a place's own children, in the order of the file, and those below the values written.
    /// - Parameter depth: the depth of the location that contains them; nil if each is a write of its own.
    private mutating func put(_ place: Int32, _ path: Path, depth: Int?) -> [Path] {
        var put: [Path] = []
        for (key, next) in program.details[Int(place)].defaulted where !isKept(next) {
            guard shaped.tree.node(at: path).hasChildren, let rule = program.details[Int(next)].defaultRule else { break }
            let child = path.appending(key)
            if depth == nil { recorder?.record(child.keys, whole: false) }
            guard shaped.tree.node(at: child).isNull else { continue }
            let value = value(of: rule, child, depth ?? child.depth)
            guard value.exists else { continue }
            shaped.tree.set(value, at: child)
            put.append(child)
            _ = fill(below: next, child, depth: depth ?? child.depth)
        }
        return put
    }

    // MARK: Places

    private func child(of place: Int32, _ key: Key) -> Int32 { withUnsafePointer(to: key) { tables.child(of: place, TextCursor($0)) } }

    /// The rule node of a path; nil if it has no rules of the kind at or below it.
    private func place(of path: Path, _ isOfKind: (Place) -> Bool) -> Int32? {
        var place: Int32 = 0
        for key in path.keys {
            place = child(of: place, key)
            guard place >= 0, isOfKind(tables.places[Int(place)]) else { return nil }
        }
        return place
    }

    /// The existing children whose rules are of a kind. O(literal children of the rules), or O(children) below a wildcard of that kind
    private func children(of place: Int32, at path: Path, _ isOfKind: (Place) -> Bool) -> [(Key, Int32)] {
        let node = shaped.tree.node(at: path)
        guard node.hasChildren else { return [] }
        let rules = tables.places[Int(place)]
        var found: [(Key, Int32)] = []
        if rules.wildcard >= 0, isOfKind(tables.places[Int(rules.wildcard)]) {
            for (key, _) in node.children {
                let next = child(of: place, key)
                if next >= 0, isOfKind(tables.places[Int(next)]) { found.append((key, next)) }
            }
            return found
        }
        for i in Int(rules.firstLiteral)..<Int(rules.firstLiteral + rules.literalCount) {
            let literal = tables.literals[i]
            guard isOfKind(tables.places[Int(literal.place)]) else { continue }
            let key = tables.keys[Int(literal.key)]
            if node.child(key).exists { found.append((key, literal.place)) }
        }
        return found.sorted { $0.1 < $1.1 }
    }

    /// Evaluates an expression at a place, with the tree as shaped so far; nil if it fails.
    private mutating func evaluate<R>(
        _ path: Path, writtenDepth: Int, _ body: (inout Evaluator) throws(Fault) -> R
    ) -> R? {
        recorder?.writtenDepth = writtenDepth
        var (left, isTooMuch) = (textWork, false)
        let result: R? = Evaluator.run(
            program, old: old, new: shaped.tree, auth: auth, now: now, query: nil, dependencies: recorder
        ) { evaluator in
            evaluator.textWork = left
            defer { left = evaluator.textWork }
            return path.keys.withUnsafeBufferPointer { keys in
                evaluator.descend(keys)
                do throws(Fault) { return try body(&evaluator) } catch {
                    isTooMuch = error.reason == .tooMuchWork
                    return nil
                }
            }
        }
        textWork = left
        if isTooMuch { shaped.needsTooMuchWork = true }
        return result
    }
}

extension Evaluator {
    /// Descends along keys, which must stay in memory while the place is evaluated.
    mutating func descend(_ keys: UnsafeBufferPointer<Key>) {
        guard let base = keys.baseAddress else { return }
        for i in keys.indices { push(TextCursor(base + i)) }
    }
}
