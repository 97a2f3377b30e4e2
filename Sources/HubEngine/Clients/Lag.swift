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
    private(set) var stale: [Observation: Staleness] = [:]

    func mark(_ observation: Observation, _ missed: Staleness, limit: Int) {
        stale[observation] = (stale[observation] ?? .at([])).joined(with: missed, limit: limit)
    }

    func forget(_ observation: Observation) { stale[observation] = nil }

    func takeStale() -> [Observation: Staleness] {
        defer { stale = [:] }
        return stale
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
        case .patches, .stream: true
        case .events(_, let kinds): kinds == .value
        }
    }
}
