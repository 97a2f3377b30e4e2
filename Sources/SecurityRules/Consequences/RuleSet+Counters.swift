public import JSONTree

/// A counter whose stored value is wrong.
public struct CounterCorrection: Sendable, Equatable {
    /// How to correct the counter in a later tree, in which commits have continued to update it.
    public enum Outcome: Sendable, Equatable {
        case isRight
        case write(Node)
        /// A rounded sum has changed meanwhile: its value is known only after counting again.
        case countAgain
    }

    public let path: Path
    let stored: Node
    let counted: CounterSum
}

extension RuleSet {
    /// Whether the rules have counters.
    public var hasCounters: Bool { !program.counters.isEmpty }

    /// Counts all sets of a tree, for all counters: after a deploy, an import or a start. O(all members of sets, and nodes with counters)
    /// - Returns: the counters that are wrong or missing.
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
    private var values: [Path: CounterSum] = [:]
    private(set) var corrections: [CounterCorrection] = []

    init(program: Program, root: Node) { (self.program, self.root) = (program, root) }

    mutating func members(_ set: Int, _ path: Path, _ node: Node) {
        guard node.hasChildren else { return }
        let place = program.sets.places[set]
        for number in place.counters {
            guard program.counters[number].readsMember else {
                if let target = program.counterPath(number, path, []) {
                    values[target, default: .zero] += CounterSum(count: node.childCount)
                }
                continue
            }
            for (key, member) in node.children {
                let child = path.appending(key)
                guard let (target, amount) = program.contribution(number, child, member, in: root, textWork: program.textWork).found else {
                    continue
                }
                values[target, default: .zero] += amount
            }
        }
        for (key, next) in place.literals { members(next, path.appending(key), node.child(key)) }
        if let next = place.wildcard { for (key, child) in node.children { members(next, path.appending(key), child) } }
    }

    mutating func nodes(_ place: Int32, _ path: Path, _ node: Node) {
        let rules = program.tables.places[Int(place)]
        guard rules.counts, node.hasChildren else { return }
        for number in program.details[Int(place)].counts {
            let name = program.counters[number].name
            let (target, stored) = (path.appending(name), node.child(name))
            let counted = values[target] ?? .zero
            if stored == counted.node { continue }
            corrections.append(CounterCorrection(path: target, stored: stored, counted: counted))
        }
        for (key, child) in node.children where child.hasChildren {
            let next = withUnsafePointer(to: key) { program.tables.child(of: place, TextCursor($0)) }
            if next >= 0 { nodes(next, path.appending(key), child) }
        }
    }
}

extension CounterCorrection {
    public func outcome(in tree: Node) -> Outcome {
        guard tree.node(at: path.parent).hasChildren else { return .isRight }
        let later = tree.node(at: path)
        let value: Node
        if later == stored {
            value = counted.node
        } else if let from = CounterSum(stored: stored), let now = CounterSum(stored: later) {
            value = (now + counted - from).node
        } else {
            return .countAgain
        }
        return value == later ? .isRight : .write(value)
    }
}
