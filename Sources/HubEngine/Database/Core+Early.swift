import JSONTree

/// When the answer of a request leaves.
enum Departure {
    /// When its batch is durable.
    case withBatch
    /// That is open: before its batch if nothing speaks against it.
    case open
    /// It has left before its batch, and nothing of the request would have to be done again.
    case left
    /// It has left before its batch, but the request has changed the session.
    case settled
    /// The request is carried out again, and its answer has left before.
    case muted
}

/// Answers that do not wait for the log although batches do: what they say is true whatever becomes of those, and nothing that was
/// said to the client before still waits.
///
/// ```
/// batches that wait:  [ put a ] [ put b ]      get a ─► waits: it has seen the put
///                                              get c ─► leaves: the same in the durable tree, and as permitted there
/// ```
extension Core {
    /// An answer that was written without the database.
    func send(_ bytes: [UInt8], _ item: Database.Item) {
        guard mayLeave(item.client) else { return output.send(bytes, to: item.client) }
        departure = .left
        early.send(bytes, to: item.client)
    }

    /// Decides for the answer of a request, and remembers it.
    func leavesEarly(_ reply: Reply, _ item: Database.Item) -> Bool {
        guard mayLeave(item.client) else { return false }
        switch item.request {
        case .get(let path, let query):
            guard isDurable(reply, path, query, item.client) else { return false }
            departure = .left
        case .exchange(let exchange):
            guard case .read(let query) = exchange.work, isDurable(reply, exchange.path, query, item.client) else { return false }
            departure = .left
        case .identify, .signOut:
            // With something left behind it is a commit.
            guard item.client.pendingID == nil else { return false }
            departure = .settled
        default: return false
        }
        return true
    }

    /// Whether something waits for the log that the answer could pass, and nothing of it is for the client.
    private func mayLeave(_ client: Client) -> Bool {
        guard departure == .open, keepsHistory, refusal == nil, !(waiting.isEmpty && commits.isEmpty) else { return false }
        return client.lastSent < firstWaiting && client.observations.areFew(Self.observersAsked) { observation in
            let view = observers.existingPlace(at: observation.path)?.existingView(observation.query)
            return view.map { $0.lastChange < firstWaiting } ?? true
        }
    }

    /// Observers that are looked at for one answer; with more of them a client's answers wait.
    private static let observersAsked = 32

    /// Whether the durable tree would give the same answer to a read.
    private func isDurable(_ reply: Reply, _ path: Path, _ query: TreeQuery?, _ client: Client) -> Bool {
        let mayRead = mayRead(path, query, client, in: durable.root)
        if case .failed(let failure) = reply, failure == .permissionDenied { return !mayRead }
        return mayRead && durable.root.node(at: path).isIdentical(to: root.node(at: path))
    }

    /// After a request was carried out: what has to be done of it again if the batch is given up.
    func noteDone(_ item: Database.Item) {
        switch departure {
        case .left: break
        case .settled: note(.settled(item))
        default: note(.request(item))
        }
    }

    /// A request of a batch that is given up whose answer has left.
    func carryOutAgain(_ item: Database.Item) {
        if item.client.hasEnded { return }
        departure = .muted
        carryOut(item)
        departure = .withBatch
    }

    func releaseEarly() {
        if early.isEmpty { return }
        let leaving = early
        early = OutputBuffer(lanes: laneCount)
        leaving.release(to: outlet, from: 0)
    }
}
