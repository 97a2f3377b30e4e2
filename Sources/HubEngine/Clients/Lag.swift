import JSONTree

/// A client that does not keep up with reading. Exists only as long as that lasts.
///
/// ```
/// flowing ── answers beyond the window ───► probing ─────────────┐
///    │    ── something large is sent ───► probing, or suspended ─┤
///    ▲    ── its lane: too much waits ──► suspended              │ its lane: everything has left
///    └── caught up: each stale observer in one message ◄─────────┘
/// ```
/// While it lasts the client's requests are held, so that an answer never stands before older news: the client that does
/// not take its answers gets no more work done. A suspended client's value observers are told nothing; of each only
/// what has changed is remembered, so what waits for it does not grow with what others write.
final class Lag {
    /// Requests in the order of arrival.
    var held: [Database.Item] = []
    /// Whether something large was sent that the client has not taken.
    var isTakingLarge = false
    /// Whether the client's value observers are told nothing, rather than only its requests held.
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

/// What an observer has missed.
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
    /// Whether a newer state may stand for older ones. Child events are each told (observe protocol): they say what happened,
    /// not how things are.
    var mayConflate: Bool {
        switch style {
        case .patches, .stream: true
        case .events(_, let kinds): kinds == .value
        }
    }
}
