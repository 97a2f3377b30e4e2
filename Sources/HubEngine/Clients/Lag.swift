import JSONTree

/// A client that does not keep up with reading. Exists only as long as that lasts.
///
/// ```
/// flowing ── answers beyond the window ───► probing ─────────────┐
///    ▲    ── its lane: too much waits ──► suspended              │ its lane: everything has left
///    └── caught up: each stale observer in one message ◄─────────┘
/// ```
/// While it lasts the client's requests are held, so that an answer never stands before older news: the client that does
/// not take its answers gets no more work done. A suspended client's value observers are told nothing; of each only
/// what has changed is remembered, so what waits for it does not grow with what others write.
final class Lag {
    /// Requests in the order of arrival.
    var held: [Database.Item] = []
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

    func joined(with other: Staleness, limit: Int) -> Staleness {
        guard case .at(var places) = self, case .at(let more) = other else { return .whole }
        for path in more where !places.contains(where: { $0.contains(path) }) {
            places = places.filter { !path.contains($0) }
            places.insert(path)
        }
        return places.count > limit ? .whole : .at(places)
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
