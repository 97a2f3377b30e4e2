import JSONTree
import LiveQueries

/// A batch's changes and steps, kept until it is durable. If the log refuses it, the changes are undone, newest first, and the steps are
/// repeated without writing anything. Every request is then answered as if the disk had refused before.
struct BatchHistory {
    /// In the order of execution.
    var steps: [Step] = []
    var changes: [SessionChange] = []

    enum Step {
        case request(SubmittedRequest)
        /// A request whose answer was sent already, because it does not depend on the batch.
        case settled(SubmittedRequest)
        /// An observer's first content turned out to be too large.
        case tooLarge(Client, Observation)
        /// The observers of a slow client were sent the current state.
        case catchUp(Client, MissedChanges)
        /// Live queries were updated after their index was rebuilt.
        case show(Path, TreeQuery.Index, DeferredUpdate)
        /// Live queries of a path were sent changes of earlier commits; their state before that is lost.
        case notifiedLater(Path)
        /// Observers with a pace were sent the changes held back before.
        case paced(Path, Query?, ObserverStyle)
        /// The onDisconnect writes of an ended session were applied, without a request.
        case applyEnded(PendingSession)
        /// The pending onDisconnect writes of a session were logged again.
        case relog(String)
    }

    /// A change of a session, with the value before it.
    enum SessionChange {
        case named(Client, String, before: Client?)
        case ended(Client, wasNamed: Bool)
        case identified(Client, before: Identity)
        case pendingChanged(Client, before: PendingWrites, id: String?)
        case observed(Client, Observation)
        case unobserved(Client, Observation)
    }
}
