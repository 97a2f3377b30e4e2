#if DEBUG
    /// Collects what should always hold and does not. For tests, in debug builds.
    package struct Invariants {
        package private(set) var broken: [String] = []

        package init() {}

        /// Records a broken invariant.
        package mutating func check(_ holds: Bool, _ what: @autoclosure () -> String) { if !holds { broken.append(what()) } }

        package mutating func check<Value: Equatable>(_ value: Value, is expected: Value, _ what: @autoclosure () -> String) {
            if value != expected { broken.append("\(what()): \(value), not \(expected)") }
        }
    }
#endif
