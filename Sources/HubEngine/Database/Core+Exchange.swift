import JSONTree

extension Core {
    /// Carries out a request of REST.
    func exchange(_ exchange: Exchange, _ client: Client) -> Reply {
        var writes: [TreeWrite]
        var outcome = Exchanged()
        switch exchange.work {
        case .read(let query):
            let reply = get(exchange.path, query, client)
            guard case .value(let node) = reply else { return reply }
            outcome.content = node
            return .exchanged(outcome)
        case .write(let given): writes = given
        case .push(let value):
            let key = pushIDs.next(now: clock())
            outcome.key = key
            writes = [TreeWrite(exchange.path.appending(key), value)]
        }
        // The content itself, or whether it is the one that somebody guesses, is for those who may read it.
        if exchange.ifHash != nil || exchange.wantsContent, !allowsRead(exchange.path, nil, client) { return .failed(.permissionDenied) }
        do throws(Failure) {
            let condition = exchange.ifHash.map { Condition(exchange.path, hash: $0) }
            _ = try commit(writes, if: condition, by: client.identity)
        } catch {
            guard error.code == .dataStale else { return .failed(error) }
            outcome.isStale = true
            outcome.content = root.node(at: exchange.path)
            return .exchanged(outcome)
        }
        if exchange.wantsContent { outcome.content = root.node(at: exchange.path) }
        let isComputed = writes.contains { !$0.value.deferred.isEmpty }
        if !isComputed || mayRead(exchange.path, nil, client) {
            outcome.written = writes.map { write in
                let node = root.node(at: write.path)
                return write.part == .node ? node : node.priority
            }
        }
        return .exchanged(outcome)
    }
}
