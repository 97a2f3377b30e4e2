import JSONTree

/// What a batch did, kept until it is durable. If the log refuses it, the changes are undone, newest first, and the steps are
/// carried out again with nothing being written: every request is answered as if the disk had refused before.
struct BatchHistory {
    /// In the order in which they were carried out.
    var steps: [Step] = []
    var changes: [SessionChange] = []

    enum Step {
        case request(Database.Item)
        /// The same for a request whose answer was sent already, because it does not depend on the batch.
        case settled(Database.Item)
        /// An observer's first content turned out to be too large.
        case tooLarge(Client, Observation)
        /// The observers of a slow client were sent the current state.
        case catchUp(Client, Missed)
        /// Live queries showed what they select, after their index was built anew.
        case show(Path, TreeQuery.Index, Owed)
        /// Live queries of a place were told of commits before: what they knew then is not known any more.
        case toldLater(Path)
        /// Observers with a pace were told what they had not been told before.
        case paced(Path, ChildQuery?, ObserverStyle)
        /// The onDisconnect writes of an ended session were made, not by a request.
        case fire(PendingSession)
        /// The pending onDisconnect writes of a session were stored again.
        case restate(String)
    }

    /// A change of a session, with the value before it.
    enum SessionChange {
        case named(Client, String, before: Client?)
        case ended(Client, wasNamed: Bool)
        case identified(Client, before: Identity)
        case pended(Client, before: PendingWrites, id: String?)
        case observed(Client, Observation)
        case unobserved(Client, Observation)
    }
}
