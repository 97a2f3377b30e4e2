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
            identify(client, as: identity)
            answer(.identified(identity), item)
            recheckObservers(of: client)
        case .signOut:
            identify(client, as: .anonymous)
            answer(.done, item)
            recheckObservers(of: client)
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
            answer(get(path, query, client), item)
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
        case .answer(let bytes):
            send(bytes, item)
        case .mark(let bytes): output.mark(client, bytes)
        case .congested, .drained: break
        }
    }

    func answer(_ reply: Reply, _ item: Database.Item) {
        let leaves = leavesEarly(reply, item)
        if departure == .muted { return }
        if item.client.dialect == .rest { return leaves ? early.reply(reply, to: item.client) : output.reply(reply, to: item.client) }
        if case .value(let node) = reply, isLarge(node) { return answerLater(node, item, leavesEarly: leaves) }
        var bytes = format.reply(reply, to: item.token, dialect: item.client.dialect)
        if case .value = reply, bytes.count > limits.readBytes {
            bytes = format.reply(.failed(.readTooBig), to: item.token, dialect: item.client.dialect)
        }
        leaves ? early.send(bytes, to: item.client) : output.send(bytes, to: item.client)
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
        for observation in client.observations { remove(observation, of: client) }
        leave(client)
        note(.ended(client, wasNamed: id != nil))
    }

    // MARK: Reading

    func get(_ path: Path, _ query: TreeQuery?, _ client: Client) -> Reply {
        guard allowsRead(path, query, client) else { return .failed(.permissionDenied) }
        let node = root.node(at: path)
        guard let query else { return .value(node) }
        let ordering = query.orderedBy
        guard !lacksIndex(ordering, path) else { return .failed(.missingIndex(ordering, path)) }
        if ordering == .key { return .value(TreeQuery.value(of: query.select(from: .byKey(node.object?.children ?? ChildMap())), in: node)) }
        // An index that live queries keep is used; else one is made for this answer.
        let children = observers.existingPlace(at: path)?.existingIndex(ordering) ?? OrderedIndex(ordering, of: node)
        return .value(TreeQuery.value(of: query.select(from: .indexed(children)), in: node))
    }

    /// Whether an order needs an index that no rule declares; key and priority order need none (contract §3.4).
    private func lacksIndex(_ ordering: TreeQuery.Index, _ path: Path) -> Bool {
        switch ordering {
        case .key, .priority: false
        case .value, .child: !rules.indexes(at: path).contains(ordering.text)
        }
    }

    // MARK: Observers

    private func observe(_ observation: Observation, hash: String, _ item: Database.Item) {
        let client = item.client
        let (path, style) = (observation.path, observation.style)
        if case .events(let id, _) = style, client.observations[id] != nil {
            return answer(.failed(Failure(.duplicateObserver, "An observer has the id \(id) already.")), item)
        }
        guard permits(observation, of: client) else {
            note(.listen) { question(path, observation.query, client.identity.auth, now: $0) }
            // Asked for again: a client that is refused takes it for gone (contract §2.4).
            remove(observation, of: client)
            return answer(.failed(.permissionDenied), item)
        }
        let unindexed = observation.query.map { lacksIndex($0.orderedBy, path) } ?? false
        // REST has no way to say so beside the data (contract §3.4).
        if unindexed, case .stream = style, let query = observation.query {
            remove(observation, of: client)
            return answer(.failed(.missingIndex(query.orderedBy, path)), item)
        }
        let place = observers.place(at: path)
        var node = root.node(at: path)
        let view = place.view(observation.query, over: node, lanes: laneCount)
        view.add(client, style: style)
        if client.observations.insert(observation) { note(.observed(client, observation)) }
        if let window = view.window {
            node = TreeQuery.value(of: window.selection(over: place.children(of: node, by: window.query.orderedBy)), in: node)
        }
        let reply = Reply.observing(sequence: sequence, lacksIndex: unindexed)
        if isLarge(node) { return beginLater(observation, node, hash, reply, item) }
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

    func remove(_ observation: Observation, of client: Client) {
        readDependencies.set([], for: observation, of: client)
        if client.observations.remove(observation) { note(.unobserved(client, observation)) }
        client.lag?.forget(observation)
        guard let place = observers.existingPlace(at: observation.path), let view = place.existingView(observation.query) else { return }
        view.remove(client, style: observation.style)
        guard view.isEmpty else { return }
        place.removeView(observation.query)
        observers.prune(observation.path)
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

extension Failure {
    /// Contract §7.5.
    static let readTooBig = Failure(.tooBig, "The specified payload is too large, please request a location with less data.")

    static func missingIndex(_ ordering: TreeQuery.Index, _ path: Path) -> Failure {
        Failure(.failure, "Index not defined, add \".indexOn\": \"\(ordering.text)\", for path \"\(path)\", to the rules")
    }
}
