import JSONTree

/// What a batch did, kept until it is durable. If the log refuses it, the changes are taken back, newest first, and the steps
/// are carried out again with nothing being written: everybody is answered as if the disk had refused before.
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
        case retell(String)
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

extension Core {
    func note(_ step: @autoclosure () -> BatchHistory.Step) {
        if keepsHistory { history.steps.append(step()) }
    }

    func note(_ change: @autoclosure () -> BatchHistory.SessionChange) {
        if keepsHistory { history.changes.append(change()) }
    }

    /// Undoes a change of a batch that is given up. The content has gone back already.
    func takeBack(_ change: BatchHistory.SessionChange) {
        switch change {
        case .named(let client, let id, let before):
            client.sessionID = nil
            sessions[id] = before
        case .ended(let client, let wasNamed):
            client.hasEnded = false
            if wasNamed, let id = client.sessionID { sessions[id] = client }
        case .identified(let client, let before):
            client.identity = before
        case .pended(let client, let before, let id):
            if let now = client.pendingID { leaving[now] = nil }
            (client.pending, client.pendingID) = (before, id)
            count(before.heldBytes, of: client)
            if let id { leaving[id] = client }
        case .observed(let client, let observation):
            remove(observation, of: client)
        // Its rights are over whatever the log says.
        case .unobserved(let client, _) where client.isRevoked: break
        case .unobserved(let client, let observation):
            let view = returningView(observation.query, at: observation.path)
            view.add(client, style: observation.style)
            insert(observation, of: client)
            // Its end may stand.
            if !leavers.contains(where: { $0 === client }) { leaveLater(client) }
            // Ended and observed again, it may have missed anything.
            if let lag = client.lag, lag.isSuspended, observation.mayConflate {
                view.suspend(client, style: observation.style)
                lag.mark(observation, .whole, limit: limits.stalePlaces)
            }
        }
    }
}
