import JSONTree

/// The state of a client that reads too slowly. Exists only as long as that lasts.
///
/// ```
/// flowing ── answers beyond the window ───► probing ─────────────┐
///    │    ── something large is sent ───► probing, or suspended ─┤
///    ▲    ── its lane: too much waits ──► suspended              │ its lane: everything has left
///    └── caught up: each stale observer in one message ◄─────────┘
/// ```
/// Meanwhile the client's requests are held, so that an answer never precedes older events, and a client that does not read its
/// answers causes no more work. The value observers of a suspended client are sent nothing. Only the changed places are recorded
/// for each, so that the pending data does not grow with the writes of others.
final class Lag {
    /// Requests in the order of arrival.
    var held: [Database.Item] = []
    /// Whether something large was sent that the client has not taken.
    var isTakingLarge = false
    /// Whether the client's value observers are sent nothing, besides its requests being held.
    var isSuspended = false
    /// The suspended observers that have missed something.
    private(set) var stale = Missed()

    func mark(_ observation: Observation, _ missed: Staleness, limit: Int) {
        stale.mark(observation, missed, limit: limit)
    }

    func forget(_ observation: Observation) { stale.forget(observation) }

    func takeStale() -> Missed {
        defer { stale = Missed() }
        return stale
    }
}

/// Observers and what each has missed, in the order in which they first did: where not all can be told at once, those that have waited
/// longest come first.
struct Missed: Sequence, Sendable, ExpressibleByDictionaryLiteral {
    private var changes: [Observation: Staleness] = [:]
    /// With those that were forgotten since, and again behind these if they missed something anew.
    private var order: [Observation] = []

    init() {}

    init(dictionaryLiteral elements: (Observation, Staleness)...) {
        for (observation, missed) in elements { mark(observation, missed, limit: .max) }
    }

    var count: Int { changes.count }
    var isEmpty: Bool { changes.isEmpty }
    subscript(observation: Observation) -> Staleness? { changes[observation] }

    mutating func mark(_ observation: Observation, _ missed: Staleness, limit: Int) {
        let known = changes[observation]
        if known == nil { order.append(observation) }
        changes[observation] = (known ?? .at([])).joined(with: missed, limit: limit)
    }

    mutating func forget(_ observation: Observation) {
        guard changes.removeValue(forKey: observation) != nil else { return }
        // O(1) for each: as many are marked before.
        if order.count > 2 * changes.count + 16 { order = map(\.0) }
    }

    /// O(observers), in all.
    func makeIterator() -> AnyIterator<(Observation, Staleness)> {
        var (left, next) = (changes, order.makeIterator())
        return AnyIterator {
            while let observation = next.next() {
                if let missed = left.removeValue(forKey: observation) { return (observation, missed) }
            }
            return nil
        }
    }
}

/// The changes that an observer has missed.
enum Staleness {
    /// These places at or below its own, none of them below another.
    case at(Set<Path>)
    /// Too much to remember, or its whole place.
    case whole

    /// Written places, none of them below another; more than `limit` of them are everything, and are not looked at.
    static func of(_ patches: [(path: Path, value: Node)], limit: Int) -> Staleness {
        patches.count > limit ? .whole : .at(Set(patches.lazy.map(\.path)))
    }

    /// O(limit · depth²)
    func joined(with other: Staleness, limit: Int) -> Staleness {
        guard case .at(let places) = self, case .at(let more) = other, more.count <= limit else { return .whole }
        let all = places.union(more)
        let outermost = all.filter { !$0.isBelow(oneOf: all) }
        return outermost.count > limit ? .whole : .at(outermost)
    }
}

extension Path {
    /// Whether another of the places contains this one.
    fileprivate func isBelow(oneOf places: Set<Path>) -> Bool {
        var above = self
        while above.keys.popLast() != nil { if places.contains(above) { return true } }
        return false
    }
}

extension Observation {
    /// Whether a newer state may replace older ones. Child events are all sent (observe protocol): each describes a change, not the
    /// state.
    var mayConflate: Bool {
        switch style {
        case .patches, .stream, .countStream: true
        case .events(_, let kinds, _): kinds.areValues
        }
    }
}
