#if DEBUG
    /// Collects what should always hold and does not. For tests, in debug builds.
    struct Invariants {
        private(set) var broken: [String] = []

        /// Records a broken invariant.
        mutating func check(_ holds: Bool, _ what: @autoclosure () -> String) { if !holds { broken.append(what()) } }

        mutating func check<Value: Equatable>(_ value: Value, is expected: Value, _ what: @autoclosure () -> String) {
            if value != expected { broken.append("\(what()): \(value), not \(expected)") }
        }
    }
#endif
