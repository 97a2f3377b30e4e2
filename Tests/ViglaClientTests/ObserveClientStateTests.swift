import JSONTree
import LiveQueries
import Testing
import WireProtocols

@testable import ViglaClient

/// The requests and events of a client, without a connection.
@Suite(.timeLimit(.minutes(30))) struct ObserveClientStateTests {
    private var state = ObserveClientState()
    private let recorder = LineRecorder()

    @Test mutating func request_waitsUntilOpened_andIsThenSentOnce() {
        #expect(sent(state.ask(ObserveRequest(id: 5, .ping), nil)) == [])
        #expect(sent(state.opened()) == [ObserveRequest(id: 5, .ping)])
        #expect(sent(state.lost()) == [])
        #expect(sent(state.opened()) == [])
    }

    @Test mutating func sentRequest_failsWhenTheConnectionIsLost() {
        _ = state.opened()
        _ = state.ask(ObserveRequest(id: 1, .get(path: "a")), recorder.done("get"))
        #expect(run(state.lost()) == ["get failed connectionLost"])
    }

    @Test mutating func unsentRequest_survivesALoss() {
        _ = state.opened()
        _ = state.lost()
        _ = state.ask(ObserveRequest(id: 1, .get(path: "a")), recorder.done("get"))
        #expect(run(state.lost()) == [])
        #expect(sent(state.opened()) == [ObserveRequest(id: 1, .get(path: "a"))])
        #expect(run(state.received(.ok(id: 1, ObserveSuccess(seq: 3)))) == ["get ok 3"])
    }

    /// An observer of `a` that has received commit 1 of the epoch `e`, and has lost its connection.
    private mutating func lostObserver(_ events: ObserveEvents = .value, query: Query? = nil) {
        _ = state.opened()
        _ = state.observe(7, ObserverState("a", events, query: query, recorder.handler("a")))
        _ = state.received(.ok(id: 7, ObserveSuccess(seq: 1, epoch: "e")))
        _ = run(state.received(.event(sub: 7, seq: 1, events.contains(.value) ? .value(1) : .ready)))
    }

    @Test mutating func observer_goesOnWhereItWas_underItsNumber() {
        lostObserver()
        #expect(run(state.lost()) == [])
        let since = ObserveSince.after(epoch: "e", seq: 1)
        #expect(sent(state.opened()) == [ObserveRequest(id: 7, .observe(path: "a", events: .value, since: since))])
        #expect(run(state.received(.ok(id: 7, ObserveSuccess(seq: 3, epoch: "e")))) == [])
        #expect(run(state.received(.event(sub: 7, seq: 2, .value(2)))) == ["a value 2"])
    }

    @Test mutating func reset_isToldWithTheFirstOfWhatFollows_orForgotten() {
        lostObserver()
        for _ in 0..<2 {
            _ = state.lost()
            // It resumes after the last events it got, not after a reset without events.
            let since = ObserveSince.after(epoch: "e", seq: 1)
            #expect(sent(state.opened()) == [ObserveRequest(id: 7, .observe(path: "a", events: .value, since: since))])
            #expect(run(state.received(.ok(id: 7, ObserveSuccess(seq: 9, epoch: "f", isReset: true)))) == [])
        }
        #expect(run(state.received(.event(sub: 7, seq: 9, .value(2)))) == ["a reset 9", "a value 2"])
        _ = state.lost()
        let since = ObserveSince.after(epoch: "f", seq: 9)
        #expect(sent(state.opened()) == [ObserveRequest(id: 7, .observe(path: "a", events: .value, since: since))])
    }

    @Test mutating func eventsOfACommit_areToldTogether_orNotAtAll() {
        lostObserver(.children)
        let added = ObserveEvent.added(key: "b", value: 1, prev: nil)
        #expect(run(state.received(.event(sub: 7, seq: 2, added, isFollowed: true))) == [])
        _ = state.lost()
        let since = ObserveSince.after(epoch: "e", seq: 1)
        #expect(sent(state.opened()) == [ObserveRequest(id: 7, .observe(path: "a", events: [.children, .ready], since: since))])
        #expect(run(state.received(.event(sub: 7, seq: 2, added, isFollowed: true))) == [])
        #expect(run(state.received(.event(sub: 7, seq: 2, .removed(key: "c", value: 2)))).count == 2)
    }

    @Test mutating func readyIsAskedFor_andToldOnlyToThoseWhoAsked() {
        lostObserver(.children)
        #expect(run(state.received(.event(sub: 7, seq: 2, .ready))) == [])
        _ = state.observe(8, ObserverState("a", [.added, .ready], recorder.handler("b")))
        #expect(run(state.received(.event(sub: 8, seq: 2, .ready))) == ["b ready"])
    }

    @Test mutating func observerEndedByItsHandler_hearsNoMoreOfTheCommit() {
        lostObserver(.children)
        _ = state.received(.event(sub: 7, seq: 2, .added(key: "b", value: 1, prev: nil), isFollowed: true))
        guard case .notifyObserver(let id, _, let observations) = state.received(.event(sub: 7, seq: 2, .removed(key: "c", value: 2))) else {
            Issue.record("nothing is told")
            return
        }
        #expect(observations.count == 2 && state.isObserving(id))
        _ = state.unobserve(9, id)
        #expect(!state.isObserving(id))
    }

    @Test mutating func observerThatWasNotTold_beginsWithoutAReset() {
        _ = state.observe(7, ObserverState("a", .value, recorder.handler("a")))
        _ = state.opened()
        _ = state.lost()
        #expect(sent(state.opened()) == [ObserveRequest(id: 7, .observe(path: "a", events: .value, since: .now))])
        _ = state.received(.ok(id: 7, ObserveSuccess(seq: 9, epoch: "f")))
        #expect(run(state.received(.event(sub: 7, seq: 9, .value(2)))) == ["a value 2"])
    }

    private static func around(_ latitude: Double) throws -> (query: Query, centre: GeoPoint) {
        let centre = try #require(GeoPoint(latitude: latitude, longitude: 23))
        let near = NearQuery(centre: centre, metres: 1000, limit: nil)
        return (try Query(TreeQuery(index: nil), where: .all, near: near), centre)
    }

    /// It is unknown whether the hub has moved the circle, so the observer starts from scratch at its new place.
    @Test mutating func moveWithoutAnAnswer_beginsTheObserverAnew() throws {
        let (before, after) = (try Self.around(37), try Self.around(38))
        lostObserver(.children, query: before.query)
        #expect(sent(state.move(8, 7, to: .centre(after.centre), recorder.done("move"))) == [ObserveRequest(id: 8, .move(sub: 7, to: .centre(after.centre)))])
        #expect(run(state.lost()) == ["move failed connectionLost"])
        let anew = ObserveOperation.observe(path: "a", events: [.children, .ready], query: after.query, since: .now)
        #expect(sent(state.opened()) == [ObserveRequest(id: 7, anew)])
        _ = state.received(.ok(id: 7, ObserveSuccess(seq: 5, epoch: "e")))
        #expect(run(state.received(.event(sub: 7, seq: 5, .ready))) == ["a reset 5"])
    }

    /// The difference comes after the answer.
    @Test mutating func moveWithoutItsDifference_beginsTheObserverAnew() throws {
        let (before, after) = (try Self.around(37), try Self.around(38))
        lostObserver(.children, query: before.query)
        _ = state.move(8, 7, to: .centre(after.centre), nil)
        _ = state.received(.ok(id: 8, ObserveSuccess(seq: 2)))
        _ = state.lost()
        let anew = ObserveOperation.observe(path: "a", events: [.children, .ready], query: after.query, since: .now)
        #expect(sent(state.opened()) == [ObserveRequest(id: 7, anew)])
        // The next connection is also lost before all events have arrived.
        _ = state.received(.ok(id: 7, ObserveSuccess(seq: 5, epoch: "e")))
        _ = state.lost()
        #expect(sent(state.opened()) == [ObserveRequest(id: 7, anew)])
    }

    @Test(arguments: [true, false]) mutating func answeredMove_holdsOverALoss_unlessItWasRefused(isRefused: Bool) throws {
        let (before, after) = (try Self.around(37), try Self.around(38))
        lostObserver(.children, query: before.query)
        _ = state.move(8, 7, to: .centre(after.centre), nil)
        _ = state.received(isRefused ? .failed(id: 8, try refusal("bad_request")) : .ok(id: 8, ObserveSuccess(seq: 2)))
        _ = state.received(.event(sub: 7, seq: 2, .removed(key: "b", value: 1)))
        _ = state.lost()
        let query = isRefused ? before.query : after.query
        let again = ObserveOperation.observe(path: "a", events: [.children, .ready], query: query, since: .after(epoch: "e", seq: 2))
        #expect(sent(state.opened()) == [ObserveRequest(id: 7, again)])
    }

    @Test mutating func opening_sendsCredentialThenOldObserversThenWhatWaited() {
        _ = state.opened()
        _ = state.authenticate(1, "token", nil)
        _ = state.received(.ok(id: 1, ObserveSuccess(uid: "ana")))
        _ = state.observe(3, ObserverState("b", [.added, .ready], recorder.handler("b")))
        _ = state.observe(2, ObserverState("a", .value, maxHz: 2, recorder.handler("a")))
        _ = state.lost()
        _ = state.ask(ObserveRequest(id: 4, .get(path: "x")), nil)
        _ = state.observe(5, ObserverState("c", .value, recorder.handler("c")))
        #expect(
            sent(state.opened()) == [
                ObserveRequest(id: 0, .auth(token: "token")),
                ObserveRequest(id: 2, .observe(path: "a", events: .value, maxHz: 2, since: .now)),
                ObserveRequest(id: 3, .observe(path: "b", events: [.added, .ready], since: .now)), ObserveRequest(id: 4, .get(path: "x")),
                ObserveRequest(id: 5, .observe(path: "c", events: .value, since: .now)),
            ])
    }

    @Test mutating func credentialUnansweredAtALoss_isAnsweredAfterTheNextOpening() {
        _ = state.opened()
        _ = state.authenticate(1, "token", recorder.done("auth"))
        #expect(run(state.lost()) == [])
        _ = state.opened()
        #expect(run(state.received(.ok(id: 0, ObserveSuccess(seq: 9, uid: "ana")))) == ["auth ok 9"])
    }

    @Test mutating func refusedCredential_isNotSentAgain() throws {
        _ = state.authenticate(1, "token", recorder.done("auth"))
        _ = state.opened()
        let refusal = try refusal("invalid_token")
        #expect(run(state.received(.failed(id: 0, refusal))) == ["auth failed refused(\(refusal))"])
        _ = state.lost()
        #expect(sent(state.opened()) == [])
    }

    @Test mutating func laterCredential_supersedesTheOneThatWaits() {
        _ = state.authenticate(1, "old", recorder.done("old"))
        #expect(run(state.authenticate(2, "new", recorder.done("new"))) == ["old failed superseded"])
        #expect(sent(state.opened()) == [ObserveRequest(id: 0, .auth(token: "new"))])
    }

    @Test mutating func refusedObserver_isToldOnceAndForgotten() throws {
        _ = state.opened()
        _ = state.observe(1, ObserverState("a", .value, recorder.handler("a")))
        let refusal = try refusal("permission_denied")
        #expect(run(state.received(.failed(id: 1, refusal))) == ["a ended refused(\(refusal))"])
        _ = state.lost()
        #expect(sent(state.opened()) == [])
    }

    @Test mutating func unobservedObserver_hearsNothingMore() {
        _ = state.opened()
        _ = state.observe(1, ObserverState("a", .value, recorder.handler("a")))
        _ = state.received(.ok(id: 1, ObserveSuccess()))
        #expect(sent(state.unobserve(2, 1)) == [ObserveRequest(id: 2, .unobserve(sub: 1))])
        #expect(run(state.received(.event(sub: 1, seq: 4, .value(1)))) == [])
        #expect(sent(state.unobserve(3, 1)) == [])
    }

    @Test mutating func close_tellsEverybodyOnce_andRefusesWhatComesLater() {
        _ = state.opened()
        _ = state.ask(ObserveRequest(id: 1, .ping), recorder.done("sent"))
        _ = state.observe(2, ObserverState("a", .value, recorder.handler("a")))
        #expect(run(state.close(.closed)) == ["sent failed connectionLost", "a ended closed"])
        #expect(run(state.close(.closed)) == [])
        #expect(run(state.ask(ObserveRequest(id: 3, .ping), recorder.done("late"))) == ["late failed closed"])
        #expect(run(state.observe(4, ObserverState("b", .value, recorder.handler("b")))) == ["b ended closed"])
    }

    @Test mutating func answerToNothing_endsTheConnection() throws {
        _ = state.opened()
        #expect(run(state.received(.ok(id: 99, ObserveSuccess()))) == ["gave up"])
        let bad = try refusal("bad_request")
        #expect(run(state.received(.failed(id: nil, bad))) == ["gave up"])
    }

    /// A refusal as the hub writes it.
    private func refusal(_ code: String) throws -> ObserveFailure {
        let text = Array(#"{"id":1,"error":{"code":"\#(code)","message":"no"}}"#.utf8)
        let message = try text.withUnsafeBytes { bytes throws(ObserveError) in try ObserveMessage.parse(bytes) }
        guard case .failed(_, let failure) = message else { throw ObserveError.notAMessage }
        return failure
    }

    // MARK: Reading actions

    private func sent(_ actions: [ObserveClientState.Action]) -> [ObserveRequest] {
        actions.compactMap { if case .send(let request) = $0 { request } else { nil } }
    }

    private func run(_ action: ObserveClientState.Action?) -> [String] { run(action.map { [$0] } ?? []) }

    /// Runs actions.
    /// - Returns: the program's notifications.
    private func run(_ actions: [ObserveClientState.Action]) -> [String] {
        recorder.lines.removeAll()
        for action in actions {
            switch action {
            case .send: break
            case .answer(let done, let result): done(result)
            case .notify(let handler, let observation): handler(observation)
            case .notifyObserver(_, let handler, let observations): observations.forEach(handler)
            case .credentialRefused: recorder.lines.add("credential refused")
            case .giveUp: recorder.lines.add("gave up")
            }
        }
        return recorder.lines.removeAll()
    }
}

/// Closures that record their arguments.
private struct LineRecorder {
    let lines = Notes<String>()

    func done(_ name: String) -> ObserveClientState.Done {
        { [lines] result in
            switch result {
            case .success(let success): lines.add("\(name) ok \(success.seq ?? -1)")
            case .failure(.refused(let failure)): lines.add("\(name) failed refused(\(failure))")
            case .failure(let error): lines.add("\(name) failed \(Self.name(error))")
            }
        }
    }

    func handler(_ name: String) -> ObserveClientState.Handler {
        { [lines] observation in
            switch observation {
            case .event(.value(let value), _): lines.add("\(name) value \(value.json)")
            case .event(let event, _): lines.add("\(name) \(event)")
            case .reset(let seq): lines.add("\(name) reset \(seq)")
            case .ended(.refused(let failure)): lines.add("\(name) ended refused(\(failure))")
            case .ended(let error): lines.add("\(name) ended \(Self.name(error))")
            }
        }
    }

    private static func name(_ error: ClientError) -> String {
        switch error {
        case .connectionLost: "connectionLost"
        case .superseded: "superseded"
        case .closed: "closed"
        default: "\(error)"
        }
    }
}
