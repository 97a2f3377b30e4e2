import JSONTree

/// Writes as they are asked for. A small one is decided and made at once; a large one is prepared off the queue and made when
/// nothing has changed that it rests on (`PreparedWrite`).
///
/// ```
/// asked ── small ──► commit ──► answer
///   └── large ──► parked: prepared on the tree of now ──► what others wrote taken over ──► installed ──► answer
///                   ▲            still much of it: taken over in the background ┘ │
///                   └── they wrote what it rests on ◄──────────────────────────────┘
/// ```
extension Core {
    /// Carries out a write and answers it, at once or later.
    func write(_ asked: AskedWrite, _ item: Database.Item) {
        let client = item.client
        if !client.identity.isAdmin, asked.writes.count > limits.writePlaces {
            retiring.append(item)
            return answer(.failed(.tooManyPlaces(limits.writePlaces)), item)
        }
        guard mayReveal(asked, item) else { return }
        guard isLarge(asked, item) else { return answer(makeNow(asked, client), item) }
        if case .onDisconnect = asked.purpose {
            do throws(Failure) { _ = try pendingBytes(with: asked.writes, client) } catch { return answer(.failed(error), item) }
        }
        prepare(asked, item, tries: limits.preparations)
    }

    /// Whether the write would take the queue for longer than others should wait.
    private func isLarge(_ asked: AskedWrite, _ item: Database.Item) -> Bool {
        if item.size > limits.largeWriteBytes || asked.writes.count > limits.largeWritePlaces { return true }
        if let condition = asked.condition, root.node(at: condition.path).hasHash(condition.hash, within: limits.hashNodes) == nil { return true }
        // A priority is few bytes, and the rules ask about all that is below it.
        var room = limits.largeWritePlaces
        return asked.writes.contains { $0.part == .priority && !root.node(at: $0.path).hasNodes(within: &room) }
    }

    /// Makes a small write on the queue.
    private func makeNow(_ asked: AskedWrite, _ client: Client) -> Reply {
        if case .onDisconnect = asked.purpose { return keep(asked.writes, client) }
        do throws(Failure) {
            return made(asked, sequence: try commit(asked.writes, if: asked.condition, by: client.identity), client)
        } catch { return notMade(asked, error) }
    }

    // MARK: Large writes

    private func prepare(_ asked: AskedWrite, _ item: Database.Item, tries: Int) {
        // Before any work: nothing is stored now.
        do throws(Failure) { try mustTakeWrites() } catch { return answer(.failed(error), item) }
        guard tries > 0 else { return giveUp(asked, item) }
        let isParked = park(item, holding: bytes(of: asked, item), follows: .sinceItsTurn) { [self] in
            // The tree, the rules and the time of its turn: it may have waited for long.
            let (identity, base, rules, now, limit) = (item.client.identity, root, self.rules, clock(), limits.dependencies)
            let (number, next) = (rulesNumber, recent.next)
            return { (PreparedWrite.prepare(asked, identity, on: base, rules, now: now, dependencies: limit), number, next) }
        } then: { [self] (prepared: (PreparedWrite.Outcome, Int, Int)) in
            let (outcome, number, next) = prepared
            guard mayReveal(asked, item) else { return }
            switch outcome {
            case .refused(let failure, let question):
                if let question { note(asked.ruled) { _ in question } }
                answer(notMade(asked, failure), item)
            case .ready(let write):
                if case .onDisconnect = asked.purpose { return answer(keepPermitted(asked.writes, item.client), item) }
                install(write, asked, item, rules: number, since: next, tries: tries)
            }
        }
        if !isParked { answer(.failed(.noRoom), item) }
    }

    /// What a write holds while it is prepared.
    private func bytes(of asked: AskedWrite, _ item: Database.Item) -> Int { item.size + asked.writes.count * Self.bytesOfPlace }

    /// What a prepared write holds for each of its places: its operation, its mark, its place in the tree.
    private static let bytesOfPlace = 128

    /// Whether the client may still read what the answer tells, or tells whether it has guessed; else it is answered.
    private func mayReveal(_ asked: AskedWrite, _ item: Database.Item) -> Bool {
        guard let place = asked.revealed, !allowsRead(place, nil, item.client) else { return true }
        answer(.failed(.permissionDenied), item)
        return false
    }

    private func install(_ write: PreparedWrite, _ asked: AskedWrite, _ item: Database.Item, rules number: Int, since first: Int, tries: Int) {
        guard number == rulesNumber, let others = recent.since(first) else { return prepareAgain(asked, item, tries) }
        var write = write
        guard others.count > limits.followedPlaces, tries > 1 else {
            counters.followedPlaces += others.count
            guard write.follow(root, others) else { return prepareAgain(asked, item, tries) }
            return answer(install(write, asked, item.client), item)
        }
        // Others wrote much meanwhile. Each turn takes a part of the time that the one before took.
        let isParked = park(item, holding: bytes(of: asked, item), follows: .sinceNow) { [self, write] in
            // Unknown by now: nothing can be taken over.
            let (now, others, next) = (root, recent.since(first), recent.next)
            return {
                var write = write
                return others.map { write.follow(now, $0) } == true ? (write, next) : nil
            }
        } then: { [self] (followed: (PreparedWrite, Int)?) in
            guard mayReveal(asked, item) else { return }
            guard let (followed, next) = followed else { return prepareAgain(asked, item, tries) }
            install(followed, asked, item, rules: number, since: next, tries: tries - 1)
        }
        if !isParked { answer(.failed(.noRoom), item) }
    }

    private func prepareAgain(_ asked: AskedWrite, _ item: Database.Item, _ tries: Int) {
        counters.preparedAgain += 1
        prepare(asked, item, tries: tries - 1)
    }

    /// Others were faster each time. What is not much larger than small is made on the queue.
    private func giveUp(_ asked: AskedWrite, _ item: Database.Item) {
        guard item.size <= limits.largeWriteBytes * 2, asked.writes.count <= limits.largeWritePlaces * 2 else {
            return answer(.failed(.overtaken), item)
        }
        answer(makeNow(asked, item.client), item)
    }

    /// Makes a prepared write: O(depth), and what its observers need.
    private func install(_ write: PreparedWrite, _ asked: AskedWrite, _ client: Client) -> Reply {
        do throws(Failure) { try mustTakeWrites() } catch { return notMade(asked, error) }
        let old = root
        root = write.candidate
        retiring.append(old)
        sequence += 1
        counters.commits += 1
        counters.prepared += 1
        commits.append(Commit(sequence: sequence, operations: write.operations, pending: []))
        if write.operations.count <= limits.followedPlaces { recent.note(write.operations.lazy.map(\.path)) } else { recent.note([write.common]) }
        recheckDependents(of: [write.common], old: old)
        if observers.hasAny(around: write.common) { fanOut(write.changed, old: old, areCompared: true) }
        return made(asked, sequence: sequence, client, write.operations)
    }

    // MARK: Answers

    /// - Parameter operations: of a prepared write; nil to look at the tree.
    private func made(_ asked: AskedWrite, sequence: UInt64, _ client: Client, _ operations: [TreeWrite.Operation]? = nil) -> Reply {
        switch asked.purpose {
        case .write: return .written(sequence: sequence)
        case .push(let key): return .pushed(key, sequence: sequence)
        case .onDisconnect: return .done
        case .exchange(let exchange, let key):
            var outcome = Exchanged()
            outcome.key = key
            if exchange.wantsContent { outcome.content = root.node(at: exchange.path) }
            let isComputed = asked.writes.contains { !$0.value.deferred.isEmpty }
            if !isComputed || mayRead(exchange.path, nil, client) {
                outcome.written = operations?.map(\.value) ?? asked.writes.map { write in
                    let node = root.node(at: write.path)
                    return write.part == .node ? node : node.priority
                }
            }
            return .exchanged(outcome)
        }
    }

    private func notMade(_ asked: AskedWrite, _ failure: Failure) -> Reply {
        guard failure.code == .dataStale, case .exchange(let exchange, let key) = asked.purpose else { return .failed(failure) }
        var outcome = Exchanged()
        outcome.key = key
        outcome.isStale = true
        outcome.content = root.node(at: exchange.path)
        return .exchanged(outcome)
    }
}

extension Failure {
    static func tooManyPlaces(_ limit: Int) -> Failure { Failure(.tooBig, "At most \(limit) places may be written at once.") }
}
