import JSONTree
import SecurityRules
import Synchronization

extension Core {
    /// Carries out one request, unless it has to wait.
    func handle(_ item: Database.Item) {
        // Kept for the case that what ended the client is taken back.
        if item.client.hasEnded { return note(.request(item)) }
        guard !mustWaitBehindParked(item), !mustHold(item) else { return }
        counters.requests += 1
        switch item.request {
        case .congested: suspend(item.client)
        case .drained: catchUp(item.client)
        default:
            departure = .open
            carryOut(item)
            // One that is parked is noted when it is done.
            if item.client.parked == nil { noteDone(item) }
            departure = .withBatch
        }
    }

    /// All requests but those said to be not answered get exactly one answer, at once or when they are no longer parked.
    func carryOut(_ item: Database.Item) {
        let client = item.client
        defer { probeIfNeeded(client) }
        // A peer that asked for much and left costs no more: its writes count, its reads are for nobody.
        if item.request.isRead, client.isGone.load(ordering: .relaxed) { return }
        switch item.request {
        case .begin(let sessionID, let previous):
            begin(client, sessionID, replacing: previous)
        case .end:
            end(client)
        case .identify(let identity):
            let isAnother = identity != client.identity
            identify(client, as: identity)
            answer(.identified(identity), item)
            if isAnother { changedIdentity(item) }
        case .signOut:
            let isAnother = client.identity != .anonymous
            identify(client, as: .anonymous)
            answer(.done, item)
            if isAnother { changedIdentity(item) }
        case .observe(let path, let query, let style, let hash):
            observe(Observation(path: path, query: query, style: style), hash: hash, item)
        case .unobserve(let path, let style):
            for observation in client.observations.at(path, style: style) { remove(observation, of: client) }
            answer(.done, item)
        case .unobserveID(let id):
            if let observation = client.observations[id] {
                remove(observation, of: client)
                answer(.done, item)
            } else {
                answer(.failed(Failure(.unknownObserver, "No observer has the id \(id).")), item)
            }
        case .get(let path, let query):
            get(path, query, item)
        case .write(let writes, let condition):
            write(AskedWrite(writes, if: condition), item)
        case .push(let path, let value):
            let key = pushIDs.next(now: clock())
            write(AskedWrite([TreeWrite(path.appending(key), value)], .push(key)), item)
        case .exchange(let exchange):
            self.exchange(exchange, item)
        case .onDisconnect(let writes):
            write(AskedWrite(writes, .onDisconnect), item)
        case .cancelOnDisconnect(let path):
            answer(cancelPending(path, of: client), item)
        case .revoke(let notice):
            output.send(notice, to: client)
            end(client)
            output.close(client)
        case .behind(let user): waitBehind(user, item)
        case .answer(let bytes):
            send(bytes, item)
        case .mark(let bytes): output.mark(client, bytes)
        case .congested, .drained: break
        }
    }

    /// - Parameter hold: holds the reply's value in the budget until it is written down; nil for what is shared with the tree.
    func answer(_ reply: Reply, _ item: Database.Item, holding hold: MemoryLease? = nil) {
        let leaves = leavesEarly(reply, item)
        if departure == .muted { return }
        if item.client.dialect == .rest { return leaves ? early.reply(reply, to: item.client) : output.reply(reply, to: item.client) }
        if case .value(let node) = reply, isLarge(node) { return answerLater(node, item, holding: hold, leavesEarly: leaves) }
        var bytes = format.reply(reply, to: item.token, dialect: item.client.dialect)
        if case .value = reply, bytes.count > limits.readBytes {
            bytes = format.reply(.failed(.readTooBig), to: item.token, dialect: item.client.dialect)
        }
        leaves ? early.send(bytes, to: item.client) : output.send(bytes, to: item.client)
    }

    /// Who has many observers gives way to others after they were asked about, before its next request.
    private func changedIdentity(_ item: Database.Item) {
        let isLong = item.client.observations.count > limits.removalsAtOnce
        recheckObservers(of: item.client)
        if isLong { giveWay(item) }
    }

    func allowsRead(_ path: Path, _ query: TreeQuery?, _ client: Client) -> Bool {
        if mayRead(path, query, client) { return true }
        note(.get) { question(path, query, client.identity.auth, now: $0) }
        return false
    }

    /// The same for a decision that refuses nothing.
    func mayRead(_ path: Path, _ query: TreeQuery?, _ client: Client) -> Bool { mayRead(path, query, client, in: root) }

    func mayRead(_ path: Path, _ query: TreeQuery?, _ client: Client, in root: Node) -> Bool {
        client.identity.isAdmin
            || rules.allowsRead(path, root: root, auth: client.identity.auth, now: clock(), query: query.map(QueryVariables.init) ?? .none)
    }

    // MARK: Sessions

    private func begin(_ client: Client, _ sessionID: String, replacing previous: String?) {
        if let previous, let old = sessions[previous], old !== client {
            end(old)
            output.close(old)
        }
        note(.named(client, sessionID, before: sessions[sessionID]))
        client.sessionID = sessionID
        sessions[sessionID] = client
    }

    /// Ends a session: no observer of it is left and its pending writes are committed as one (contract §6.2).
    func end(_ client: Client) {
        client.hasEnded = true
        stopLagging(client)
        let id = client.sessionID.flatMap { sessions[$0] === client ? $0 : nil }
        if let id { sessions[id] = nil }
        // A few go first, so that what the client leaves behind is written for fewer; many have time.
        if client.observations.count <= limits.removalsAtOnce { removeObservers(of: client) }
        leave(client)
        if client.observations.count > 0 { removeObservers(of: client) }
        note(.ended(client, wasNamed: id != nil))
    }

    // MARK: Observers

    private func observe(_ observation: Observation, hash: String, _ item: Database.Item) {
        let client = item.client
        let (path, style) = (observation.path, observation.style)
        if case .events(let id, _) = style, client.observations[id] != nil {
            return answer(.failed(Failure(.duplicateObserver, "An observer has the id \(id) already.")), item)
        }
        if isTooLong(observation.query) { return refuse(observation, .queryTooLong(limits.queryBytes), item) }
        guard mayObserve(observation, item) else { return }
        if !client.observations.contains(observation), let failure = refusal(of: observation, of: client) { return refuse(observation, failure, item) }
        guard let query = observation.query else { return establish(observation, nil, hash: hash, item) }
        // REST has no way to say so beside the data (contract §3.4).
        if case .stream = style, lacksIndex(query.orderedBy, path) { return refuse(observation, .missingIndex(query.orderedBy, path), item) }
        select(query, at: path, for: item, mustKeep: true) { [self] result, isLater in
            if isLater {
                if client.isGone.load(ordering: .relaxed) { return }
                guard mayObserve(observation, item) else { return }
            }
            switch result {
            case .success(let selection): establish(observation, selection, hash: hash, item)
            case .failure(let failure): refuse(observation, failure, item)
            }
        }
        // Until it is there, nothing can be taken from it.
        if client.parked != nil, !client.observations.contains(observation) { readDependencies.set([], for: observation, of: client) }
    }

    func isTooLong(_ query: TreeQuery?) -> Bool { query.map { $0.textBytes > limits.queryBytes } ?? false }

    /// Whether the rules permit the observer; else the request is answered.
    private func mayObserve(_ observation: Observation, _ item: Database.Item) -> Bool {
        if permits(observation, of: item.client) { return true }
        note(.listen) { question(observation.path, observation.query, item.client.identity.auth, now: $0) }
        refuse(observation, .permissionDenied, item)
        return false
    }

    /// Also of one that is asked for again: a client that is refused takes it for gone (contract §2.4).
    private func refuse(_ observation: Observation, _ failure: Failure, _ item: Database.Item) {
        remove(observation, of: item.client)
        answer(.failed(failure), item)
    }

    /// - Parameter selection: what the observer's query shows now.
    private func establish(_ observation: Observation, _ selection: Selection?, hash: String, _ item: Database.Item) {
        let client = item.client
        let (path, style) = (observation.path, observation.style)
        let unindexed = observation.query.map { lacksIndex($0.orderedBy, path) } ?? false
        let node = selection?.value ?? root.node(at: path)
        let view = observers.place(at: path).view(observation.query, lanes: laneCount, window: selection?.window)
        view.add(client, style: style)
        insert(observation, of: client)
        counters.listens = listens.total
        let reply = Reply.observing(sequence: sequence, lacksIndex: unindexed)
        if isLarge(node) { return beginLater(observation, node, hash, reply, item, holding: selection?.hold) }
        let first = mustSend(node, hash, style) ? format.initial(node, at: path, style: style, sequence: sequence) : []
        guard first.count <= limits.readBytes else {
            remove(observation, of: client)
            return answer(.failed(.readTooBig), item)
        }
        switch style {
        case .patches:
            // Data first: the ok is what makes the client's view complete (contract §2.5 rule 2).
            output.send(first, to: client)
            answer(reply, item)
        case .events, .stream:
            answer(reply, item)
            output.send(first, to: client)
        }
    }

    /// Whether a realtime client lacks the content: one that holds the same already is not sent it again.
    private func mustSend(_ node: Node, _ hash: String, _ style: ObserverStyle) -> Bool {
        guard case .patches = style else { return true }
        return hash.isEmpty ? node.exists : node.hash != hash
    }
}

extension QueryVariables {
    /// What rules see of a query (rules language §11).
    init(_ query: TreeQuery) {
        self.init()
        switch query.orderedBy {
        case .key: orderByKey = true
        case .value: orderByValue = true
        case .priority: orderByPriority = true
        case .child(let path): orderByChild = path.relativeText
        }
        if let start = query.start, start == query.end {
            equalTo = start.value
        } else {
            startAt = query.start?.value
            endAt = query.end?.value
        }
        switch query.keeps {
        case .first: limitToFirst = query.limit
        case .last: limitToLast = query.limit
        }
    }
}

extension TreeQuery {
    /// Bytes of its bounds and order as text. O(levels of the order)
    fileprivate var textBytes: Int {
        var bytes = 0
        for case let bound? in [start, end] {
            if case .string(let text) = bound.value.leaf { bytes += text.utf8Count }
            bytes += bound.key?.text.utf8Count ?? 0
        }
        if case .child(let path)? = index { bytes += path.keys.reduce(0) { $0 + $1.text.utf8Count + 1 } }
        return bytes
    }
}

extension Failure {
    static func queryTooLong(_ limit: Int) -> Failure { Failure(.tooBig, "The bounds and the order of a query may have \(limit) bytes together.") }

    /// Contract §7.5.
    static let readTooBig = Failure(.tooBig, "The specified payload is too large, please request a location with less data.")
}
