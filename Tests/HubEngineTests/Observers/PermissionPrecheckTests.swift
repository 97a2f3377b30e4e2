import HubEngine
import Journal
import JSONTree
import SecurityRules
import Synchronization
import Testing
import TestSupport

/// Writes on which the read permission of many observers depends: their permissions are checked in the background, and only the writing client waits.
@Suite(.timeLimit(.minutes(30))) struct PermissionPrecheckTests {
    private static let rules = #"""
        {"rules":{".write":true,"gate":{".read":true},"d":{"$x":{".read":
        "(root.child('gate').val() == 1 && root.child('a').exists()) || (root.child('gate').val() == 2 && root.child('b').exists())"}}}}
        """#

    private struct World {
        let hub: EngineHarness
        let watchers: [Client]

        /// Twenty observers whose permission depends on `gate`.
        init(
            checksAtOnce: Int = 19, rules: String = PermissionPrecheckTests.rules, log: (any Journal)? = nil,
            budget: MemoryBudget = MemoryBudget(1 << 30), _ change: (inout EngineLimits) -> Void = { _ in }
        ) throws {
            var limits = EngineLimits.patient
            limits.checksAtOnce = checksAtOnce
            change(&limits)
            hub = EngineHarness(
                rules: try RuleSet(parsing: rules), root: ["gate": 1, "a": true, "b": true], log: log, limits: limits, budget: budget)
            watchers = (0..<20).map { _ in Client.make() }
            for (i, watcher) in watchers.enumerated() { _ = hub.ask(watcher, .listen(Self.place(i))) }
        }

        static func place(_ i: Int) -> Path { Path(["d", Key("c\(i)")]) }

        /// A write has been submitted and background work is held: the write is prepared, and the permission check is about to run.
        func prepare() {
            hub.settle()
            hub.work.step()
            hub.settle()
        }

        var areCancelled: Bool { watchers.enumerated().allSatisfy { hub.take($1) == ["cancelled \(Self.place($0))"] } }
        var gotNothing: Bool { watchers.allSatisfy { hub.take($0).isEmpty } }
        var counters: EngineCounters {
            hub.settle()
            return hub.database.counters
        }
    }

    @Test(arguments: [20, 19]) func manyObservers_areAskedAboutBesideTheQueue(checksAtOnce: Int) throws {
        let world = try World(checksAtOnce: checksAtOnce)
        let (hub, writer, other) = (world.hub, Client.make(), Client.make())
        let asked = world.counters.observersAsked
        hub.work.close()
        hub.database.submit(.put("gate", 2), from: writer)
        #expect(hub.ask(other, .put("o", 1), .get("gate")) == ["ok 0", checksAtOnce == 20 ? "value 1 2" : "value 1 1"])
        #expect(hub.take(writer).isEmpty == (checksAtOnce == 19))
        hub.work.open()
        #expect(hub.take(writer).isEmpty == (checksAtOnce == 20))
        #expect(world.counters.observersAsked - asked == (checksAtOnce == 20 ? 20 : 0))
        #expect(world.counters.observerPrechecks == (checksAtOnce == 20 ? 0 : 1))
        #expect(world.gotNothing)
        // Their permission depends on another place by now.
        _ = hub.ask(other, .put("a", .null))
        #expect(world.gotNothing)
        _ = hub.ask(other, .put("b", .null))
        #expect(world.areCancelled)
    }

    @Test func refusedObservers_areToldNothingOfTheWrite() throws {
        let world = try World()
        let writer = Client.make()
        #expect(world.hub.ask(writer, .merge(["gate": 3, "d/c0": 5, "d/c1": 6])) == ["ok 0"])
        #expect(world.areCancelled)
        _ = world.hub.ask(writer, .put("d/c0", 7))
        #expect(world.gotNothing)
    }

    @Test func whatIsWrittenMeanwhile_counts() throws {
        let world = try World()
        let (hub, writer, other) = (world.hub, Client.make(), Client.make())
        hub.work.close()
        hub.database.submit(.put("gate", 2), from: writer)
        world.prepare()
        // While the gate is 1, no permission depends on `b`.
        #expect(hub.ask(other, .put("b", .null), .put("d/c0", 1)) == ["ok 0", "ok 1"])
        #expect(hub.take(world.watchers[0]) == ["d d/c0 1"])
        hub.work.open()
        #expect(hub.take(writer) == ["ok 0"])
        #expect(world.areCancelled)
        #expect(world.counters.observerPrechecks == 2)
    }

    @Test func whoComesMeanwhile_isAskedAboutAsWell() throws {
        let world = try World()
        let (hub, writer, late) = (world.hub, Client.make(), Client.make())
        hub.work.close()
        hub.database.submit(.put("gate", 3), from: writer)
        world.prepare()
        #expect(hub.ask(late, .listen("d/late")) == ["ok 0"])
        hub.work.open()
        #expect(hub.take(late) == ["cancelled /d/late"])
        #expect(world.areCancelled)
    }

    @Test func newRules_areAskedInstead() throws {
        let world = try World()
        let (hub, writer) = (world.hub, Client.make())
        hub.work.close()
        hub.database.submit(.put("gate", 3), from: writer)
        world.prepare()
        hub.database.replace(.allowAll)
        hub.work.open()
        #expect(hub.take(writer) == ["ok 0"])
        #expect(world.gotNothing)
    }

    @Test(arguments: [true, false]) func disconnectWrites_waitAsWell(isReplaced: Bool) throws {
        let world = try World()
        let (hub, leaving, next, other) = (world.hub, Client.make(), Client.make(), Client.make())
        _ = hub.ask(leaving, .begin(sessionID: "one", replacing: nil), .onDisconnect([TreeWrite("gate", WriteValue(3))]))
        let asked = world.counters.observersAsked
        hub.work.close()
        if isReplaced {
            hub.database.submit(.begin(sessionID: "two", replacing: "one"), from: next)
        } else {
            hub.database.submit(.end, from: leaving)
        }
        hub.database.submit(.get("gate"), from: next)
        #expect(hub.ask(other, .get("gate")) == ["value 0 1"])
        #expect(world.gotNothing)
        hub.work.open()
        #expect(world.areCancelled)
        #expect(hub.take(next) == [isReplaced ? "value 0 3" : "value 0 1"])
        #expect(world.counters.observersAsked == asked)
        #expect(hub.ask(other, .get("gate")) == ["value 0 3"])
    }

    @Test func whatIsDeniedOfDisconnectWrites_countsForNothing() throws {
        let world = try World(
            rules: #"""
                {"rules":{"gate":{".write":true},"z":{".write":"auth.uid == 'u'"},"d":{"$x":{".read":
                "root.child('z').val() != 1 && root.child('gate').val() != 9"}}}}
                """#)
        let (hub, leaving, admin) = (world.hub, Client.make(), Client.make())
        _ = hub.ask(admin, .identify(.admin))
        #expect(
            hub.ask(
                leaving, .identify(Identity(auth: ["uid": "u"])), .onDisconnect([TreeWrite("z", WriteValue(1))]),
                .onDisconnect([TreeWrite("gate", WriteValue(2))]), .signOut
            ).suffix(3) == ["ok 1", "ok 2", "ok 3"])
        #expect(hub.ask(leaving, .end) == [])
        #expect(world.gotNothing)
        #expect(hub.ask(admin, .get("gate"), .get("z")) == ["value 0 2", "value 1 null"])
        _ = hub.ask(admin, .put("gate", 9))
        #expect(world.areCancelled)
    }

    @Test func largeWrites_waitAsWell() throws {
        let world = try World { $0.largeWritePlaces = 2 }
        let asked = world.counters.observersAsked
        #expect(world.hub.ask(.make(), .merge(["gate": 3, "x/a": 1, "x/b": 2, "d/c3": 4])) == ["ok 0"])
        #expect(world.areCancelled)
        #expect(world.counters.observersAsked == asked)
    }

    @Test func whatIsAskedAbout_isHeldInTheBudget_untilTheWriteIsMade() throws {
        let budget = MemoryBudget(1 << 20)
        let world = try World(budget: budget)
        let (hub, writer) = (world.hub, Client.make())
        hub.work.close()
        hub.database.submit(.put("gate", 2), from: writer)
        world.prepare()
        #expect(budget.used(for: .parsing) >= 20 * 512)
        hub.work.open()
        #expect(hub.take(writer) == ["ok 0"])
        #expect(budget.used == 0)
    }

    @Test func withoutRoomForTheQuestion_aWriteIsRefused_andASessionEndsAtOnce() throws {
        let budget = MemoryBudget(19 * 512)
        let world = try World(budget: budget)
        let (hub, writer) = (world.hub, Client.make())
        #expect(hub.ask(writer, .put("gate", 3)) == ["error 0 unavailable"])
        #expect(world.gotNothing)
        #expect(hub.ask(writer, .onDisconnect([TreeWrite("gate", WriteValue(3))]), .end) == ["ok 0"])
        #expect(world.areCancelled)
        #expect(world.counters.observerPrechecks == 0)
        #expect(budget.used == 0)
    }

    @Test func hubsOwnWrites_waitAsWell() throws {
        let world = try World()
        let asked = world.counters.observersAsked
        #expect(world.hub.ask(.make(), .system([TreeWrite("gate", WriteValue(3))], .accountDeletion)) == ["ok 0"])
        #expect(world.areCancelled)
        #expect(world.counters.observersAsked == asked && world.counters.observerPrechecks == 1)
        #expect(world.counters.systemCommits == [.accountDeletion: 1])
    }

    @Test func placesThatAreWrittenInTurn_countAgainstTheTries() throws {
        let world = try World { $0.preparations = 2 }
        let (hub, writer) = (world.hub, Client.make())
        // No second background check: permissions are then checked on the queue.
        let asked = world.counters.observersAsked
        hub.work.close()
        hub.database.submit(.put("gate", 2), from: writer)
        world.prepare()
        #expect(hub.ask(.make(), .put("b", .null)) == ["ok 0"])
        hub.work.open()
        #expect(hub.take(writer) == ["ok 0"])
        #expect(world.areCancelled)
        #expect(world.counters.observerPrechecks == 1 && world.counters.observersAsked - asked == 20)
    }

    @Test func whatItsClientAsksBehindIt_keepsItsOrder() throws {
        let world = try World()
        let (hub, writer) = (world.hub, Client.make())
        hub.work.close()
        #expect(hub.ask(writer, .put("gate", 2), .get("gate"), .put("gate", 1), .get("gate")) == [])
        hub.work.open()
        #expect(hub.take(writer) == ["ok 0", "value 1 2", "ok 2", "value 3 1"])
        #expect(world.gotNothing)
    }

    @Test func revokedClient_isToldNothingMore_whileItsDisconnectWritesWait() throws {
        let world = try World()
        let (hub, leaving, other) = (world.hub, Client.make(), Client.make())
        _ = hub.ask(leaving, .begin(sessionID: "one", replacing: nil), .onDisconnect([TreeWrite("gate", WriteValue(3))]), .listen("d/own"))
        hub.work.close()
        hub.database.submit(.revoke(notice: Array("notice".utf8)), from: leaving)
        _ = hub.ask(other, .put("d/own", 1))
        #expect(hub.take(leaving) == [], "its rights are over")
        hub.work.open()
        #expect(hub.take(leaving) == ["notice", "close"])
        #expect(world.areCancelled)
    }

    @Test func whenTheLogRefusesMeanwhile_theWriteIsRefused_andTheObserversStay() throws {
        let log = FlakyLog(root: ["gate": 1, "a": true, "b": true])
        let world = try World(log: log)
        let (hub, writer, other) = (world.hub, Client.make(), Client.make())
        hub.work.close()
        _ = hub.ask(other, .put("o", 1))
        #expect(hub.ask(writer, .put("gate", 3)) == [])
        world.prepare()
        log.refuse()
        hub.settle()
        hub.work.open()
        #expect(hub.take(other) == ["error 0 unavailable"])
        #expect(hub.take(writer) == ["error 0 unavailable"])
        #expect(world.gotNothing)
    }

    /// Clients with disconnect writes, in a hub whose log takes no commits.
    private func refusing(_ log: FlakyLog, leaving: [(Client, TreeWrite)]) throws -> World {
        let world = try World(log: log)
        for (client, write) in leaving { _ = world.hub.ask(client, .onDisconnect([write])) }
        log.completeAll()
        _ = world.hub.ask(.make(), .put("o", 1))
        log.refuse()
        world.hub.settle()
        return world
    }

    /// The log is retried; everything appended until then becomes durable.
    private func recover(_ world: World, _ log: FlakyLog) {
        world.hub.time.advance(ms: 7_200_000)
        _ = world.hub.ask(.make(), .get("o"))
        log.completeAll()
        world.hub.settle()
    }

    @Test func whatSessionsLeft_whileTheLogRefused_waitsAsWell_andComesFirst() throws {
        let log = FlakyLog(root: ["gate": 1, "a": true, "b": true])
        let (one, two, other) = (Client.make(), Client.make(), Client.make())
        let world = try refusing(log, leaving: [(one, TreeWrite("gate", WriteValue(3))), (two, TreeWrite("gate", WriteValue(7)))])
        let hub = world.hub
        _ = hub.ask(one, .end)
        let asked = world.counters.observersAsked
        hub.work.close()
        recover(world, log)
        #expect(log.isIdle, "the rules are being asked")
        #expect(hub.ask(other, .put("gate", 1), .get("gate")) == ["error 0 unavailable", "value 1 1"])
        _ = hub.ask(two, .end)
        #expect(log.isIdle && world.gotNothing)
        hub.work.open()
        hub.settle()
        log.completeAll()
        #expect(world.areCancelled)
        #expect(world.counters.observersAsked == asked)
        #expect(log.root.child("gate") == 7, "in their order")
        #expect(log.sessions.isEmpty)
        hub.database.submit(.put("gate", 1), from: other)
        hub.settle()
        log.completeAll()
        #expect(hub.take(other) == ["ok 0"])
    }

    @Test(arguments: [false, true]) func endsThatAreRefusedAgain_areOwedOnceEach_inTheirOrder(areAllWritten: Bool) throws {
        let log = FlakyLog(root: ["gate": 1, "a": true, "b": true])
        let clients = (0..<4).map { _ in Client.make() }
        let values: [Node] = [1, 2, 3, 4]
        let world = try refusing(
            log, leaving: zip(clients, values).map { ($0, TreeWrite($1 == 3 ? "gate" : "x", WriteValue($1))) })
        let hub = world.hub
        for client in clients.prefix(3) { _ = hub.ask(client, .end) }
        hub.work.close()
        hub.time.advance(ms: 7_200_000)
        log.complete()
        hub.settle()
        // The first two are written, and the check for the third is about to run. Meanwhile the fourth session ends.
        _ = hub.ask(clients[3], .end)
        #expect(!log.isIdle)
        if areAllWritten {
            hub.work.open()
            hub.settle()
        }
        log.refuse()
        hub.settle()
        let pendingValues = Mutex<[Node]>([])
        hub.database.snapshot { _, _, pending in pendingValues.withLock { $0 = pending.map { $0.writes.writes[0].value.node } } }
        hub.settle()
        #expect(pendingValues.withLock { $0 } == values, "in the order of their ends, each once")
        hub.work.open()
        hub.settle()
        recover(world, log)
        log.completeAll()
        hub.settle()
        log.completeAll()
        #expect(log.root.child("x") == 4 && log.root.child("gate") == 3 && log.sessions.isEmpty)
    }

    @Test func endThatIsTakenBack_whileOthersComeFirst_isWrittenOnce() throws {
        let log = FlakyLog(root: ["gate": 1, "a": true, "b": true])
        let (one, two, three) = (Client.make(), Client.make(), Client.make())
        var increment = WriteValue(0)
        increment.deferred = [.init(path: .root, target: .value, value: .increment(1))]
        let world = try refusing(
            log,
            leaving: [
                (one, TreeWrite("x", WriteValue(1))), (two, TreeWrite("gate", WriteValue(3))), (three, TreeWrite("n", increment)),
            ])
        let hub = world.hub
        _ = (hub.ask(one, .end), hub.ask(two, .end))
        hub.work.close()
        hub.time.advance(ms: 7_200_000)
        _ = hub.ask(.make(), .get("o"))
        log.complete()
        hub.settle()
        // The first client's disconnect writes wait for the log, and the third's behind them.
        _ = hub.ask(three, .end)
        #expect(!log.isIdle)
        log.refuse()
        hub.settle()
        hub.work.open()
        hub.settle()
        #expect(log.isIdle, "refused again")
        recover(world, log)
        log.completeAll()
        hub.settle()
        log.completeAll()
        #expect(log.root.child("x") == 1 && log.root.child("gate") == 3)
        #expect(log.root.child("n") == 1)
        #expect(log.sessions.isEmpty)
        #expect(world.areCancelled)
    }

    @Test func whenTheLogRefusesAfterwards_theObserversAreBack() throws {
        let log = FlakyLog(root: ["gate": 1, "a": true, "b": true])
        let world = try World(log: log)
        let (hub, writer) = (world.hub, Client.make())
        #expect(hub.ask(writer, .put("gate", 3)) == [])
        #expect(world.counters.observerPrechecks == 1)
        #expect(world.gotNothing, "it is not durable")
        log.refuse()
        #expect(hub.take(writer) == ["error 0 unavailable"])
        #expect(world.gotNothing)
        hub.time.advance(ms: 7_200_000)
        _ = hub.ask(.make(), .get("gate"))
        log.completeAll()
        hub.database.submit(.put("d/c0", 1), from: writer)
        hub.settle()
        log.completeAll()
        #expect(hub.take(world.watchers[0]) == ["d d/c0 1"])
    }
}
