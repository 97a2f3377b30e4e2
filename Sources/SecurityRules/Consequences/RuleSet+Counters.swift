public import JSONTree

/// A counter that a tree has wrong.
public struct CounterCorrection: Sendable, Equatable {
    public let path: Path
    /// What is to be added to what is stored, where a counter that is missing is 0.
    public let difference: Node
}

extension RuleSet {
    /// Whether the rules have counters.
    public var hasCounters: Bool { !program.counters.isEmpty }

    /// Counts all sets of a tree, for all its counters: after a deploy, an import, a start. O(all members of sets, and nodes with counters)
    /// - Returns: the counters that are wrong, or missing.
    public func countAll(in root: Node) -> [CounterCorrection] {
        guard hasCounters else { return [] }
        var count = WholeCount(program: program, root: root)
        count.members(0, .root, root)
        count.nodes(0, .root, root)
        return count.corrections
    }
}

private struct WholeCount {
    let program: Program
    let root: Node
    private var values: [Path: Node] = [:]
    private(set) var corrections: [CounterCorrection] = []

    init(program: Program, root: Node) { (self.program, self.root) = (program, root) }

    mutating func members(_ set: Int, _ path: Path, _ node: Node) {
        guard node.hasChildren else { return }
        let place = program.sets.places[set]
        for number in place.counters {
            guard program.counters[number].asks else {
                if let target = program.counterPath(number, path, []) { add(.int(Int64(node.childCount)), target) }
                continue
            }
            for (key, member) in node.children {
                let child = path.appending(key)
                guard let (target, amount) = program.contribution(number, child, member, in: root, textWork: program.textWork).found else {
                    continue
                }
                add(amount, target)
            }
        }
        for (key, next) in place.literals { members(next, path.appending(key), node.child(key)) }
        if let next = place.wildcard { for (key, child) in node.children { members(next, path.appending(key), child) } }
    }

    private mutating func add(_ amount: Node, _ target: Path) {
        values[target] = CounterNumber.add(values[target] ?? .int(0), amount)
    }

    mutating func nodes(_ place: Int32, _ path: Path, _ node: Node) {
        let rules = program.tables.places[Int(place)]
        guard rules.counts, node.hasChildren else { return }
        for number in program.details[Int(place)].counts {
            let name = program.counters[number].name
            let (target, stored) = (path.appending(name), node.child(name))
            let value = values[target] ?? .int(0)
            let former = CounterNumber.isNumber(stored) ? stored : .int(0)
            let difference = CounterNumber.add(value, CounterNumber.negated(former))
            if difference != .int(0) && difference != .double(0) || !CounterNumber.isNumber(stored) {
                corrections.append(CounterCorrection(path: target, difference: difference))
            }
        }
        for (key, child) in node.children where child.hasChildren {
            let next = withUnsafePointer(to: key) { program.tables.child(of: place, TextCursor($0)) }
            if next >= 0 { nodes(next, path.appending(key), child) }
        }
    }
}

extension CounterCorrection {
    /// The counter's value in a later tree, in which it has gone on to be kept. Nil where there is nothing to be written.
    public func value(in tree: Node) -> Node? {
        guard tree.node(at: path.parent).hasChildren else { return nil }
        let stored = tree.node(at: path)
        var value = CounterNumber.add(CounterNumber.isNumber(stored) ? stored : .int(0), difference)
        if case .double(let number) = value { value = .number(number) }
        return value == stored ? nil : value
    }
}
