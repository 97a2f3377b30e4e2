import JSONTree

/// What a batch did, kept until it is durable. If the log refuses it, the changes are undone, newest first, and the steps are
/// carried out again with nothing being written: every request is answered as if the disk had refused before.
struct BatchHistory {
    /// In the order in which they were carried out.
    var steps: [Step] = []
    var changes: [SessionChange] = []

    enum Step {
        case request(Database.Item)
        /// The same for one whose answer has left already, as it was true whatever becomes of the batch.
        case settled(Database.Item)
        /// An observer's first content turned out to be too large.
        case tooLarge(Client, Observation)
        /// A client that reads slowly was told what it had missed.
        case catchUp(Client, [Observation: Staleness])
        /// Live queries showed what they select, after their index was built anew.
        case show(Path, TreeQuery.Index)
        /// What an ended session had left was written, other than by a request.
        case fire(PendingSession)
        /// The log was told what a session leaves behind.
        case restate(String)
    }

    /// What a step changed of a session, as it was before.
    enum SessionChange {
        case named(Client, String, before: Client?)
        case ended(Client, wasNamed: Bool)
        case identified(Client, before: Identity)
        case pended(Client, before: PendingWrites, id: String?)
        case observed(Client, Observation)
        case unobserved(Client, Observation)
    }
}
