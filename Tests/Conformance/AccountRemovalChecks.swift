import Dispatch
import Foundation
import HubEngine
import Journal
import JSONTree
import Logging
import Scheduling
import SecurityRules
import Synchronization
import TestHub
import Testing
import TestSupport
@testable import Accounts
@testable import HubServer

/// The data of a deleted account is removed with it.
@Suite(.timeLimit(.minutes(30))) struct AccountRemovalChecks {
    private func server(folder: String? = nil, places: [String]) throws -> TestServer {
        let data = try places.map { try AccountPlace(parsing: $0) }
        return try TestServer {
            $0.accounts = .quick
            $0.accountData = data
            $0.dataFolder = folder
            $0.namespace = "test"
        }
    }

    private func accounts<Result: Sendable>(
        _ server: TestServer, _ work: @escaping @Sendable (isolated AccountService) throws -> Result
    ) throws -> Result {
        let service = try #require(server.server.accounts)
        let result = Mutex<Swift.Result<Result, any Error>?>(nil)
        let done = DispatchSemaphore(value: 0)
        service.perform { service in
            let made = Swift.Result { try work(service) }
            result.withLock { $0 = made }
            done.signal()
        }
        done.wait()
        return try #require(result.withLock { $0 }).get()
    }

    private func add(_ uid: String, to server: TestServer) throws {
        try accounts(server) { service in try service.store.transaction { try $0.save(Account(id: uid, createdAt: 1)) } }
    }

    /// Deletes an account as the service does.
    private func delete(_ uid: String, from server: TestServer, announcing: Bool = true) throws {
        let wasThere = try accounts(server) { service in
            let wasThere = try service.store.transaction { try $0.deleteAccount(uid, at: 0) }
            if announcing { service.announce(AccountChange(uid, .deleted)) }
            return wasThere
        }
        #expect(wasThere)
    }

    private func pendingRemovals(_ server: TestServer) throws -> [String] { try accounts(server) { $0.pendingRemovals() } }

    @Test func placesOfADeletedAccount_goInOneCommit_behindWhatItsSessionsLeave() throws {
        let server = try server(places: ["/users/$uid", "/presence/$uid", "/rooms/one/members/$uid"])
        try add("ana", to: server)
        let owner = try Peer(server)
        try owner.signInAsOwner()
        try owner.put("/", #"{"users":{"ana":{"name":"Ana"},"bo":1},"presence":{"ana":true,"bo":true},"rooms":{"one":{"members":{"ana":1,"#
            + #""bo":1}}},"x":"ana"}"#)
        let ana = try Peer(server)
        try ana.signIn("ana")
        try ana.ask("o", #"{"p":"/presence/ana","d":"left"}"#)
        try owner.listen("/")
        try delete("ana", from: server)
        #expect(try ana.line().hasPrefix("ac "))
        #expect(try owner.line() == #"d presence/ana "left""#, "with the rights that it had, before its places go")
        #expect(try owner.line() == #"m  {"presence/ana":null,"rooms/one/members/ana":null,"users/ana":null}"#)
        #expect(try owner.get("/") == #"ok {"presence":{"bo":true},"rooms":{"one":{"members":{"bo":1}}},"users":{"bo":1},"x":"ana"}"#)
        #expect(try becomes { try pendingRemovals(server).isEmpty })
    }

    /// 10,000 nodes take several commits; a read after the answer finds none of them.
    @Test func answerToADeletion_comesBehindTheData() throws {
        let server = try server(places: ["/users/$uid"])
        let nodes = (0..<10_000).map { #""n\#($0)":{"a":1}"# }.joined(separator: ",")
        for i in 0..<20 {
            try add("ana\(i)", to: server)
            let owner = try RESTPeer.owner(server)
            #expect(try owner.put("/users/ana\(i).json?print=silent", "{\(nodes)}").hasPrefix("204"))
            let answer = try owner.line(
                "POST", "/identitytoolkit.googleapis.com/v1/projects/default/accounts:delete", #"{"localId":"ana\#(i)"}"#)
            #expect(answer.hasPrefix("200"), "\(answer)")
            #expect(try owner.get("/users/ana\(i).json?shallow=true") == "200 null")
        }
        #expect(try pendingRemovals(server).isEmpty)
    }

    @Test func withoutPlaces_nothingIsTouchedAndNothingOwed() throws {
        let server = try server(places: [])
        try add("ana", to: server)
        let owner = try Peer(server)
        try owner.signInAsOwner()
        try owner.put("/users/ana", "1")
        try delete("ana", from: server)
        #expect(try becomes { try pendingRemovals(server).isEmpty })
        #expect(try owner.get("/users/ana") == "ok 1")
    }

    @Test func idThatIsNoKey_removesNothing() throws {
        let server = try server(places: ["/users/$uid"])
        try add("bo/x", to: server)
        let owner = try Peer(server)
        try owner.signInAsOwner()
        try owner.put("/users/bo", #"{"x":1}"#)
        try delete("bo/x", from: server)
        #expect(try becomes { try pendingRemovals(server).isEmpty })
        #expect(try owner.get("/users/bo") == #"ok {"x":1}"#)
    }

    // MARK: The rules' `.account`

    private static let rules = #"""
        {"rules":{".read":true,
          "users":{"$u":{".account":true}},
          "friends":{"$a":{"$b":{".account":["$a","$b"]}}},
          "posts":{"$p":{"user":{".account":{"set":"deleted"}},".copy":{"to":"lines/$f/$p","each":"friends/{user}/$f"}}},
          "votes":{"$p":{"$u":{".account":"$u"}}},
          "polls":{"$p":{".counts":{"votes":"count(votes/$p)"}}}}}
        """#

    private func server(folder: String? = nil, rules: String, _ configure: (inout ServerSettings) -> Void = { _ in }) throws -> TestServer {
        let rules = try RuleSet(parsing: rules)
        return try TestServer {
            $0.accounts = .quick
            $0.rules = rules
            $0.dataFolder = folder
            $0.namespace = "test"
            configure(&$0)
        }
    }

    @Test func whatTheRulesSay_goesInOneCommit_withTheConfiguredPlaces_andWhatFollows() throws {
        let place = try AccountPlace(parsing: "/presence/$uid")
        let server = try server(rules: Self.rules) { $0.accountData = [place] }
        try add("ana", to: server)
        let owner = try Peer(server)
        try owner.signInAsOwner()
        try owner.put("/", #"{"users":{"ana":1,"bo":1},"friends":{"ana":{"bo":1},"bo":{"ana":1,"cy":1}},"polls":{"q":{"votes":2}},"#
            + #""votes":{"q":{"ana":1,"bo":1}},"posts":{"p":{"user":"ana"},"r":{"user":"bo"}},"presence":{"ana":1},"#
            + #""lines":{"bo":{"p":{"user":"ana"}}}}"#)
        try owner.listen("/")
        try delete("ana", from: server)
        #expect(
            try owner.line() == #"m  {"friends/ana/bo":null,"friends/bo/ana":null,"lines/bo/p":{"user":"deleted"},"polls/q/votes":1,"#
                + #""posts/p/user":"deleted","presence/ana":null,"users/ana":null,"votes/q/ana":null}"#)
        #expect(try becomes { try pendingRemovals(server).isEmpty })
        #expect(try server.metric(#"vigla_system_commits_total{namespace="test",cause="account_deletion"}"#) == 1)
    }

    /// Deleting an account with 2,500 places takes three commits at the bound of 1,000, and one where the bound is higher.
    @Test(arguments: [(1_000, 3), (1_250, 2), (2_500, 1), (100, 25)])
    func more_thanOneCommitTakes_isContinued(_ atOnce: Int, _ commits: Int) throws {
        let server = try server(rules: Self.rules) { $0.limits.engine.accountWrites = atOnce }
        try add("ana", to: server)
        let posts = (0..<2_500).map { #""\#($0)":{"user":"ana"}"# }.joined(separator: ",")
        let owner = try RESTPeer.owner(server)
        #expect(try owner.ask("PUT", "/posts.json?print=silent&derive=false", #"{\#(posts),"x":{"user":"bo"}}"#).status == 204)
        try delete("ana", from: server)
        #expect(try becomes { try pendingRemovals(server).isEmpty })
        #expect(try server.metric(#"vigla_system_commits_total{namespace="test",cause="account_deletion"}"#) == commits)
        let after = try owner.get("/posts.json")
        #expect(after.components(separatedBy: #""user":"deleted""#).count == 2_501 && after.contains(#""x":{"user":"bo"}"#))
    }

    /// If a commit would have too many consequences, it contains fewer removals: the counters stay right.
    @Test func whatWouldHaveTooMuchFollow_isMadeInSmallerParts() throws {
        let server = try server(rules: Self.rules) { $0.limits.engine.systemWrites = 10 }
        try add("ana", to: server)
        let owner = try RESTPeer.owner(server)
        func object(_ of: (Int) -> String) -> String { "{" + (0..<40).map { #""p\#($0)":\#(of($0))"# }.joined(separator: ",") + "}" }
        let data = #"{"votes":\#(object { _ in #"{"ana":1,"bo":1}"# }),"polls":\#(object { _ in #"{"votes":2}"# })}"#
        #expect(try owner.ask("PUT", "/.json?print=silent", data).status == 204)
        let countings = try server.metric(#"vigla_countings_total{namespace="test"}"#)
        try delete("ana", from: server)
        #expect(try becomes { try pendingRemovals(server).isEmpty })
        let polls = try owner.get("/polls.json")
        #expect(polls.components(separatedBy: #""votes":1"#).count == 41, "\(polls)")
        #expect(try !owner.get("/votes.json").contains("ana"))
        #expect(try server.metric(#"vigla_countings_total{namespace="test"}"#) == countings, "kept in the same commits, not counted anew")
    }

    /// Wherever the process was killed, the next one completes the removal, and nothing runs twice.
    @Test func removalInManyCommits_goesOn_inTheNextProcess() throws {
        let temporary = try TemporaryFolder()
        let folder = temporary.at("data")
        do {
            let first = try server(folder: folder, rules: Self.rules) { $0.limits.engine.accountWrites = 1 }
            try add("ana", to: first)
            let owner = try RESTPeer.owner(first)
            let votes = (0..<500).map { "\"p\($0)\":{\"ana\":1,\"bo\":1}" }.joined(separator: ",")
            let polls = (0..<500).map { "\"p\($0)\":{\"votes\":2}" }.joined(separator: ",")
            #expect(try owner.ask("PUT", "/.json?print=silent", "{\"votes\":{\(votes)},\"polls\":{\(polls)}}").status == 204)
            try delete("ana", from: first)
            #expect(try first.metric(#"vigla_system_commits_total{namespace="test",cause="account_deletion"}"#) { $0 > 0 })
            first.stop()
        }
        let second = try server(folder: folder, rules: Self.rules)
        #expect(try becomes { try pendingRemovals(second).isEmpty })
        let owner = try RESTPeer.owner(second)
        #expect(try !owner.get("/votes.json").contains("ana"))
        #expect(try owner.get("/polls.json").components(separatedBy: #""votes":1"#).count == 501)
        second.stop()
    }

    /// The account was deleted, and the process ended before its data was removed.
    @Test func whatAProcessOwed_isDoneByTheNext() throws {
        let temporary = try TemporaryFolder()
        let folder = temporary.at("data")
        do {
            let first = try server(folder: folder, places: ["/users/$uid"])
            try add("ana", to: first)
            let owner = try Peer(first)
            try owner.signInAsOwner()
            try owner.put("/users", #"{"ana":1,"bo":2}"#)
            try delete("ana", from: first, announcing: false)
            #expect(try pendingRemovals(first) == ["ana"] && owner.get("/users") == #"ok {"ana":1,"bo":2}"#)
            first.stop()
        }
        let mode = try FileManager.default.attributesOfItem(atPath: folder + "/accounts.sqlite")[.posixPermissions] as? Int
        #expect(mode == 0o600, "nobody else may read it")
        let second = try server(folder: folder, places: ["/users/$uid"])
        #expect(try becomes { try pendingRemovals(second).isEmpty })
        let owner = try Peer(second)
        try owner.signInAsOwner()
        #expect(try owner.get("/users") == #"ok {"bo":2}"#)
        second.stop()
    }

    /// The account's large write is still being prepared when the account is deleted.
    @Test func writeUnderWay_doesNotComeBackBehindTheRemoval() throws {
        let server = try server(places: [])
        let lanes = server.server.lanes
        let jobs = Mutex<[@Sendable () -> Void]>([])
        var limits = EngineLimits()
        limits.largeWritePlaces = 1
        let database = Database(
            name: "slow", rules: .allowAll, lanes: lanes.count, limits: limits,
            background: BackgroundWork { job in jobs.withLock { $0.append(job) } },
            format: HubFormat(), outlet: { lane, deliveries in lanes[lane].deliver(deliveries) }, scheduler: .system())
        let removal = AccountRemoval(
            [try AccountPlace(parsing: "/users/$uid")], ofDatabase: database.name, databases: { [database] }, lane: lanes[0],
            accounts: try #require(server.server.accounts), scheduler: .system(), logger: Logger(label: "test"))
        try add("ana", to: server)
        let ana = Client(lane: 0, dialect: .rest, identity: Identity(auth: ["uid": "ana"]))
        let writes = (0..<3).map { TreeWrite(Path([Key("users"), Key("ana"), Key("\($0)")]), WriteValue(1)) }
        database.submit(.exchange(Exchange(.root, .write(writes))), from: ana)
        database.queue.sync {}
        try delete("ana", from: server, announcing: false)
        removal.resume()
        _ = try pendingRemovals(server)
        database.queue.sync {}
        while let job = jobs.withLock({ $0.isEmpty ? nil : $0.removeFirst() }) {
            job()
            database.queue.sync {}
            database.queue.sync {}
        }
        while try !pendingRemovals(server).isEmpty { sched_yield() }
        let read = Mutex<Node?>(nil)
        database.snapshot { root, _, _ in read.withLock { $0 = root } }
        database.queue.sync {}
        #expect(read.withLock { $0 } == .null)
    }

    /// Each search holds the tree that it scans.
    @Test func searches_ofManyAccounts_takeTurns() throws {
        let server = try server(places: [])
        let lanes = server.server.lanes
        let jobs = Mutex<[@Sendable () -> Void]>([])
        let rules = try RuleSet(parsing: #"{"rules":{"votes":{"$p":{"$u":{".account":"$u"}}}}}"#)
        let database = Database(
            name: "turns", rules: rules, lanes: lanes.count,
            background: BackgroundWork { job in jobs.withLock { $0.append(job) } },
            format: HubFormat(), outlet: { lane, deliveries in lanes[lane].deliver(deliveries) }, scheduler: .system())
        let removal = AccountRemoval(
            [], ofDatabase: database.name, databases: { [database] }, lane: lanes[0], accounts: try #require(server.server.accounts),
            scheduler: .system(), logger: Logger(label: "test"))
        for uid in ["ana", "bo", "cy"] {
            try add(uid, to: server)
            try delete(uid, from: server, announcing: false)
        }
        removal.resume()
        for waiting in [2, 1, 0] {
            #expect(becomes { removal.searchesWaiting == waiting && jobs.withLock { $0.count } == 1 })
            if let job = jobs.withLock({ $0.isEmpty ? nil : $0.removeFirst() }) { job() }
        }
        #expect(try becomes { try pendingRemovals(server).isEmpty })
    }

    /// A disk that refuses at first.
    private final class Refusing: Journal {
        let refusals = Atomic<Int>(0)
        let isWell = Atomic<Bool>(false)
        var isImmediate: Bool { false }

        typealias Done = @Sendable (Result<Void, JournalError>) -> Void

        func append(_ batch: JournalBatch, completion: @escaping Done) {
            DispatchQueue.global().async { [self] in
                if isWell.load(ordering: .acquiring) { return completion(.success(())) }
                refusals.add(1, ordering: .relaxed)
                completion(.failure(.diskFull(reason: "test")))
            }
        }

        var stagedBytes: Int { .max }
        func stage(_ operations: [JournalOperation], completion: @escaping @Sendable (Result<JournalStage, JournalError>) -> Void) {}
        func tail(from position: UInt64, _ receive: @escaping @Sendable (TailEvent) -> Void) -> JournalTail { JournalTail() }
        func store(_ snapshot: JournalSnapshot, completion: @escaping Done) {}
        func whenSnapshotDue(_ ask: @escaping @Sendable () -> Void) {}
        func truncate(upTo sequence: UInt64, completion: @escaping Done) {}
        func close(completion: @escaping Done) {}
    }

    @Test func refusedRemoval_isTriedAgain_andOwedUntilItIsStored() throws {
        let server = try server(places: [])
        let (lanes, log) = (server.server.lanes, Refusing())
        let database = Database(
            name: "refusing", rules: .allowAll, start: (["users": ["ana": 1]], 1), journal: log, lanes: lanes.count, format: HubFormat(),
            outlet: { lane, deliveries in lanes[lane].deliver(deliveries) }, scheduler: .system())
        let clock = FakeClock()
        func removal() throws -> AccountRemoval {
            AccountRemoval(
                [try AccountPlace(parsing: "/users/$uid")], ofDatabase: database.name, databases: { [database] }, lane: lanes[0],
                accounts: try #require(server.server.accounts), scheduler: clock.scheduler, logger: Logger(label: "test"))
        }
        try add("ana", to: server)
        try delete("ana", from: server, announcing: false)
        var first: AccountRemoval? = try removal()
        first?.resume()
        #expect(becomes { clock.waiting == 1 }, "it waits for the scheduler, and for nothing else")
        clock.advance(seconds: 1)
        #expect(becomes { clock.waiting == 1 }, "refused again")
        #expect(try pendingRemovals(server) == ["ana"])
        weak let gone = first
        first = nil
        #expect(becomes { gone == nil }, "what waits does not keep it")
        log.isWell.store(true, ordering: .releasing)
        let second = try removal()
        second.resume()
        #expect(try becomes {
            clock.advance(seconds: 1)
            return try pendingRemovals(server).isEmpty
        })
        let read = Mutex<Node?>(nil)
        let done = DispatchSemaphore(value: 0)
        database.snapshot { root, _, _ in
            read.withLock { $0 = root }
            done.signal()
        }
        done.wait()
        #expect(read.withLock { $0 } == .null)
    }
}
