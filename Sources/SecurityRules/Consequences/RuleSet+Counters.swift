public import JSONTree

/// A counter whose stored value is wrong.
public struct CounterCorrection: Sendable, Equatable {
    /// How to correct the counter in a later tree, in which commits have continued to update it.
    public enum Outcome: Sendable, Equatable {
        case isRight
        case write(Node)
        /// A rounded sum, or a greatest or least value, has changed meanwhile: its value is known only after counting again.
        case countAgain
    }

    public let path: Path
    let operation: Counter.Operation
    /// Whether the counter creates its node.
    let creates: Bool
    let stored: Node
    let counted: CounterSum?
}

extension Node {
    /// Whether a node with children may be created at a place, without replacing a leaf there or above.
    func mayHold(_ path: Path) -> Bool {
        var node = self
        for key in path.keys {
            if node.isNull { return true }
            guard node.hasChildren else { return false }
            node = node.child(key)
        }
        return node.isNull || node.hasChildren
    }
}

/// The best of the members of a `max`, `min` or `any` that came, and of those that went, in some commits.
public struct CounterChange: Sendable, Equatable {
    let operation: Counter.Operation
    private(set) var gained: CounterSum?
    private(set) var lost: CounterSum?

    init(_ operation: Counter.Operation, gained: CounterSum?, lost: CounterSum?) {
        (self.operation, self.gained, self.lost) = (operation, gained, lost)
    }

    /// Adds the change of a later commit.
    public mutating func add(_ later: CounterChange) {
        if let gained = later.gained { operation.add(gained, to: &self.gained) }
        if let lost = later.lost { operation.add(lost, to: &self.lost) }
    }
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
        count.missing()
        return count.corrections
    }
}

private struct WholeCount {
    let program: Program
    let root: Node
    private var totals: [Path: CounterSum] = [:]
    /// The counters that create their nodes, by the place of each that counts something.
    private var creating: [Path: Int] = [:]
    private(set) var corrections: [CounterCorrection] = []

    init(program: Program, root: Node) { (self.program, self.root) = (program, root) }

    mutating func members(_ set: Int, _ path: Path, _ node: Node) {
        guard node.hasChildren else { return }
        let place = program.sets.places[set]
        for number in place.counters {
            guard program.counters[number].readsMember else {
                if let target = program.counterPath(number, path, []) { add(CounterSum(count: node.childCount), number, target) }
                continue
            }
            for (key, member) in node.children {
                let child = path.appending(key)
                let found = program.contribution(number, child, member, in: root, textWork: program.textWork).found
                if let (target, amount) = found { add(amount, number, target) }
            }
        }
        for (key, next) in place.literals { members(next, path.appending(key), node.child(key)) }
        if let next = place.wildcard { for (key, child) in node.children { members(next, path.appending(key), child) } }
    }

    private mutating func add(_ amount: CounterSum, _ number: Int, _ target: Path) {
        program.counters[number].operation.add(amount, to: &totals[target])
        if program.counters[number].creates { creating[target] = number }
    }

    mutating func nodes(_ place: Int32, _ path: Path, _ node: Node) {
        let rules = program.tables.places[Int(place)]
        guard rules.counts, node.hasChildren else { return }
        for number in program.details[Int(place)].counts {
            let name = program.counters[number].name
            correct(number, path.appending(name), node.child(name))
        }
        for (key, child) in node.children where child.hasChildren {
            let next = withUnsafePointer(to: key) { program.tables.child(of: place, TextCursor($0)) }
            if next >= 0 { nodes(next, path.appending(key), child) }
        }
    }

    /// Adds the counters whose nodes are missing.
    mutating func missing() {
        for (target, number) in creating where !root.node(at: target.parent).hasChildren { correct(number, target, .null) }
    }

    private mutating func correct(_ number: Int, _ target: Path, _ stored: Node) {
        let (counter, counted) = (program.counters[number], totals[target])
        if stored == counter.operation.node(counted) { return }
        corrections.append(
            CounterCorrection(
                path: target, operation: counter.operation, creates: counter.creates, stored: stored, counted: counted))
    }
}

extension CounterCorrection {
    /// - Parameter change: how members have changed since the counted tree; nil if they have not.
    public func outcome(in tree: Node, since change: CounterChange? = nil) -> Outcome {
        guard creates ? tree.mayHold(path.parent) : tree.node(at: path.parent).hasChildren else { return .isRight }
        let later = tree.node(at: path)
        let value: Node
        switch operation {
        case .count, .sum:
            if later == stored {
                value = operation.node(counted)
            } else if let from = CounterSum(stored: stored), let now = CounterSum(stored: later) {
                value = (now + (counted ?? .zero) - from).node
            } else {
                return .countAgain
            }
        case .max, .min, .any:
            guard let change else {
                value = operation.node(counted)
                break
            }
            var best = counted
            if let gained = change.gained { operation.add(gained, to: &best) }
            if let lost = change.lost {
                // If one as good as the best has gone, only counting tells whether another one remains.
                var withLost = best
                operation.add(lost, to: &withLost)
                if best == nil || withLost == lost { return .countAgain }
            }
            value = operation.node(best)
        }
        return value == later ? .isRight : .write(value)
    }
}
