import JSONTree
import LiveQueries
import Testing
import WireProtocols

@testable import ViglaClient

/// The requests and events of a client, without a connection.
@Suite(.timeLimit(.minutes(30))) struct ObserveClientStateTests {
    private var dialogue = Dialogue()
    private let told = Told()

    @Test mutating func request_waitsUntilOpened_andIsThenSentOnce() {
        #expect(sent(dialogue.ask(ObserveRequest(id: 5, .ping), nil)) == [])
        #expect(sent(dialogue.opened()) == [ObserveRequest(id: 5, .ping)])
        #expect(sent(dialogue.lost()) == [])
        #expect(sent(dialogue.opened()) == [])
    }

    @Test mutating func sentRequest_failsWhenTheConnectionIsLost() {
        _ = dialogue.opened()
        _ = dialogue.ask(ObserveRequest(id: 1, .get(path: "a")), told.done("get"))
        #expect(run(dialogue.lost()) == ["get failed connectionLost"])
    }

    @Test mutating func unsentRequest_survivesALoss() {
        _ = dialogue.opened()
        _ = dialogue.lost()
        _ = dialogue.ask(ObserveRequest(id: 1, .get(path: "a")), told.done("get"))
        #expect(run(dialogue.lost()) == [])
        #expect(sent(dialogue.opened()) == [ObserveRequest(id: 1, .get(path: "a"))])
        #expect(run(dialogue.received(.ok(id: 1, ObserveSuccess(seq: 3)))) == ["get ok 3"])
    }

    /// An observer of `a` that has received commit 1 of the epoch `e`, and has lost its connection.
    private mutating func lostObserver(_ events: ObserveEvents = .value, query: ObserveQuery? = nil) {
        _ = dialogue.opened()
        _ = dialogue.observe(7, Observed("a", events, query: query, told.handler("a")))
        _ = dialogue.received(.ok(id: 7, ObserveSuccess(seq: 1, epoch: "e")))
        _ = run(dialogue.received(.event(sub: 7, seq: 1, events.contains(.value) ? .value(1) : .ready)))
    }

    @Test mutating func observer_goesOnWhereItWas_underItsNumber() {
        lostObserver()
        #expect(run(dialogue.lost()) == [])
        let since = ObserveSince.after(epoch: "e", seq: 1)
        #expect(sent(dialogue.opened()) == [ObserveRequest(id: 7, .observe(path: "a", events: .value, since: since))])
        #expect(run(dialogue.received(.ok(id: 7, ObserveSuccess(seq: 3, epoch: "e")))) == [])
        #expect(run(dialogue.received(.event(sub: 7, seq: 2, .value(2)))) == ["a value 2"])
    }

    @Test mutating func reset_isToldWithTheFirstOfWhatFollows_orForgotten() {
        lostObserver()
        for _ in 0..<2 {
            _ = dialogue.lost()
            // It resumes after the last events it got, not after a reset without events.
            let since = ObserveSince.after(epoch: "e", seq: 1)
            #expect(sent(dialogue.opened()) == [ObserveRequest(id: 7, .observe(path: "a", events: .value, since: since))])
            #expect(run(dialogue.received(.ok(id: 7, ObserveSuccess(seq: 9, epoch: "f", isReset: true)))) == [])
        }
        #expect(run(dialogue.received(.event(sub: 7, seq: 9, .value(2)))) == ["a reset 9", "a value 2"])
        _ = dialogue.lost()
        let since = ObserveSince.after(epoch: "f", seq: 9)
        #expect(sent(dialogue.opened()) == [ObserveRequest(id: 7, .observe(path: "a", events: .value, since: since))])
    }

    @Test mutating func eventsOfACommit_areToldTogether_orNotAtAll() {
        lostObserver(.children)
        let added = ObserveEvent.added(key: "b", value: 1, prev: nil)
        #expect(run(dialogue.received(.event(sub: 7, seq: 2, added, isFollowed: true))) == [])
        _ = dialogue.lost()
        let since = ObserveSince.after(epoch: "e", seq: 1)
        #expect(sent(dialogue.opened()) == [ObserveRequest(id: 7, .observe(path: "a", events: [.children, .ready], since: since))])
        #expect(run(dialogue.received(.event(sub: 7, seq: 2, added, isFollowed: true))) == [])
        #expect(run(dialogue.received(.event(sub: 7, seq: 2, .removed(key: "c", value: 2)))).count == 2)
    }

    @Test mutating func readyIsAskedFor_andToldOnlyToThoseWhoAsked() {
        lostObserver(.children)
        #expect(run(dialogue.received(.event(sub: 7, seq: 2, .ready))) == [])
        _ = dialogue.observe(8, Observed("a", [.added, .ready], told.handler("b")))
        #expect(run(dialogue.received(.event(sub: 8, seq: 2, .ready))) == ["b ready"])
    }

    @Test mutating func observerEndedByItsHandler_hearsNoMoreOfTheCommit() {
        lostObserver(.children)
        _ = dialogue.received(.event(sub: 7, seq: 2, .added(key: "b", value: 1, prev: nil), isFollowed: true))
        guard case .tell(let id, _, let observations) = dialogue.received(.event(sub: 7, seq: 2, .removed(key: "c", value: 2))) else {
            Issue.record("nothing is told")
            return
        }
        #expect(observations.count == 2 && dialogue.isObserving(id))
        _ = dialogue.unobserve(9, id)
        #expect(!dialogue.isObserving(id))
    }

    @Test mutating func observerThatWasNotTold_beginsWithoutAReset() {
        _ = dialogue.observe(7, Observed("a", .value, told.handler("a")))
        _ = dialogue.opened()
        _ = dialogue.lost()
        #expect(sent(dialogue.opened()) == [ObserveRequest(id: 7, .observe(path: "a", events: .value, since: .now))])
        _ = dialogue.received(.ok(id: 7, ObserveSuccess(seq: 9, epoch: "f")))
        #expect(run(dialogue.received(.event(sub: 7, seq: 9, .value(2)))) == ["a value 2"])
    }

    private static func around(_ latitude: Double) throws -> (query: ObserveQuery, centre: GeoPoint) {
        let centre = try #require(GeoPoint(latitude: latitude, longitude: 23))
        let near = NearQuery(centre: centre, metres: 1000, limit: nil)
        return (try ObserveQuery(TreeQuery(index: nil), where: .all, near: near), centre)
    }

    /// It is unknown whether the hub has moved the circle, so the observer starts from scratch at its new place.
    @Test mutating func moveWithoutAnAnswer_beginsTheObserverAnew() throws {
        let (before, after) = (try Self.around(37), try Self.around(38))
        lostObserver(.children, query: before.query)
        #expect(sent(dialogue.move(8, 7, to: after.centre, told.done("move"))) == [ObserveRequest(id: 8, .move(sub: 7, to: after.centre))])
        #expect(run(dialogue.lost()) == ["move failed connectionLost"])
        let anew = ObserveOperation.observe(path: "a", events: [.children, .ready], query: after.query, since: .now)
        #expect(sent(dialogue.opened()) == [ObserveRequest(id: 7, anew)])
        _ = dialogue.received(.ok(id: 7, ObserveSuccess(seq: 5, epoch: "e")))
        #expect(run(dialogue.received(.event(sub: 7, seq: 5, .ready))) == ["a reset 5"])
    }

    /// The difference comes after the answer.
    @Test mutating func moveWithoutItsDifference_beginsTheObserverAnew() throws {
        let (before, after) = (try Self.around(37), try Self.around(38))
        lostObserver(.children, query: before.query)
        _ = dialogue.move(8, 7, to: after.centre, nil)
        _ = dialogue.received(.ok(id: 8, ObserveSuccess(seq: 2)))
        _ = dialogue.lost()
        let anew = ObserveOperation.observe(path: "a", events: [.children, .ready], query: after.query, since: .now)
        #expect(sent(dialogue.opened()) == [ObserveRequest(id: 7, anew)])
        // The next connection is also lost before all events have arrived.
        _ = dialogue.received(.ok(id: 7, ObserveSuccess(seq: 5, epoch: "e")))
        _ = dialogue.lost()
        #expect(sent(dialogue.opened()) == [ObserveRequest(id: 7, anew)])
    }

    @Test(arguments: [true, false]) mutating func answeredMove_holdsOverALoss_unlessItWasRefused(isRefused: Bool) throws {
        let (before, after) = (try Self.around(37), try Self.around(38))
        lostObserver(.children, query: before.query)
        _ = dialogue.move(8, 7, to: after.centre, nil)
        _ = dialogue.received(isRefused ? .failed(id: 8, try refusal("bad_request")) : .ok(id: 8, ObserveSuccess(seq: 2)))
        _ = dialogue.received(.event(sub: 7, seq: 2, .removed(key: "b", value: 1)))
        _ = dialogue.lost()
        let query = isRefused ? before.query : after.query
        let again = ObserveOperation.observe(path: "a", events: [.children, .ready], query: query, since: .after(epoch: "e", seq: 2))
        #expect(sent(dialogue.opened()) == [ObserveRequest(id: 7, again)])
    }

    @Test mutating func opening_sendsCredentialThenOldObserversThenWhatWaited() {
        _ = dialogue.opened()
        _ = dialogue.authenticate(1, "token", nil)
        _ = dialogue.received(.ok(id: 1, ObserveSuccess(uid: "ana")))
        _ = dialogue.observe(3, Observed("b", [.added, .ready], told.handler("b")))
        _ = dialogue.observe(2, Observed("a", .value, maxHz: 2, told.handler("a")))
        _ = dialogue.lost()
        _ = dialogue.ask(ObserveRequest(id: 4, .get(path: "x")), nil)
        _ = dialogue.observe(5, Observed("c", .value, told.handler("c")))
        #expect(
            sent(dialogue.opened()) == [
                ObserveRequest(id: 0, .auth(token: "token")),
                ObserveRequest(id: 2, .observe(path: "a", events: .value, maxHz: 2, since: .now)),
                ObserveRequest(id: 3, .observe(path: "b", events: [.added, .ready], since: .now)), ObserveRequest(id: 4, .get(path: "x")),
                ObserveRequest(id: 5, .observe(path: "c", events: .value, since: .now)),
            ])
    }

    @Test mutating func credentialUnansweredAtALoss_isAnsweredAfterTheNextOpening() {
        _ = dialogue.opened()
        _ = dialogue.authenticate(1, "token", told.done("auth"))
        #expect(run(dialogue.lost()) == [])
        _ = dialogue.opened()
        #expect(run(dialogue.received(.ok(id: 0, ObserveSuccess(seq: 9, uid: "ana")))) == ["auth ok 9"])
    }

    @Test mutating func refusedCredential_isNotSentAgain() throws {
        _ = dialogue.authenticate(1, "token", told.done("auth"))
        _ = dialogue.opened()
        let refusal = try refusal("invalid_token")
        #expect(run(dialogue.received(.failed(id: 0, refusal))) == ["auth failed refused(\(refusal))"])
        _ = dialogue.lost()
        #expect(sent(dialogue.opened()) == [])
    }

    @Test mutating func laterCredential_supersedesTheOneThatWaits() {
        _ = dialogue.authenticate(1, "old", told.done("old"))
        #expect(run(dialogue.authenticate(2, "new", told.done("new"))) == ["old failed superseded"])
        #expect(sent(dialogue.opened()) == [ObserveRequest(id: 0, .auth(token: "new"))])
    }

    @Test mutating func refusedObserver_isToldOnceAndForgotten() throws {
        _ = dialogue.opened()
        _ = dialogue.observe(1, Observed("a", .value, told.handler("a")))
        let refusal = try refusal("permission_denied")
        #expect(run(dialogue.received(.failed(id: 1, refusal))) == ["a ended refused(\(refusal))"])
        _ = dialogue.lost()
        #expect(sent(dialogue.opened()) == [])
    }

    @Test mutating func unobservedObserver_hearsNothingMore() {
        _ = dialogue.opened()
        _ = dialogue.observe(1, Observed("a", .value, told.handler("a")))
        _ = dialogue.received(.ok(id: 1, ObserveSuccess()))
        #expect(sent(dialogue.unobserve(2, 1)) == [ObserveRequest(id: 2, .unobserve(sub: 1))])
        #expect(run(dialogue.received(.event(sub: 1, seq: 4, .value(1)))) == [])
        #expect(sent(dialogue.unobserve(3, 1)) == [])
    }

    @Test mutating func close_tellsEverybodyOnce_andRefusesWhatComesLater() {
        _ = dialogue.opened()
        _ = dialogue.ask(ObserveRequest(id: 1, .ping), told.done("sent"))
        _ = dialogue.observe(2, Observed("a", .value, told.handler("a")))
        #expect(run(dialogue.close(.closed)) == ["sent failed connectionLost", "a ended closed"])
        #expect(run(dialogue.close(.closed)) == [])
        #expect(run(dialogue.ask(ObserveRequest(id: 3, .ping), told.done("late"))) == ["late failed closed"])
        #expect(run(dialogue.observe(4, Observed("b", .value, told.handler("b")))) == ["b ended closed"])
    }

    @Test mutating func answerToNothing_endsTheConnection() throws {
        _ = dialogue.opened()
        #expect(run(dialogue.received(.ok(id: 99, ObserveSuccess()))) == ["gave up"])
        let bad = try refusal("bad_request")
        #expect(run(dialogue.received(.failed(id: nil, bad))) == ["gave up"])
    }

    /// A refusal as the hub writes it.
    private func refusal(_ code: String) throws -> ObserveFailure {
        let text = Array(#"{"id":1,"error":{"code":"\#(code)","message":"no"}}"#.utf8)
        let message = try text.withUnsafeBytes { bytes throws(ObserveError) in try ObserveMessage.parse(bytes) }
        guard case .failed(_, let failure) = message else { throw ObserveError.notAMessage }
        return failure
    }

    // MARK: Reading actions

    private func sent(_ actions: [Dialogue.Action]) -> [ObserveRequest] {
        actions.compactMap { if case .send(let request) = $0 { request } else { nil } }
    }

    private func run(_ action: Dialogue.Action?) -> [String] { run(action.map { [$0] } ?? []) }

    /// Runs actions.
    /// - Returns: the program's notifications.
    private func run(_ actions: [Dialogue.Action]) -> [String] {
        told.lines.removeAll()
        for action in actions {
            switch action {
            case .send: break
            case .answer(let done, let result): done(result)
            case .notify(let handler, let observation): handler(observation)
            case .tell(_, let handler, let observations): observations.forEach(handler)
            case .credentialRefused: told.lines.add("credential refused")
            case .giveUp: told.lines.add("gave up")
            }
        }
        return told.lines.removeAll()
    }
}

/// Closures that record their arguments.
private struct Told {
    let lines = Notes<String>()

    func done(_ name: String) -> Dialogue.Done {
        { [lines] result in
            switch result {
            case .success(let success): lines.add("\(name) ok \(success.seq ?? -1)")
            case .failure(.refused(let failure)): lines.add("\(name) failed refused(\(failure))")
            case .failure(let error): lines.add("\(name) failed \(Self.name(error))")
            }
        }
    }

    func handler(_ name: String) -> Dialogue.Handler {
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
