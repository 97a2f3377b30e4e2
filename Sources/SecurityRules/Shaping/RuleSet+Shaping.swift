public import JSONTree

/// What the rules make of a commit's writes before they are asked about it: `.drop` and `.default`.
public struct ShapedWrites: Sendable {
    /// The tree after the writes as they are stored.
    public var tree: Node
    /// Numbers of the locations that a `.drop` stands at or above: nothing of them is stored, ascending.
    public var ignored: [Int] = []
    /// Numbers of the locations at or below which something else is stored than was sent, ascending.
    public var changed: [Int] = []
    /// Places beside the locations at which a `.default` was put.
    public var added: [Path] = []
    /// Text work that the expressions have done.
    public var textWork = 0
    /// Whether they needed more of it than there was: the writes are to be refused.
    public var needsTooMuchWork = false
    /// What the shape rests on, if that was asked for.
    public var dependencies: WriteDecision?

    /// Whether something else is stored than was sent.
    public var isOther: Bool { !(ignored.isEmpty && changed.isEmpty && added.isEmpty) }
}

extension RuleSet {
    /// Whether the rules have a `.default` or a `.drop`; else writes are stored as they are sent.
    public var shapesWrites: Bool { program.shapesWrites }

    /// Drops what clients send to a place with a `.drop`, then puts each `.default` whose parent is written and which is absent.
    ///
    /// A parent is written where a location is at or above it, is one of its children, or has brought it into being. Costs the size of
    /// what is written where rules with such keys are, and nothing elsewhere.
    /// - Parameters:
    ///   - locations: the places that the commit writes; none contains another.
    ///   - old: the tree before.
    ///   - new: the tree after, server values resolved.
    ///   - auth: `.null` when signed out, else an object of `uid`, `provider` and `token`.
    ///   - now: ms since the epoch.
    ///   - most: text work that the expressions may do.
    ///   - limit: most dependencies to record; nil for none.
    ///   - without: the tree after the writes, but for the locations of these numbers.
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
                isAllowed: true, dependencies: recorder.places, wholes: recorder.wholes, looksAtOverwritten: recorder.readsOverwritten,
                looksAtAnything: recorder.hasOverflowed)
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

    /// Whether the location is at or below a place with a `.drop` that holds, and is not removed.
    private mutating func isDropped(_ location: Path) -> Bool {
        var place: Int32 = 0
        for (level, key) in location.keys.enumerated() {
            place = child(of: place, key)
            guard place >= 0, tables.places[Int(place)].drops else { return false }
            guard program.details[Int(place)].drop >= 0 else { continue }
            // A removal is no value.
            if shaped.tree.node(at: location).isNull { return false }
            if drops(place, Path(location.keys.prefix(level + 1)), writtenDepth: location.depth) { return true }
        }
        return false
    }

    private mutating func drops(_ place: Int32, _ path: Path, writtenDepth: Int) -> Bool {
        let rule = program.details[Int(place)].drop
        guard rule >= 0 else { return false }
        return evaluate(path, writtenDepth: writtenDepth) { evaluator throws(Fault) in try evaluator.boolean(rule) } ?? false
    }

    /// Drops what is below a written place; whether it was something.
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
                    if isWritten { for added in put(place, parent, depth: nil) { note(added, in: location, i) } }
                }
                place = child(of: place, key)
                if place < 0 { break }
            }
            if place >= 0, fill(below: place, location, depth: location.depth) { changed.insert(i) }
        }
    }

    private mutating func note(_ added: Path, in location: Path, _ i: Int) {
        if location.contains(added) { changed.insert(i) } else { shaped.added.append(added) }
    }

    /// Puts the defaults below a place that is written as a whole; whether there were any.
    private mutating func fill(below place: Int32, _ path: Path, depth: Int) -> Bool {
        guard tables.places[Int(place)].defaults else { return false }
        var isChanged = !put(place, path, depth: depth).isEmpty
        for (key, next) in children(of: place, at: path, { $0.defaults }) where fill(below: next, path.appending(key), depth: depth) {
            isChanged = true
        }
        return isChanged
    }

    /// Puts the defaults of a place's own children, in the order of the file, and those below what was put.
    /// - Parameter depth: of the location that they are part of; nil where each is written by itself.
    private mutating func put(_ place: Int32, _ path: Path, depth: Int?) -> [Path] {
        var put: [Path] = []
        for (key, next) in program.details[Int(place)].defaulted {
            guard shaped.tree.node(at: path).hasChildren, let value = program.details[Int(next)].defaultValue else { break }
            let child = path.appending(key)
            if depth == nil { recorder?.record(child.keys, whole: false) }
            guard shaped.tree.node(at: child).isNull else { continue }
            let node: Node
            switch value {
            case .node(let known): node = known
            case .expression(let rule):
                node = evaluate(child, writtenDepth: depth ?? child.depth) { evaluator throws(Fault) in
                    switch try evaluator.value(rule) {
                    case .number(let number): .number(number)
                    case .object: .null
                    case let value: value.node
                    }
                } ?? .null
            }
            guard node.exists else { continue }
            shaped.tree.set(node, at: child)
            put.append(child)
            _ = fill(below: next, child, depth: depth ?? child.depth)
        }
        return put
    }

    // MARK: Places

    private func child(of place: Int32, _ key: Key) -> Int32 { withUnsafePointer(to: key) { tables.child(of: place, TextCursor($0)) } }

    /// The rule node of a path; nil where none of a kind is there or below.
    private func place(of path: Path, _ isOfKind: (Place) -> Bool) -> Int32? {
        var place: Int32 = 0
        for key in path.keys {
            place = child(of: place, key)
            guard place >= 0, isOfKind(tables.places[Int(place)]) else { return nil }
        }
        return place
    }

    /// The children that exist and whose rules are of a kind. O(those of the rules), or O(children) below a wildcard of that kind
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

    /// Evaluates at a place, with the tree as it is shaped so far. Nil where the expression fails.
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
    /// Descends along keys, which stay in memory while the place is looked at.
    mutating func descend(_ keys: UnsafeBufferPointer<Key>) {
        guard let base = keys.baseAddress else { return }
        for i in keys.indices { push(TextCursor(base + i)) }
    }
}
