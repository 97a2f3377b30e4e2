package import Commits
import JSONTree

/// The state of a client that reads too slowly, while that lasts.
///
/// ```
/// flowing ── answers beyond the window ───► probing ─────────────┐
///    │    ── a large message is sent ────► probing, or suspended ─┤
///    ▲    ── its lane: too much waits ───► suspended              │ its lane: everything has left
///    └── caught up: each stale observer in one message ◄──────────┘
/// ```
/// Meanwhile the client's requests are held. So an answer never precedes older events, and a client that does not read its answers causes
/// no more work. The value observers of a suspended client are sent nothing. Only the changed paths are recorded for each, so that the
/// pending data does not grow with the writes of other clients.
package final class Lag {
    /// Requests in the order of arrival.
    package var held: [SubmittedRequest] = []
    /// Whether a large message was sent that the client has not read yet.
    package var isReceivingLarge = false
    /// Whether the client's value observers are suspended, in addition to its requests.
    package var isSuspended = false
    /// The suspended observers that missed changes.
    package private(set) var stale = MissedChanges()

    package init() {}

    package func mark(_ observation: Observation, _ missed: MissedPaths, limit: Int) {
        stale.mark(observation, missed, limit: limit)
    }

    package func forget(_ observation: Observation) { stale.forget(observation) }

    package func takeStale() -> MissedChanges {
        defer { stale = MissedChanges() }
        return stale
    }
}
