import JSONTree

extension Core {
    /// Carries out a request of REST.
    func exchange(_ exchange: Exchange, _ item: Database.Item) {
        let condition = exchange.ifHash.map { Condition(exchange.path, hash: $0) }
        switch exchange.work {
        // A read is carried out as a get is.
        case .read(let query): get(exchange.path, query, item) { .exchanged(Exchanged(content: $0)) }
        case .write(let writes):
            write(AskedWrite(writes, if: condition, .exchange(exchange, key: nil)), item)
        case .push(let value):
            let key = pushIDs.next(now: clock())
            write(AskedWrite([TreeWrite(exchange.path.appending(key), value)], if: condition, .exchange(exchange, key: key)), item)
        }
    }
}
