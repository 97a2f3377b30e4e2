internal import JSONTree
internal import LiveQueries
internal import WireProtocols

/// The open requests and observers of a client, across reconnects. Pure: no sockets, no clock, no queue.
///
/// ```
///            connected: sent at once, kept in `unanswered`           disconnected: in `waiting`, in the order of the calls
/// opened ──► credential ─► observers sent before, from their last position (`since`) ─► `waiting`
/// lost   ──► `unanswered` fails with `.connectionLost`; credential and observers stay, their incomplete events are dropped
/// ```
/// Events of a commit are held until the last one has arrived and then reported together. So the reported state always is one that some commit left.
///
/// The number of an observe request is the observer's for good: a new connection begins with no numbers in use.
struct ObserveClientState {
    typealias Done = @Sendable (Result<ObserveSuccess, ClientError>) -> Void
    typealias Handler = @Sendable (Observation) -> Void

    enum Action {
        case send(ObserveRequest)
        case answer(Done, Result<ObserveSuccess, ClientError>)
        case notify(Handler, Observation)
        /// Notifies a handler in this order, unless it ends the observer meanwhile.
        case notifyObserver(Int64, Handler, [Observation])
        case credentialRefused(ObserveFailure)
        /// The hub violated the protocol: end the connection.
        case giveUp(String)
    }

    private enum Unanswered {
        case request(Done?)
        case credential(String, Done?)
        case observe
        /// A move of this observer, which had this query before.
        case move(Int64, Query, Done?)
    }

    private enum Waiting {
        case request(ObserveRequest, Done?)
        case observe(Int64)
    }

    private struct Credential {
        let token: String
        /// The callback that waits for the uid.
        var done: Done?
    }

    private var isUp = false
    private var closedWith: ClientError?
    private var credential: Credential?
    private var observers: [Int64: ObserverState] = [:]
    /// Observers of the previous connection, in the order of the calls; empty while connected.
    private var restoring: [Int64] = []
    private var unanswered: [Int64: Unanswered] = [:]
    private var waiting: [Waiting] = []

    // MARK: calls of the program

    mutating func ask(_ request: ObserveRequest, _ done: Done?) -> [Action] {
        if let closedWith { return done.map { [.answer($0, .failure(closedWith))] } ?? [] }
        guard isUp else {
            waiting.append(.request(request, done))
            return []
        }
        unanswered[request.id] = .request(done)
        return [.send(request)]
    }

    mutating func authenticate(_ id: Int64, _ token: String, _ done: Done?) -> [Action] {
        if let closedWith { return done.map { [.answer($0, .failure(closedWith))] } ?? [] }
        let superseded = credential?.done
        credential = Credential(token: token, done: isUp ? nil : done)
        if isUp {
            unanswered[id] = .credential(token, done)
            return [.send(ObserveRequest(id: id, .auth(token: token)))]
        }
        return superseded.map { [.answer($0, .failure(.superseded))] } ?? []
    }

    mutating func observe(_ id: Int64, _ observed: ObserverState) -> [Action] {
        if let closedWith { return [.notify(observed.handler, .ended(closedWith))] }
        observers[id] = observed
        guard isUp else {
            waiting.append(.observe(id))
            return []
        }
        return begin(id).map { [$0] } ?? []
    }

    mutating func unobserve(_ id: Int64, _ observer: Int64) -> [Action] {
        guard observers.removeValue(forKey: observer) != nil, isUp else { return [] }
        unanswered[id] = .request(nil)
        return [.send(ObserveRequest(id: id, .unobserve(sub: observer)))]
    }

    /// Moves the centre of an observer's circle, or changes its region. Without a connection the observer begins again with the new one.
    mutating func move(_ id: Int64, _ observer: Int64, to target: QueryMove, _ done: Done?) -> [Action] {
        if let closedWith { return done.map { [.answer($0, .failure(closedWith))] } ?? [] }
        guard let before = observers[observer]?.query else {
            let failure = ObserveFailure(code: ObserveCode.unknownSub.rawValue, message: "There is no such observer, or it has no area.")
            return done.map { [.answer($0, .failure(.refused(failure)))] } ?? []
        }
        observers[observer]?.moved(to: target)
        guard isUp else { return done.map { [.answer($0, .success(ObserveSuccess()))] } ?? [] }
        unanswered[id] = .move(observer, before, done)
        return [.send(ObserveRequest(id: id, .move(sub: observer, to: target)))]
    }

    func lacksIndex(_ id: Int64) -> Bool { observers[id]?.lacksIndex ?? false }

    /// Whether an observer is still active.
    func isObserving(_ id: Int64) -> Bool { observers[id] != nil }

    private mutating func begin(_ id: Int64) -> Action? {
        guard let request = observers[id]?.begin() else { return nil }
        unanswered[id] = .observe
        return .send(ObserveRequest(id: id, request))
    }

    // MARK: events of the connection

    mutating func opened() -> [Action] {
        isUp = true
        var actions: [Action] = []
        if let credential {
            // No call uses the number 0.
            unanswered[0] = .credential(credential.token, credential.done)
            self.credential?.done = nil
            actions.append(.send(ObserveRequest(id: 0, .auth(token: credential.token))))
        }
        for id in restoring {
            if let action = begin(id) { actions.append(action) }
        }
        for item in waiting {
            switch item {
            case .request(let request, let done):
                unanswered[request.id] = .request(done)
                actions.append(.send(request))
            case .observe(let id): if let action = begin(id) { actions.append(action) }
            }
        }
        restoring = []
        waiting = []
        return actions
    }

    mutating func received(_ message: ObserveMessage) -> Action? {
        switch message {
        case .event(let sub, let seq, let event, let isFollowed):
            guard let observations = observers[sub]?.received(event, seq: seq, isFollowed: isFollowed), !observations.isEmpty,
                let handler = observers[sub]?.handler
            else { return nil }
            return .notifyObserver(sub, handler, observations)
        case .ok(let id, let success):
            switch unanswered.removeValue(forKey: id) {
            case .request(let done), .credential(_, let done): return done.map { .answer($0, .success(success)) }
            case .observe:
                observers[id]?.began(success)
                return nil
            case .move(let sub, _, let done):
                observers[sub]?.hasMoved()
                return done.map { .answer($0, .success(success)) }
            case nil: return .giveUp("an answer to a request that was not made")
            }
        case .failed(let id, let failure):
            guard let id else { return .giveUp(failure.message) }
            switch unanswered.removeValue(forKey: id) {
            case .request(let done): return done.map { .answer($0, .failure(.refused(failure))) }
            case .credential(let token, let done):
                if credential?.token == token { credential = nil }
                return done.map { .answer($0, .failure(.refused(failure))) } ?? .credentialRefused(failure)
            case .observe: return end(id, failure)
            case .move(let sub, let query, let done):
                observers[sub]?.hasMoved(backTo: query)
                return done.map { .answer($0, .failure(.refused(failure))) }
            case nil: return .giveUp("an answer to a request that was not made")
            }
        case .ended(let sub, let failure): return end(sub, failure)
        }
    }

    private mutating func end(_ sub: Int64, _ failure: ObserveFailure) -> Action? {
        observers.removeValue(forKey: sub).map { .notify($0.handler, .ended(.refused(failure))) }
    }

    mutating func lost() -> [Action] {
        isUp = false
        var actions: [Action] = []
        for (_, item) in unanswered.sorted(by: { $0.key < $1.key }) {
            switch item {
            case .request(let done), .move(_, _, let done): if let done { actions.append(.answer(done, .failure(.connectionLost))) }
            case .credential(let token, let done):
                // The credential is sent again, so its answer is still to come.
                if credential?.token == token { credential?.done = done } else if let done {
                    actions.append(.answer(done, .failure(.superseded)))
                }
            case .observe: break
            }
        }
        unanswered = [:]
        let unsent = Set(waiting.compactMap { if case .observe(let id) = $0 { id } else { nil } })
        restoring = observers.keys.filter { !unsent.contains($0) }.sorted()
        return actions
    }

    /// Closes for good: all requests and observers fail with the error.
    mutating func close(_ error: ClientError) -> [Action] {
        guard closedWith == nil else { return [] }
        closedWith = error
        var actions = lost()
        if let done = credential?.done { actions.append(.answer(done, .failure(error))) }
        for case .request(_, let done?) in waiting { actions.append(.answer(done, .failure(error))) }
        for (_, observer) in observers.sorted(by: { $0.key < $1.key }) { actions.append(.notify(observer.handler, .ended(error))) }
        (credential, observers, restoring, waiting) = (nil, [:], [], [])
        return actions
    }
}
