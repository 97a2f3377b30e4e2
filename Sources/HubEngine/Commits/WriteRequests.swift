import JSONTree

/// Writes as they are asked for. A small one is decided and made at once; a large one is prepared off the queue and made when
/// nothing has changed that it rests on (`PreparedWrite`).
///
/// ```
/// asked ── small ──► commit ──► answer
///   └── large ──► parked: prepared on the tree of now ──► what others wrote taken over ──► made ──► answer
///                   ▲            still much of it: taken over in the background ┘ │
///                   └── they wrote what it rests on ◄──────────────────────────────┘
/// ```
/// Confined to the database queue.
final class WriteRequests: @unchecked Sendable {
    // Sendable: background work only hops back to the queue with it.
    private let context: EngineContext
    private let content: Content
    private let batch: Batch
    private let log: LogGuard
    private let commits: CommitLine
    private let disconnects: DisconnectWrites
    private let permissions: ReadPermissions
    private let parking: Parking
    private let answers: Answers
    private let refusals: RefusalReports
    private var pushIDs = PushIDGenerator()

    init(
        _ context: EngineContext, _ content: Content, _ batch: Batch, _ log: LogGuard, _ commits: CommitLine,
        _ disconnects: DisconnectWrites, _ permissions: ReadPermissions, _ parking: Parking, _ answers: Answers, _ refusals: RefusalReports
    ) {
        self.context = context
        self.content = content
        self.batch = batch
        self.log = log
        self.commits = commits
        self.disconnects = disconnects
        self.permissions = permissions
        self.parking = parking
        self.answers = answers
        self.refusals = refusals
    }

    private var limits: EngineLimits { context.limits }

    // MARK: Requests

    /// Adds a child under a key that is made here.
    func push(_ path: Path, _ value: WriteValue, _ item: Database.Item) {
        let key = pushIDs.next(now: context.clock())
        write(AskedWrite([TreeWrite(path.appending(key), value)], .push(key)), item)
    }

    /// A write of REST (contract §7).
    func exchange(_ exchange: Exchange, _ writes: [TreeWrite], _ item: Database.Item) {
        write(AskedWrite(writes, if: exchange.condition, .exchange(exchange, key: nil)), item)
    }

    func exchange(_ exchange: Exchange, push value: WriteValue, _ item: Database.Item) {
        let key = pushIDs.next(now: context.clock())
        write(AskedWrite([TreeWrite(exchange.path.appending(key), value)], if: exchange.condition, .exchange(exchange, key: key)), item)
    }

    /// Carries out a write and answers it, at once or later.
    func write(_ asked: AskedWrite, _ item: Database.Item) {
        let client = item.client
        if !client.identity.isAdmin, asked.writes.count > limits.writePlaces {
            batch.retire(item)
            return answers.answer(.failed(.tooManyPlaces(limits.writePlaces)), item)
        }
        guard mayReveal(asked, item) else { return }
        guard isLarge(asked, item) else { return answers.answer(makeNow(asked, client), item) }
        if case .onDisconnect = asked.purpose {
            do throws(Failure) { _ = try disconnects.bytes(with: asked.writes, client) } catch { return answers.answer(.failed(error), item) }
        }
        prepare(asked, item, tries: limits.preparations)
    }

    /// Whether the write would take the queue for longer than others should wait.
    private func isLarge(_ asked: AskedWrite, _ item: Database.Item) -> Bool {
        if item.size > limits.largeWriteBytes || asked.writes.count > limits.largeWritePlaces { return true }
        if let condition = asked.condition, content.root.node(at: condition.path).hasHash(condition.hash, within: limits.hashNodes) == nil {
            return true
        }
        // A priority is few bytes, and the rules ask about all that is below it.
        var room = limits.largeWritePlaces
        return asked.writes.contains { $0.part == .priority && !content.root.node(at: $0.path).hasNodes(within: &room) }
    }

    /// Makes a small write on the queue.
    private func makeNow(_ asked: AskedWrite, _ client: Client) -> Reply {
        if case .onDisconnect = asked.purpose { return disconnects.keep(asked.writes, client) }
        do throws(Failure) {
            return made(asked, sequence: try commits.commit(asked.writes, if: asked.condition, by: asked.origin(client)), client)
        } catch { return notMade(asked, error) }
    }

    // MARK: Large writes

    private func prepare(_ asked: AskedWrite, _ item: Database.Item, tries: Int) {
        // Before any work: nothing is stored now.
        do throws(Failure) { try log.mustTakeWrites() } catch { return answers.answer(.failed(error), item) }
        guard tries > 0 else { return giveUp(asked, item) }
        let isParked = parking.park(item, holding: bytes(of: asked, item), follows: .sinceItsTurn) { [self] in
            // The tree, the rules and the time of its turn: it may have waited for long.
            let permission = WritePermission(rules: content.rules, origin: asked.origin(item.client))
            let (base, now, limit) = (content.root, context.clock(), limits.dependencies)
            let (number, sequence) = (content.rulesNumber, content.sequence)
            return { (PreparedWrite.prepare(asked, permission, on: base, now: now, dependencies: limit), number, sequence) }
        } then: { [self] (prepared: (PreparedWrite.Outcome, Int, UInt64)) in
            let (outcome, number, sequence) = prepared
            guard mayReveal(asked, item) else { return }
            switch outcome {
            case .refused(let failure, let question):
                if let question { refusals.report(asked.ruled) { _ in question } }
                answers.answer(notMade(asked, failure), item)
            case .ready(let write):
                if case .onDisconnect = asked.purpose { return answers.answer(disconnects.keepPermitted(asked.writes, item.client), item) }
                install(write, asked, item, rules: number, since: sequence, tries: tries)
            }
        }
        if !isParked { answers.answer(.failed(.noRoom), item) }
    }

    /// What a write holds while it is prepared.
    private func bytes(of asked: AskedWrite, _ item: Database.Item) -> Int { item.size + asked.writes.count * Self.bytesOfPlace }

    /// What a prepared write holds for each of its places: its operation, its mark, its place in the tree.
    private static let bytesOfPlace = 128

    /// Whether the client may still read what the answer tells, or confirms a guess of; else it is answered.
    private func mayReveal(_ asked: AskedWrite, _ item: Database.Item) -> Bool {
        guard let place = asked.revealed, !permissions.allowsRead(place, nil, item.client) else { return true }
        answers.answer(.failed(.permissionDenied), item)
        return false
    }

    /// - Parameters:
    ///   - number: of the rules that it was decided by.
    ///   - sequence: the last commit in the tree that it was prepared on.
    private func install(
        _ write: PreparedWrite, _ asked: AskedWrite, _ item: Database.Item, rules number: Int, since sequence: UInt64, tries: Int
    ) {
        guard number == content.rulesNumber, let others = commits.recent.places(since: sequence) else {
            return prepareAgain(asked, item, tries)
        }
        var write = write
        guard others.count > limits.followedPlaces, tries > 1 else {
            context.meter.counters.followedPlaces += others.count
            guard write.follow(content.root, others) else { return prepareAgain(asked, item, tries) }
            return answers.answer(make(write, asked, item.client), item)
        }
        // Others wrote much meanwhile. Each turn takes a part of the time that the one before took.
        let isParked = parking.park(item, holding: bytes(of: asked, item), follows: .sinceNow) { [self, write] in
            // Unknown by now: nothing can be taken over.
            let (root, others, last) = (content.root, commits.recent.places(since: sequence), content.sequence)
            return {
                var write = write
                return others.map { write.follow(root, $0) } == true ? (write, last) : nil
            }
        } then: { [self] (followed: (PreparedWrite, UInt64)?) in
            guard mayReveal(asked, item) else { return }
            guard let (followed, last) = followed else { return prepareAgain(asked, item, tries) }
            install(followed, asked, item, rules: number, since: last, tries: tries - 1)
        }
        if !isParked { answers.answer(.failed(.noRoom), item) }
    }

    private func prepareAgain(_ asked: AskedWrite, _ item: Database.Item, _ tries: Int) {
        context.meter.counters.preparedAgain += 1
        prepare(asked, item, tries: tries - 1)
    }

    /// Others were faster each time. What is not much larger than small is made on the queue.
    private func giveUp(_ asked: AskedWrite, _ item: Database.Item) {
        guard item.size <= limits.largeWriteBytes * 2, asked.writes.count <= limits.largeWritePlaces * 2 else {
            return answers.answer(.failed(.overtaken), item)
        }
        answers.answer(makeNow(asked, item.client), item)
    }

    /// Makes a prepared write: O(depth), and what its observers need.
    private func make(_ write: PreparedWrite, _ asked: AskedWrite, _ client: Client) -> Reply {
        do throws(Failure) {
            return made(asked, sequence: try commits.commit(write, by: asked.origin(client)), client, write.operations)
        } catch { return notMade(asked, error) }
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
            if exchange.wantsContent { outcome.content = content.root.node(at: exchange.path) }
            let isComputed = asked.writes.contains { !$0.value.deferred.isEmpty }
            if !isComputed || permissions.mayRead(exchange.path, nil, client, in: content.root) {
                outcome.written = operations?.map(\.value) ?? asked.writes.map { write in
                    let node = content.root.node(at: write.path)
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
        outcome.content = content.root.node(at: exchange.path)
        return .exchanged(outcome)
    }
}

extension Exchange {
    fileprivate var condition: Condition? { ifHash.map { Condition(path, hash: $0) } }
}

extension Failure {
    static func tooManyPlaces(_ limit: Int) -> Failure { Failure(.tooBig, "At most \(limit) places may be written at once.") }
    /// A large write that was prepared again and again, and never on what was stored in the end.
    static let overtaken = Failure(
        .unavailable, "Others kept changing what this large write depends on. Nothing of it was stored; try again.")
    static let noRoom = Failure(
        .unavailable, "The server has no memory left for a write of this size at the moment. Nothing of it was stored; try again.")
}
