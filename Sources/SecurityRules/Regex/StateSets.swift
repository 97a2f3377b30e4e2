/// Steps the automaton over whole sets of states: used by the table builder and by direct simulation.
struct StateSets {
    let graph: StateGraph
    let classes: UnitClasses
    /// Whether a match may begin at any unit: then the start state joins at every step.
    let isFloating: Bool

    /// The number of state visits so far, which bounds the building of a table.
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

    /// Adds a state and all states reachable from it without consuming a unit.
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
