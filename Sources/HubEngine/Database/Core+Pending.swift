import JSONTree
import SecurityRules

/// What clients leave behind for their end (contract §6.2). It is part of the durable state: every step goes to the log, its
/// answer waits for that, and the commit that carries it out also says that it is done. So after a crash it is carried out
/// once, by the next process.
extension Core {
    func keep(_ writes: [TreeWrite], _ client: Client) -> Reply {
        do throws(Failure) {
            _ = try pendingBytes(with: writes, client)
            try check(writes, client.identity)
        } catch { return .failed(error) }
        return keepPermitted(writes, client)
    }

    /// Bytes of what a client would leave behind with these writes, at most. O(their size), and when that seems too much
    /// O(all that it leaves): what was written over does not count.
    /// - Throws: when it may not leave so much.
    func pendingBytes(with writes: [TreeWrite], _ client: Client) throws(Failure) -> Int {
        guard client.pending.writes.count + writes.count <= limits.pendingWrites else {
            throw Failure(.failure, "At most \(limits.pendingWrites) writes may wait for the disconnect of one client.")
        }
        var more = 0
        for write in writes {
            more += write.heldBytes(atMost: limits.pendingBytes)
            if more > limits.pendingBytes { throw .pendingTooBig(limits.pendingBytes) }
        }
        var bytes = client.pendingBytes + more
        if bytes > limits.pendingBytes {
            var after = client.pending
            for write in writes { after.add(write) }
            bytes = after.heldBytes
            if bytes > limits.pendingBytes { throw .pendingTooBig(limits.pendingBytes) }
        }
        if pendingBytes - client.pendingBytes + bytes > limits.pendingBytesOfAll { throw .pendingOfAllTooBig }
        return bytes
    }

    /// Notes that what a client leaves behind has at most so many bytes.
    func count(_ bytes: Int, of client: Client) {
        pendingBytes += bytes - client.pendingBytes
        client.pendingBytes = bytes
    }

    /// Keeps writes that the rules allow.
    func keepPermitted(_ writes: [TreeWrite], _ client: Client) -> Reply {
        let bytes: Int
        do throws(Failure) {
            bytes = try pendingBytes(with: writes, client)
            if writes.isEmpty { return .done }
            try mustTakeWrites()
        } catch { return .failed(error) }
        note(.pended(client, before: client.pending, id: client.pendingID))
        var changes: [PendingChange] = []
        let id: String
        if let known = client.pendingID {
            id = known
        } else {
            id = client.sessionID ?? pushIDs.next(now: clock()).string
            client.pendingID = id
            leaving[id] = client
            changes.append(.identify(session: id, auth: client.identity.auth, isAdmin: client.identity.isAdmin))
        }
        for write in writes {
            client.pending.add(write)
            changes.append(.keep(session: id, write))
        }
        count(bytes, of: client)
        record(changes)
        return .done
    }

    func cancelPending(_ path: Path, of client: Client) -> Reply {
        guard let id = client.pendingID else { return .done }
        do throws(Failure) { try mustTakeWrites() } catch { return .failed(error) }
        note(.pended(client, before: client.pending, id: id))
        client.pending.cancel(path)
        if client.pending.isEmpty {
            client.pendingID = nil
            leaving[id] = nil
            count(0, of: client)
            record([.forget(session: id)])
        } else {
            record([.cancel(session: id, path)])
        }
        return .done
    }

    func identify(_ client: Client, as identity: Identity) {
        note(.identified(client, before: client.identity))
        client.identity = identity
        guard let id = client.pendingID else { return }
        // Who somebody is needs no disk. Until the log is told, a crash would find who it was.
        if refusal != nil {
            untold.insert(id)
            return
        }
        record([.identify(session: id, auth: identity.auth, isAdmin: identity.isAdmin)])
    }

    /// The client has gone: what it leaves behind is written.
    func leave(_ client: Client) {
        guard let id = client.pendingID else { return }
        let left = client.leftBehind(as: id)
        note(.pended(client, before: client.pending, id: id))
        untold.remove(id)
        leaving[id] = nil
        client.pendingID = nil
        count(0, of: client)
        _ = client.pending.takeAll()
        write(left)
    }

    /// Writes what a session left behind, without a request that asks for it.
    func fire(_ left: PendingSession) {
        note(.fire(left))
        write(left)
    }

    /// Writes as one what a session left behind. What the rules refuse by now is dropped path by path; the rest still applies, each
    /// by itself if they refuse it together: what each may ask of the rules, all may exceed.
    private func write(_ left: PendingSession) {
        if refusal != nil { return owed.append(left) }
        let identity = Identity(auth: left.auth, isAdmin: left.isAdmin)
        let done = [PendingChange.forget(session: left.id)]
        if (try? commit(left.writes.writes, by: identity, pending: done)) != nil { return }
        // Shared by all of them: the queue is not held for each write as long as for an operation of its own.
        var (work, again) = (Self.singleDecisions * rules.textWork, Self.singleDecisions * rules.textWork)
        let writes = left.writes.writes
        let permitted = writes.filter { (try? check([$0], identity, textWork: &work)) != nil }
        let isFewer = !permitted.isEmpty && permitted.count < writes.count
        if isFewer, (try? commit(permitted, by: identity, pending: done)) != nil { return }
        for write in permitted { _ = try? commit([write], by: identity, textWork: &again) }
        record(done)
    }

    /// As much work on texts as so many operations may ask for is done to decide path by path about what one session left, and as
    /// much again to make each by itself.
    private static let singleDecisions = 2

    /// Tells the log all that a session leaves behind, whatever it knew.
    func retell(_ id: String) {
        note(.retell(id))
        var changes = [PendingChange.forget(session: id)]
        if let left = leaving[id]?.leftBehind(as: id) {
            changes.append(.identify(session: id, auth: left.auth, isAdmin: left.isAdmin))
            changes += left.writes.writes.map { .keep(session: id, $0) }
        }
        record(changes)
    }

    /// A commit that leaves the tree as it is.
    private func record(_ changes: [PendingChange]) {
        sequence += 1
        commits.append(Commit(sequence: sequence, operations: [], pending: changes))
    }
}

extension Client {
    /// What is written at the client's end.
    func leftBehind(as id: String) -> PendingSession {
        PendingSession(id: id, auth: identity.auth, isAdmin: identity.isAdmin, writes: pending)
    }
}

extension PendingWrites {
    /// Bytes that the writes hold while they wait, about. O(their size)
    var heldBytes: Int { writes.reduce(0) { $0 + $1.heldBytes(atMost: .max) } }
}

extension TreeWrite {
    /// Bytes that a write holds while it waits, about.
    /// - Parameter limit: above it no more is counted.
    func heldBytes(atMost limit: Int) -> Int {
        var bytes = path.keys.reduce(64) { $0 + $1.text.utf8Count }
        bytes += value.deferred.reduce(0) { $1.path.keys.reduce($0 + 64) { $0 + $1.text.utf8Count } }
        value.node.countBytes(&bytes, atMost: limit)
        return bytes
    }
}

extension Node {
    fileprivate func countBytes(_ bytes: inout Int, atMost limit: Int) {
        switch self {
        case .string(let text): bytes += 16 + text.utf8Count
        case .object(let object):
            bytes += 64
            for (key, child) in object.children {
                if bytes > limit { return }
                bytes += 16 + key.text.utf8Count
                child.countBytes(&bytes, atMost: limit)
            }
        case .prioritized(let leaf): leaf.leaf.countBytes(&bytes, atMost: limit)
        default: bytes += 8
        }
    }
}

extension Failure {
    static func pendingTooBig(_ limit: Int) -> Failure { Failure(.tooBig, "At most \(limit) bytes may wait for the disconnect of one client.") }
    static let pendingOfAllTooBig = Failure(.unavailable, "Too much waits for the disconnect of clients. Try again later.")
}
