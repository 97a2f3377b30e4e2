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

    extension Engine {
        /// The invariants of all parts that are broken now. Between requests, on the queue. O(places + views + indexes)
        func brokenInvariants() -> [String] {
            context.queue.assertCurrent()
            var found = Invariants()
            parts.places.check(over: content.root, &found)
            parts.indexes.check(parts.places, &found)
            parts.queries.check(&found)
            parts.suspended.check(&found)
            durability.check(&found)
            return found.broken
        }
    }

    extension Database {
        /// The invariants of the engine that are broken now. Waits for the queue.
        package func brokenInvariants() -> [String] { queue.sync { engine.brokenInvariants() } }
    }
#endif
