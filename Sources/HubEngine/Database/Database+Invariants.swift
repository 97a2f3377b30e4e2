#if DEBUG
    extension Engine {
        /// The invariants of all parts that are broken now. Between requests, on the queue. O(places + views + indexes)
        func brokenInvariants() -> [String] {
            context.queue.assertCurrent()
            var found = Invariants()
            parts.places.check(over: content.root, &found)
            parts.indexes.check(parts.places, &found)
            parts.queries.places.check(&found)
            parts.suspendedRequests.check(&found)
            durability.check(&found)
            return found.broken
        }
    }

    extension Database {
        /// The invariants of the engine that are broken now. Waits for the queue.
        package func brokenInvariants() -> [String] { queue.sync { engine.brokenInvariants() } }
    }
#endif
