/// Steps of the automaton over whole sets of states: the part that both the table builder and direct simulation use.
struct StateSets {
    let graph: StateGraph
    let classes: UnitClasses
    /// A match may begin at any unit, so the start joins in at every step.
    let isFloating: Bool

    /// Visits so far: the measure that bounds the building of a table.
    private(set) var work = 0
    private var mark: [UInt32]
    private var generation: UInt32 = 0
    private var stack: [Int32] = []

    init(_ graph: StateGraph, isFloating: Bool) {
        self.graph = graph
        self.isFloating = isFloating
        classes = UnitClasses(graph.sets)
        mark = [UInt32](repeating: 0, count: graph.states.count)
    }

    private mutating func begin() {
        generation &+= 1
        if generation == 0 {
            mark = [UInt32](repeating: 0, count: mark.count)
            generation = 1
        }
    }

    /// Adds a state and all it reaches without a unit.
    private mutating func close(_ state: Int32, into set: inout [Int32]) {
        stack.append(state)
        while let top = stack.popLast() {
            guard top >= 0, mark[Int(top)] != generation else { continue }
            mark[Int(top)] = generation
            work += 1
            if case .split(let a, let b) = graph.states[Int(top)] {
                stack.append(b)
                stack.append(a)
            } else {
                set.append(top)
            }
        }
    }

    mutating func initial() -> [Int32] {
        begin()
        var set: [Int32] = []
        close(graph.start, into: &set)
        set.sort()
        return set
    }

    /// The states after one unit of a class.
    mutating func step(_ set: [Int32], _ unitClass: Int, into next: inout [Int32]) {
        begin()
        next.removeAll(keepingCapacity: true)
        for state in set {
            work += 1
            if case .units(let units, let target) = graph.states[Int(state)], classes.membership[unitClass][units] {
                close(target, into: &next)
            }
        }
        if isFloating { close(graph.start, into: &next) }
    }

    /// The accepting state is number 0.
    static func accepts(_ set: [Int32]) -> Bool { set.contains(0) }
}
