import JSONTree

/// Finds counters, copies, inboxes and watches that depend on their own writes: such consequences would never end. Removals always end.
enum ConsequenceCycles {
    /// The written pattern and the pattern it depends on; nil matches any key.
    private struct Effect {
        let writes: [Key?]
        /// Whether the effect also writes everything below.
        let isTree: Bool
        /// The places it depends on, each with everything below.
        let looks: [[Key?]]

        func reaches(_ other: Effect) -> Bool {
            other.looks.contains { looks in
                (isTree || writes.count >= looks.count) && zip(writes, looks).allSatisfy { $0 == nil || $1 == nil || $0 == $1 }
            }
        }
    }

    /// The index of the first effect in a cycle: counters first, then copies, inboxes and watches, each in the order of the places.
    static func find(_ counters: [Counter], _ details: ContiguousArray<PlaceDetails>, _ watches: [WatchRule]) -> Int? {
        func pattern(_ path: Path) -> [Key?] { path.keys.map { $0.string.hasPrefix("$") ? nil : $0 } }
        var effects = counters.map { counter in
            Effect(
                writes: pattern(details[Int(counter.place)].pattern) + [counter.name], isTree: false,
                looks: [counter.set.map { if case .key(let key) = $0 { key } else { nil } } + [nil]])
        }
        for place in details {
            for copy in place.copies {
                let to: [Key?] = copy.to.segments.map { if case .key(let key) = $0 { key } else { nil } }
                effects.append(Effect(writes: to, isTree: true, looks: [pattern(place.pattern)]))
            }
        }
        for place in details {
            for inbox in place.inboxes {
                let to: [Key?] = inbox.to.segments.map { if case .key(let key) = $0 { key } else { nil } }
                effects.append(Effect(writes: to, isTree: true, looks: [pattern(place.pattern)]))
            }
        }
        for watch in watches {
            let found = watch.on.map { $0.template.pattern + [nil] }
            let sources = watch.reads + (watch.area.source.map { [$0.pattern] } ?? [])
            effects.append(Effect(writes: watch.to.pattern, isTree: true, looks: [watch.pattern] + found + sources))
        }
        let next = effects.map { effect in effects.indices.filter { effect.reaches(effects[$0]) } }
        for start in effects.indices {
            var (reached, rest) = (Set<Int>(), next[start])
            while let here = rest.popLast() {
                if here == start { return start }
                if reached.insert(here).inserted { rest += next[here] }
            }
        }
        return nil
    }
}
