import JSONTree
import SecurityRules

/// Running observers and the rules: nothing is ever pushed to one that the rules refuse by now (contract §8.3).
extension Core {
    /// Whether the rules permit the observer. From then on it is asked again when the data they looked at changes.
    func permits(_ observation: Observation, of client: Client) -> Bool {
        spent += 1
        if client.identity.isAdmin {
            readDependencies.set([], for: observation, of: client)
            return true
        }
        let decision = rules.decideRead(
            observation.path, root: root, auth: client.identity.auth, now: clock(), query: observation.query.map(QueryVariables.init) ?? .none)
        readDependencies.set(decision.isAllowed ? decision.dependencies : [], for: observation, of: client)
        return decision.isAllowed
    }

    /// After a commit and before its pushes: cancels the observers that it takes the permission from.
    func recheckDependents(of paths: [Path], old: Node) {
        for dependent in readDependencies.touched(by: paths, old: old, new: root) { recheck(dependent.observation, of: dependent.client) }
    }

    /// After the client's identity has changed.
    func recheckObservers(of client: Client) {
        listens.move(client)
        for observation in client.observations { recheck(observation, of: client) }
    }

    /// After the rules, or the whole tree, were replaced.
    func recheckAllObservers() {
        for client in observers.clients() { recheckObservers(of: client) }
    }

    private func recheck(_ observation: Observation, of client: Client) {
        if permits(observation, of: client) { return }
        note(.cancelledListen) { question(observation.path, observation.query, client.identity.auth, now: $0) }
        cancel(observation, of: client)
    }

    /// Ends an observer and tells its client so.
    func cancel(_ observation: Observation, of client: Client) {
        remove(observation, of: client)
        output.send(format.cancelled(observation.path, query: observation.query, style: observation.style), to: client)
        // A stream is one observer: nothing is left to be said on it (contract §7.6).
        if case .stream = observation.style {
            end(client)
            output.close(client)
        }
    }
}
