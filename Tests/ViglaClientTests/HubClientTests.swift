import Dispatch
import DispatchNet
import HubServer
import Journal
import JSONTree
import Scheduling
import SecurityRules
import Testing
import TestSupport
import ViglaClient
import WireProtocols

/// Clients against a real server in the same process.
@Suite(.timeLimit(.minutes(30))) struct HubClientTests {
    @Test func writes_reachObserversInOrder_beforeTheirOwnAnswer() throws {
        let hub = try TestHub()
        let client = hub.client()
        let log = Notes<String>()
        _ = client.observe("/t", .children) { if case .event(let event, _) = $0 { log.add(Self.name(event)) } }
        client.set("/t/a", WriteValue(1)) { if case .success = $0 { log.add("set") } }
        client.update("/", [("t/b", WriteValue(2)), ("t/a", WriteValue(5))]) { if case .success = $0 { log.add("update") } }
        client.remove("/t/a") { if case .success = $0 { log.add("remove") } }
        let expected = ["added a 1 -", "set", "added b 2 a", "changed a 5 -", "update", "removed a 5", "remove"]
        var got: [String] = []
        while got.count < expected.count { got.append(try log.next()) }
        // The children of one commit arrive in the hub's order.
        #expect(
            got.filter { !$0.hasPrefix("added b") && !$0.hasPrefix("changed") } == ["added a 1 -", "set", "update", "removed a 5", "remove"]
        )
        #expect(Set(got) == Set(expected))
    }

    @Test func get_returnsWhatPushAdded_underAKeyThatSorts() throws {
        let hub = try TestHub()
        let client = hub.client()
        let keys = Notes<Key>()
        for text in ["one", "two"] { client.push("/list", WriteValue(.string(text))) { if case .success(let key) = $0 { keys.add(key) } } }
        let (first, second) = (try keys.next(), try keys.next())
        #expect(first < second)
        let expected: Node = .object([(first, "one" as Node), (second, "two" as Node)])
        #expect(try hub.get("/list") == expected)
    }

    @Test func serverTimestamp_isFilledIn() throws {
        let hub = try TestHub()
        let done = Notes<Bool>()
        hub.client().set("/at", try WriteValue(json: #"{".sv":"timestamp"}"#)) { _ in done.add(true) }
        _ = try done.next()
        guard case .int(let at) = try hub.get("/at") else { Issue.record("no number"); return }
        #expect(at > 1_700_000_000_000)
    }

    @Test func refusedWrite_failsWithTheCode_andTheConnectionGoesOn() throws {
        let hub = try TestHub(rules: .denyAll)
        let results = Notes<ClientError?>()
        let client = hub.client()
        client.set("/a", WriteValue(1)) { if case .failure(let error) = $0 { results.add(error) } else { results.add(nil) } }
        guard case .refused(let failure) = try results.next() else { Issue.record("not refused"); return }
        #expect(failure.known == .permissionDenied)
        client.authenticate("owner") { if case .success = $0 { results.add(nil) } }
        client.set("/a", WriteValue(2)) { if case .failure(let error) = $0 { results.add(error) } else { results.add(nil) } }
        #expect(try results.next() == nil)
        #expect(try results.next() == nil)
    }

    @Test func refusedObserver_isEnded() throws {
        let hub = try TestHub(rules: .denyAll)
        let seen = Notes<Observation>()
        _ = hub.client().observe("/a") { seen.add($0) }
        guard case .ended(.refused(let failure)) = try seen.next() else { Issue.record("not ended"); return }
        #expect(failure.known == .permissionDenied)
    }

    @Test func lostConnection_isMadeAgain_withCredentialAndObservers() throws {
        let first = try TestHub(rules: .denyAll)
        let seen = Notes<String>()
        let states = Notes<String>()
        let client = first.client { state in
            switch state {
            case .connected: states.add("connected")
            case .waiting: states.add("waiting")
            default: break
            }
        }
        client.authenticate("owner")
        _ = client.observe("/a") { observation in
            switch observation {
            case .event(.value(let value), _): seen.add(value.json)
            case .reset: seen.add("reset")
            default: seen.add("\(observation)")
            }
        }
        #expect(try seen.next() == "null")
        client.set("/a", WriteValue(1))
        #expect(try seen.next() == "1")

        first.stop()
        #expect(try states.next { $0 != "connected" } == "waiting")
        let second = try TestHub(rules: .denyAll, port: first.port)
        // The new hub is empty: earlier content no longer applies, and the client is notified.
        #expect(try seen.next() == "reset")
        #expect(try seen.next() == "null")
        client.set("/a", WriteValue(2))
        #expect(try seen.next() == "2")
        withExtendedLifetime(second) {}
    }

    @Test func requestMadeWhileDisconnected_isCarriedOutLater() throws {
        let first = try TestHub()
        let port = first.port
        first.stop()
        let done = Notes<Bool>()
        let group = try EventLoopGroup(count: 1)
        var settings = HubClientSettings()
        settings.firstRetryMs = 10
        settings.lastRetryMs = 50
        let states = Notes<Bool>()
        let client = HubClient(HubAddress(port: port), on: group.next(), settings: settings) { if case .waiting = $0 { states.add(true) } }
        client.set("/a", WriteValue(1)) { if case .success = $0 { done.add(true) } else { done.add(false) } }
        client.connect()
        _ = try states.next()
        let second = try TestHub(port: port)
        #expect(try done.next())
        #expect(try second.get("/a") == 1)
        client.close()
        group.shutdownAndWait()
    }

    @Test func clientWithoutReconnect_tellsEverybodyWhy() throws {
        let hub = try TestHub()
        let port = hub.port
        hub.stop()
        let group = try EventLoopGroup(count: 1)
        var settings = HubClientSettings()
        settings.reconnects = false
        let errors = Notes<ClientError>()
        let client = HubClient(HubAddress(port: port), on: group.next(), settings: settings)
        client.get("/a") { if case .failure(let error) = $0 { errors.add(error) } }
        client.connect()
        #expect(try errors.next() == .unreachable("nothing listens on 127.0.0.1:\(port)"))
        client.get("/a") { if case .failure(let error) = $0 { errors.add(error) } }
        #expect(try errors.next() == .unreachable("nothing listens on 127.0.0.1:\(port)"))
        group.shutdownAndWait()
    }

    @Test func unknownNamespace_isNamed() throws {
        let hub = try TestHub(isDev: false)
        let errors = Notes<ClientError>()
        let client = HubClient(HubAddress(port: hub.port, namespace: "other"), on: hub.loop, settings: hub.once)
        client.get("/a") { if case .failure(let error) = $0 { errors.add(error) } }
        client.connect()
        let error = try errors.next()
        guard case .notAccepted(404, _) = error else { Issue.record("\(error)"); return }
        #expect(error.description.contains("namespace"))
    }

    /// The example of docs/clients.md: Tests/Clients/docs_test.py compares the lines.
    @Test func documentedExample_doesWhatItSays() async throws {
        let (hub, printed) = (try TestHub(), Notes<String>())
        defer { hub.stop() }
        let client = hub.client()
        func print(_ line: String) { printed.add(line) }

        // begin of docs/clients.md
        struct Post: Codable { var text: String }

        let timeline = client.events(of: "/timeline/ana", [.added, .removed, .ready])
        for try await case .event(let event, _) in timeline {
            switch event {
            case .ready: try await client.push("/timeline/ana", encoding: Post(text: "hello"))
            case .added(let key, _, _, _): print(try await client.get(Path(["timeline", "ana", key]), as: Post.self)?.text ?? "nothing")
            default: break
            }
            if case .removed = event { break }
            if case .added = event { try await client.remove("/timeline/ana") }
        }
        print(try await client.transaction("/visits") { was in WriteValue(was.exists ? was : 1) }.json)
        // end of docs/clients.md

        #expect(printed.removeAll() == ["hello", "1"])
    }

    @Test func values_areThoseOfAType_andWhatIsNoneOfIt_endsTheSequence() async throws {
        struct Fix: Codable, Equatable { var latitude: Double, longitude: Double }
        let hub = try TestHub()
        defer { hub.stop() }
        let client = hub.client()
        let fix = Fix(latitude: 37.9553, longitude: 23.7021)
        var seen: [Fix?] = []
        await #expect(throws: DecodingError.self) {
            for try await value in client.values(of: "/fix", as: Fix.self) {
                seen.append(value)
                if value == nil { try await client.set("/fix", encoding: fix) } else { try await client.set("/fix", WriteValue("nowhere")) }
            }
        }
        #expect(seen == [nil, fix])
    }

    @Test func refusedSequence_throwsWhatTheHubSays() async throws {
        let hub = try TestHub(rules: .denyAll)
        defer { hub.stop() }
        let client = hub.client()
        await #expect(throws: ClientError.self) { for try await _ in client.events(of: "/a") {} }
        do throws(ClientError) { try await client.set("/a", WriteValue(1)) } catch {
            #expect(error.code == "permission_denied" && error.description == "Permission denied (permission_denied)")
        }
    }

    @Test func refusal_printsWhatTheRulesSay() throws {
        let rules = try RuleSet(parsing: #"{"rules":{".write":true,"a":{".validate":"newData.isString()",".message":"A text."}}}"#)
        let (hub, results) = (try TestHub(rules: rules), Notes<ClientError?>())
        hub.client().set("/a", WriteValue(1)) { if case .failure(let error) = $0 { results.add(error) } else { results.add(nil) } }
        #expect(try results.next()?.description == "Permission denied (permission_denied): A text.")
    }

    @Test func close_answersWhatIsOpen() throws {
        let hub = try TestHub()
        let seen = Notes<Observation>()
        let client = hub.client()
        _ = client.observe("/a") { seen.add($0) }
        _ = try seen.next()
        client.close()
        #expect(try seen.next() == .ended(.closed))
    }

    @Test func largeValue_goesThroughBothWays() throws {
        let hub = try TestHub()
        let text = String(repeating: "Kallithea ", count: 300_000)
        let done = Notes<Bool>()
        hub.client().set("/big", WriteValue(.string(text))) { if case .success = $0 { done.add(true) } else { done.add(false) } }
        #expect(try done.next())
        #expect(try hub.get("/big") == .string(text))
    }

    @Test func fiveHundredClients_onOneLoop_allSeeEveryValueInOrder() throws {
        let hub = try TestHub()
        let finished = Notes<[Int64]>()
        let started = Notes<Bool>()
        for _ in 0..<500 {
            let history = History()
            _ = hub.client().observe("/n") { observation in
                guard case .event(.value(let value), _) = observation else { return }
                guard case .int(let number) = value else { started.add(true); return }
                history.values.append(number)
                if number == 20 { finished.add(history.values) }
            }
        }
        for _ in 0..<500 { _ = try started.next() }
        let writer = hub.client()
        for number in 1...20 { writer.set("/n", WriteValue(.int(Int64(number)))) }
        for _ in 0..<500 { #expect(try finished.next() == Array(1...20)) }
    }

    private final class History: @unchecked Sendable {
        // because it is used on the clients' loop only.
        var values: [Int64] = []
    }

    private static func name(_ event: ObserveEvent) -> String {
        switch event {
        case .value(let value): "value \(value.json)"
        case .added(let key, let value, let prev, _): "added \(key) \(value.json) \(prev.key?.string ?? "-")"
        case .changed(let key, let value, let prev, _): "changed \(key) \(value.json) \(prev.key?.string ?? "-")"
        case .removed(let key, let value, _, _): "removed \(key) \(value.json)"
        case .moved(let key, let prev, _): "moved \(key) \(prev.key?.string ?? "-")"
        case .ready: "ready"
        case .count(let count): "count \(count)"
        }
    }
}

/// A server in memory on its own port, and a loop for its clients.
final class TestHub {
    let server: Server
    let port: UInt16
    let group: EventLoopGroup
    var loop: EventLoop { group.loops[0] }
    private var isStopped = false

    init(rules: RuleSet = .allowAll, port: UInt16 = 0, isDev: Bool = true) throws {
        var settings = ServerSettings()
        settings.port = port
        settings.rules = rules
        settings.isDev = isDev
        settings.loops = 1
        server = try Server(settings, scheduler: .system(), logger: .silent) { MemoryStorage() }
        self.port = server.port
        group = try EventLoopGroup(count: 1)
    }

    /// A connected client that reconnects quickly.
    func client(onState: (@Sendable (HubClient.State) -> Void)? = nil) -> HubClient {
        var settings = HubClientSettings()
        settings.firstRetryMs = 5
        settings.lastRetryMs = 50
        let client = HubClient(HubAddress(port: port), on: loop, settings: settings, onState: onState)
        client.connect()
        return client
    }

    var once: HubClientSettings {
        var settings = HubClientSettings()
        settings.reconnects = false
        return settings
    }

    func get(_ path: Path) throws -> Node {
        let result = Notes<Node>()
        client().get(path) { if case .success(let value) = $0 { result.add(value) } }
        return try result.next()
    }

    func stop() {
        guard !isStopped else { return }
        isStopped = true
        let stopped = DispatchSemaphore(value: 0)
        server.stop { stopped.signal() }
        stopped.wait()
    }

    deinit {
        stop()
        group.shutdown {}
    }
}
