import JSONTree

extension Core {
    /// Carries out a request of REST.
    func exchange(_ exchange: Exchange, _ item: Database.Item) {
        let condition = exchange.ifHash.map { Condition(exchange.path, hash: $0) }
        switch exchange.work {
        case .read(let query):
            let reply = get(exchange.path, query, item.client)
            guard case .value(let node) = reply else { return answer(reply, item) }
            var outcome = Exchanged()
            outcome.content = node
            answer(.exchanged(outcome), item)
        case .write(let writes):
            write(AskedWrite(writes, if: condition, .exchange(exchange, key: nil)), item)
        case .push(let value):
            let key = pushIDs.next(now: clock())
            write(AskedWrite([TreeWrite(exchange.path.appending(key), value)], if: condition, .exchange(exchange, key: key)), item)
        }
    }
}
