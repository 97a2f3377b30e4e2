import JSONTree
import SecurityRules

extension Core {
    /// Carries out one request; all but `end` get exactly one answer.
    func handle(_ item: Database.Item) {
        let client = item.client
        guard !client.hasEnded else { return }
        switch item.request {
        case .begin(let sessionID, let previous):
            begin(client, sessionID, replacing: previous)
        case .end:
            end(client)
        case .identify(let identity):
            client.identity = identity
            answer(.identified(identity), item)
            recheckObservers(of: client)
        case .observe(let path, let style, let hash):
            observe(path, style, hash: hash, item)
        case .unobserve(let path, let style):
            remove(Observation(path: path, style: style), of: client)
            answer(.done, item)
        case .unobserveID(let id):
            if let observation = client.observation(id: id) {
                remove(observation, of: client)
                answer(.done, item)
            } else {
                answer(.failed(Failure(.unknownObserver, "No observer has the id \(id).")), item)
            }
        case .get(let path):
            answer(allowsRead(path, client) ? .value(root.node(at: path)) : .failed(.permissionDenied), item)
        case .write(let writes, let expectedHash):
            answer(result(of: writes, expectedHash: expectedHash, client) { .written(sequence: $0) }, item)
        case .push(let path, let value):
            let key = pushIDs.next(now: clock())
            answer(result(of: [TreeWrite(path.appending(key), value)], expectedHash: nil, client) { .pushed(key, sequence: $0) }, item)
        case .onDisconnect(let writes):
            answer(keep(writes, client), item)
        case .cancelOnDisconnect(let path):
            client.pending.cancel(path)
            answer(.done, item)
        case .answer(let bytes):
            output.send(bytes, to: client)
        }
    }

    private func answer(_ reply: Reply, _ item: Database.Item) {
        output.send(format.reply(reply, to: item.token, dialect: item.client.dialect), to: item.client)
    }

    func allowsRead(_ path: Path, _ client: Client) -> Bool {
        client.identity.isAdmin || rules.allowsRead(path, root: root, auth: client.identity.auth, now: clock(), query: .none)
    }

    private func result(of writes: [TreeWrite], expectedHash: String?, _ client: Client, _ success: (UInt64) -> Reply) -> Reply {
        do throws(Failure) { return success(try commit(writes, expectedHash: expectedHash, by: client.identity)) } catch { return .failed(error) }
    }

    // MARK: Sessions

    private func begin(_ client: Client, _ sessionID: String, replacing previous: String?) {
        if let previous, let old = sessions[previous], old !== client {
            end(old)
            output.close(old)
        }
        client.sessionID = sessionID
        sessions[sessionID] = client
    }

    /// Ends a session: no observer of it is left and its pending writes are committed as one (contract §6.2).
    private func end(_ client: Client) {
        client.hasEnded = true
        if let id = client.sessionID, sessions[id] === client { sessions[id] = nil }
        for observation in client.observations { remove(observation, of: client) }
        let writes = client.pending.takeAll()
        guard !writes.isEmpty else { return }
        do throws(Failure) {
            _ = try commit(writes, expectedHash: nil, by: client.identity)
        } catch {
            // What the rules refuse by now is dropped path by path; the rest still applies.
            let permitted = writes.filter { mayWrite([$0], client.identity) }
            if !permitted.isEmpty { _ = try? commit(permitted, expectedHash: nil, by: client.identity) }
        }
    }

    private func keep(_ writes: [TreeWrite], _ client: Client) -> Reply {
        guard mayWrite(writes, client.identity) else { return .failed(.permissionDenied) }
        for write in writes { client.pending.add(write) }
        return .done
    }

    // MARK: Observers

    private func observe(_ path: Path, _ style: ObserverStyle, hash: String, _ item: Database.Item) {
        let client = item.client
        guard allowsRead(path, client) else { return answer(.failed(.permissionDenied), item) }
        if case .events(let id, _) = style, client.observation(id: id) != nil {
            return answer(.failed(Failure(.duplicateObserver, "An observer has the id \(id) already.")), item)
        }
        observers.view(at: path, lanes: laneCount).add(client, style: style)
        client.observations.insert(Observation(path: path, style: style))
        let node = root.node(at: path)
        switch style {
        case .patches:
            // Data first: the ok is what makes the client's view complete (contract §2.5 rule 2).
            if hash.isEmpty ? node.exists : node.hash != hash {
                output.send(format.initial(node, at: path, style: style, sequence: sequence), to: client)
            }
            answer(.observing(sequence: sequence), item)
        case .events:
            answer(.observing(sequence: sequence), item)
            output.send(format.initial(node, at: path, style: style, sequence: sequence), to: client)
        }
    }

    private func remove(_ observation: Observation, of client: Client) {
        client.observations.remove(observation)
        guard let view = observers.existingView(at: observation.path) else { return }
        view.remove(client, style: observation.style)
        if view.isEmpty { observers.removeView(at: observation.path) }
    }

    /// Cancels the observers that the client's identity and the rules no longer permit (contract §8.3).
    func recheckObservers(of client: Client) {
        for observation in client.observations where !allowsRead(observation.path, client) {
            remove(observation, of: client)
            output.send(format.cancelled(observation.path, style: observation.style), to: client)
        }
    }
}
