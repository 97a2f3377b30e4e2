import HubEngine
import Journal
import JSONTree
import SecurityRules
import Synchronization
import TestSupport
import Testing

/// Notifications and events: stored with the commit that causes them, sent at least once and in order, repeated, and given up.
@Suite(.timeLimit(.minutes(30))) struct DeliverySchedulerTests {
    private static let rules = #"""
        {"rules":{".read":true,".write":true,
          "notes":{"$u":{"$n":{".notify":{"devices":"devices/$u","title":"newData.child('t').val()","acknowledged":"seen",
            "combine":"newData.child('g').val()","funnel":"reach/all"}}}},
          "alarms":{"$a":{".notify":{"devices":"devices/first","title":"'Alarm'","wait":0,"acknowledged":"seen",
            "unless":"newData.child('safe').exists()","after":60,"then":{"devices":"devices/second","title":"'No answer'"}}}},
          "feedback":{"$f":{".webhook":"web"}},
          "news":{"$k":{".inbox":{"to":"notes/$u/$k","each":"subs/$u","value":{"t":"newData.val()"}}}}}}
        """#

    private static let phone: Node = ["kind": "webpush", "endpoint": "https://push.example/1"]
    private static let root: Node = [
        "devices": ["a": ["d1": phone], "b": ["d1": phone, "d2": ["kind": "ntfy", "topic": "x"]], "first": ["d": phone], "second": ["d": phone]],
    ]

    private func harness(_ sender: TestSender, root: Node = root, limits: EngineLimits = EngineLimits()) throws -> RestartHarness {
        try RestartHarness(Self.rules, root: root, limits: limits, sender: sender)
    }

    @Test func notification_isSent_afterTheWait_toEachDevice() throws {
        let sender = TestSender()
        let it = try harness(sender)
        #expect(it.put("notes/b/1", ["t": "Lunch"]) == "ok 0")
        #expect(it.stored.deliveries.count == 1)
        it.advance(ms: 4_999)
        #expect(sender.take() == [])
        it.advance(ms: 10)
        #expect(sender.take().sorted() == ["Lunch → /devices/b/d1", "Lunch → /devices/b/d2"])
        #expect(it.stored.deliveries.isEmpty && it.counters.deliveriesDone == 2 && it.counters.deliveriesPending == 0)
        #expect(it.root.child("reach") == ["all": ["sent": 2, "delivered": 2]])
        it.advance(ms: 100_000)
        #expect(sender.take() == [])
    }

    /// Acknowledged, removed, or nobody to reach: nothing is sent.
    @Test func notification_isNotSent_ifNobodyNeedsIt() throws {
        let sender = TestSender()
        let it = try harness(sender)
        for (n, path, value) in [("1", "notes/a/1/seen", true), ("2", "notes/a/2", .null)] as [(String, Path, Node)] {
            _ = it.put(Path(["notes", "a", Key(n)]), ["t": "x"])
            it.advance(ms: 3_000)
            _ = it.put(path, value)
            it.advance(ms: 3_000)
        }
        _ = it.put("notes/nobody/1", ["t": "x"])
        it.advance(ms: 6_000)
        #expect(sender.take() == [] && it.stored.deliveries.isEmpty)
        #expect(it.root.child("reach") == ["all": ["skipped": 2, "unreachable": 1]])
    }

    @Test func rowsOfAnInbox_areNotified() throws {
        let sender = TestSender()
        var root = Self.root
        root.set(.object((0..<50).map { (Key("u\($0)"), ["x": true]) }), at: "subs")
        for i in 0..<50 { root.set(Self.phone, at: Path(["devices", Key("u\(i)"), "d"])) }
        var limits = EngineLimits()
        (limits.systemWrites, limits.continuedAtOnce) = (20, 7)
        let it = try harness(sender, root: root, limits: limits)
        _ = it.put("news/k", "Hello")
        it.advance(ms: 6_000)
        it.advance(ms: 50)
        #expect(Set(sender.take()) == Set((0..<50).map { "Hello → /devices/u\($0)/d" }))
        #expect(it.stored.deliveries.isEmpty)
    }

    @Test func rowsOfOneMoment_areCombined() throws {
        let sender = TestSender()
        let it = try harness(sender)
        for n in 1...14 {
            _ = it.put(Path(["notes", "a", Key("\(n + 100)")]), ["t": .string("n\(n)"), "g": "near"])
            it.advance(ms: 10)
        }
        _ = it.put("notes/a/1", ["t": "apart"])
        _ = it.put("notes/a/2", ["t": "other", "g": "far"])
        it.advance(ms: 6_000)
        let lines = (1...10).map { "n\($0)" }.joined(separator: "\n")
        #expect(sender.take().sorted() == [
            "apart → /devices/a/d1", "n1 + 13: \(lines)\n+ 4 → /devices/a/d1", "other → /devices/a/d1",
        ])
        #expect(it.root.child("reach") == ["all": ["sent": 3, "delivered": 3, "combined": 13]])
    }

    @Test func escalation_followsUnlessAnswered() throws {
        let sender = TestSender()
        let it = try harness(sender)
        _ = it.put("alarms/1", ["by": "x"])
        it.advance(ms: 100)
        #expect(sender.take() == ["Alarm → /devices/first/d"])
        it.advance(ms: 60_000)
        #expect(sender.take() == ["No answer → /devices/second/d"])

        for answer in ["safe", "seen"] as [Key] {
            let place = Path(["alarms", answer])
            _ = it.put(place, ["by": "x"])
            it.advance(ms: 30_000)
            #expect(sender.take() == ["Alarm → /devices/first/d"])
            _ = it.put(place.appending(answer), true)
            it.advance(ms: 31_000)
            #expect(sender.take() == [], "\(answer)")
        }
        // With rules that no longer say what answers it, it is sent: somebody may be in danger.
        _ = it.put("alarms/2", ["by": "x"])
        it.advance(ms: 100)
        _ = sender.take()
        try it.deploy(#"{"rules":{".read":true,".write":true}}"#)
        it.advance(ms: 61_000)
        #expect(sender.take() == ["No answer → /devices/second/d"])
    }

    @Test func failure_isRepeated_withGrowingPauses_untilItExpires() throws {
        let sender = TestSender { _ in .later(afterMs: nil, reason: "answered 503") }
        var limits = EngineLimits()
        limits.clockCheckMs = 86_400_000
        let it = try harness(sender, limits: limits)
        _ = it.put("feedback/1", ["x": 1])
        var (times, start) = ([Int64](), it.hub.time.ms)
        for _ in 0..<1_000 where it.stored.deliveries.isEmpty == false && it.counters.deadLetters == 0 {
            let wait = max(1, (try Self.due(it) ?? 0) - it.hub.time.ms)
            it.advance(ms: wait)
            if !sender.take().isEmpty {
                times.append((it.hub.time.ms - start) / 1000)
                start = it.hub.time.ms
            }
        }
        #expect(times.count > 60, "\(times.count)")
        #expect(zip(times.dropFirst(), [10, 20, 40, 80, 160, 320, 640, 1280, 2560, 3600] as [Int64]).allSatisfy { $0 >= $1 && $0 <= $1 * 5 / 4 + 1 }, "\(times)")
        let dead = Self.outbox(it, dead: true)
        guard case .dead(let reason, _)? = dead.first?.state else { throw Missing() }
        #expect(reason.hasPrefix("answered 503 (attempt ") && dead.count == 1 && dead[0].webhook == "web" && dead[0].source == "feedback/1")
        #expect(it.counters.deliveriesRetried == times.count - 1 && it.counters.deliveriesFailed == 1)
    }

    private struct Missing: Error {}

    /// When the first waiting delivery is due.
    private static func due(_ it: RestartHarness) throws -> Int64? {
        guard case .waiting(let due)? = outbox(it, dead: false).first?.state else { return nil }
        return due
    }

    private static func outbox(_ it: RestartHarness, dead: Bool, after: String? = nil, limit: Int = 100) -> [OutboxEntry] {
        let found = Mutex<[OutboxEntry]>([])
        it.hub.database.outbox(dead: dead, after: after, limit: limit) { entries, _ in found.withLock { $0 = entries } }
        it.settle()
        return found.withLock { $0 }
    }

    /// The receiver's wait is longer than the back-off; a busy sender is asked again soon, and that is no attempt.
    @Test func waits_areTheReceivers_orShort() throws {
        let sender = TestSender { _ in .later(afterMs: 500_000, reason: "busy") }
        let it = try harness(sender)
        _ = it.put("feedback/1", 1)
        it.advance(ms: 10)
        #expect(sender.take().count == 1)
        it.advance(ms: 499_000)
        #expect(sender.take() == [])
        sender.set { _ in .notAttempted(reason: "full") }
        it.advance(ms: 2_000)
        #expect(sender.take().count >= 1)
        it.advance(ms: 500)
        sender.set { _ in .delivered }
        it.advance(ms: 2_000)
        #expect(sender.take().count >= 1 && it.stored.deliveries.isEmpty && it.counters.deliveriesRetried == 1)
    }

    @Test func goneDevice_isRemoved_unlessItsRowIsAnother() throws {
        let sender = TestSender { _ in .gone }
        let it = try harness(sender)
        _ = it.put("notes/a/1", ["t": "x"])
        it.advance(ms: 6_000)
        #expect(it.root.node(at: "devices/a").isNull && it.stored.deliveries.isEmpty && it.counters.deadLetters == 0)
        #expect(it.root.child("reach") == ["all": ["sent": 1, "failed": 1]])

        sender.set { _ in nil }
        _ = it.put("alarms/1", 1)
        it.advance(ms: 10)
        #expect(sender.openCount == 1)
        _ = it.put("devices/first/d", ["kind": "ntfy", "topic": "new"])
        sender.complete(.gone)
        it.settle()
        #expect(it.root.node(at: "devices/first/d/topic") == "new")
    }

    @Test func refusedDelivery_isADeadLetter_thatCanBeRetriedOrDiscarded() throws {
        let sender = TestSender { _ in .refused(reason: "no webhook of this name") }
        let it = try harness(sender)
        for n in 1...3 { _ = it.put(Path(["feedback", Key("\(n)")]), 1) }
        it.advance(ms: 10)
        _ = sender.take()
        #expect(it.counters.deadLetters == 3 && Self.outbox(it, dead: false).isEmpty)
        let letters = Self.outbox(it, dead: true)
        #expect(letters.map(\.source) == ["feedback/1", "feedback/2", "feedback/3"])
        #expect(Self.outbox(it, dead: true, limit: 2).map(\.id) == letters.prefix(2).map(\.id))
        #expect(Self.outbox(it, dead: true, after: letters[1].id).map(\.id) == [letters[2].id])

        sender.set { _ in .delivered }
        #expect(Self.change(it) { it.hub.database.retryDeliveries(.one(letters[1].id), $0) } == .success(1))
        it.advance(ms: 10)
        #expect(sender.takeIDs() == [letters[1].id] && it.counters.deadLetters == 2)
        #expect(Self.change(it) { it.hub.database.retryDeliveries(.one("none"), $0) } == .success(0))
        #expect(Self.change(it) { it.hub.database.discardDeliveries(.one(letters[0].id), $0) } == .success(1))
        // Also after a restart.
        it.restart()
        #expect(it.counters.deadLetters == 1)
        #expect(Self.change(it) { it.hub.database.retryDeliveries(.all, $0) } == .success(1))
        it.advance(ms: 10)
        #expect(sender.takeIDs() == [letters[2].id] && it.stored.deliveries.isEmpty)
    }

    private static func change(
        _ it: RestartHarness, _ call: (@escaping @Sendable (Result<Int, Failure>) -> Void) -> Void
    ) -> Result<Int, Failure>? {
        let found = Mutex<Result<Int, Failure>?>(nil)
        call { result in found.withLock { $0 = result } }
        it.settle()
        return found.withLock { $0 }
    }

    @Test func testNotification_goesToOneDevice() throws {
        let sender = TestSender()
        let it = try harness(sender)
        let found = Mutex<[Result<String, Failure>]>([])
        for place in ["devices/b/d2", "devices/b/none"] as [Path] {
            it.hub.database.sendTest(to: place, title: "Test", text: "Hello") { result in found.withLock { $0.append(result) } }
        }
        it.advance(ms: 50)
        #expect(sender.take() == ["Test: Hello → /devices/b/d2"])
        guard case .failure(let failure)? = found.withLock({ $0 }).last else { throw Missing() }
        #expect(failure.message == "There is no device at /devices/b/none.")
    }

    /// Of a webhook and a node, and of a device, one delivery at a time leaves, in the order of the commits.
    @Test func deliveries_ofOneLane_leaveInOrder() throws {
        let sender = TestSender { _ in nil }
        let it = try harness(sender)
        for n in 1...3 { _ = it.put("feedback/1", .int(Int64(n))) }
        _ = it.put("feedback/2", 1)
        it.advance(ms: 10)
        #expect(sender.take() == [#"web "creation" "/feedback/1""#, #"web "creation" "/feedback/2""#])
        sender.complete(.later(afterMs: nil, reason: "x"))
        sender.complete(.delivered)
        it.advance(ms: 9_000)
        #expect(sender.take() == [])
        it.advance(ms: 4_000)
        #expect(sender.take() == [#"web "creation" "/feedback/1""#])
        sender.complete(.delivered)
        it.advance(ms: 10)
        #expect(sender.take() == [#"web "change" "/feedback/1""#])
        sender.complete(.refused(reason: "x"))
        it.advance(ms: 10)
        #expect(sender.take() == [#"web "change" "/feedback/1""#])
    }

    @Test func fullSender_isNotAsked() throws {
        let sender = TestSender()
        sender.set(capacity: 0)
        let it = try harness(sender)
        _ = it.put("feedback/1", 1)
        it.advance(ms: 5_000)
        #expect(sender.take() == [])
        sender.set(capacity: 1)
        it.advance(ms: 1_000)
        #expect(sender.take().count == 1)
    }

    /// An urgent notification does not wait for one that failed before it.
    @Test func urgentDelivery_comesFirst() throws {
        let sender = TestSender { _ in .later(afterMs: nil, reason: "busy") }
        let it = try harness(sender)
        _ = it.put("notes/a/1", ["t": "one"])
        _ = it.put("notes/a/2", ["t": "two"])
        it.advance(ms: 6_000)
        #expect(sender.take() == ["one → /devices/a/d1"])
        sender.set { _ in .delivered }
        it.hub.database.sendTest(to: "devices/a/d1", title: "Test", text: "") { _ in }
        it.advance(ms: 100)
        #expect(sender.take() == ["Test → /devices/a/d1"])
        it.advance(ms: 20_000)
        #expect(sender.take() == ["one → /devices/a/d1", "two → /devices/a/d1"])
    }

    /// What was read or removed since the first attempt is not sent again, nor what has expired while the hub was down.
    @Test func uselessDelivery_isNotSentAgain() throws {
        let sender = TestSender { _ in .later(afterMs: nil, reason: "busy") }
        let it = try harness(sender)
        for n in 1...3 { _ = it.put(Path(["notes", Key("\(n)"), "1"]), ["t": .string("n\(n)")]) }
        for n in 1...3 { _ = it.put(Path(["devices", Key("\(n)"), "d"]), Self.phone) }
        it.advance(ms: 6_000)
        #expect(sender.take().count == 3)
        _ = it.put("notes/1/1/seen", true)
        _ = it.put("notes/2/1", .null)
        sender.set { _ in .delivered }
        it.advance(ms: 15_000)
        #expect(sender.take() == ["n3 → /devices/3/d"])

        _ = it.put("notes/a/1", ["t": "late"])
        it.advance(ms: 1_000)
        it.restart(afterMs: 90_000_000)
        it.advance(ms: 1_000)
        #expect(sender.take() == [] && it.stored.deliveries.isEmpty)
    }

    @Test func removal_isNotNotified_ifTheNodeIsBack() throws {
        let sender = TestSender()
        let rules = #"{"rules":{".read":true,".write":true,"fine":{"$u":{".notify":{"on":"removal","devices":"devices/a","title":"$u"}}}}}"#
        let it = try RestartHarness(rules, root: Self.root, sender: sender)
        for u in ["x", "y"] as [Key] {
            _ = it.put(Path(["fine", u]), 1)
            _ = it.put(Path(["fine", u]), .null)
        }
        it.advance(ms: 1_000)
        _ = it.put("fine/x", 2)
        it.advance(ms: 6_000)
        #expect(sender.take() == ["y → /devices/a/d1"])
    }

    @Test func quietHours_holdForRetries() throws {
        let sender = TestSender { _ in .later(afterMs: nil, reason: "busy") }
        let rules = #"""
            {"rules":{".read":true,".write":true,"n":{"$n":{".notify":{"devices":"devices/a","title":"'x'","wait":0,
              "quiet":{"from":"'1:00'","to":"'7:00'"}}}}}}
            """#
        // 0:59:55
        let it = try RestartHarness(rules, root: Self.root, now: 3_595_000, sender: sender)
        _ = it.put("n/1", 1)
        it.advance(ms: 100)
        #expect(sender.take() == ["x → /devices/a/d1"])
        sender.set { _ in .delivered }
        it.advance(ms: 3_600_000)
        #expect(sender.take() == [])
        it.advance(ms: 6 * 3_600_000 - 3_600_000 + 10_000)
        #expect(sender.take() == ["x → /devices/a/d1"])
    }

    @Test func mails_haveRoomOfTheirOwn() throws {
        let sender = TestSender()
        sender.set(mailCapacity: 0)
        var root = Self.root
        root.set(["kind": "email", "address": "a@example.org"], at: "devices/b/d1")
        let it = try harness(sender, root: root)
        _ = it.put("notes/b/1", ["t": "x"])
        it.advance(ms: 8_000)
        #expect(sender.take() == ["x → /devices/b/d2"])
        sender.set(mailCapacity: 1)
        it.advance(ms: 2_000)
        #expect(sender.take() == ["x → /devices/b/d1"])
    }

    /// A digest that fails stays one mail, and is tried again although its notifications are older than their time.
    @Test func failedDigest_isRepeatedAsAWhole() throws {
        let sender = TestSender { _ in .later(afterMs: nil, reason: "busy") }
        var root = Self.root
        root.set(["m": ["kind": "email", "address": "a@example.org", "every": 604_800]], at: "devices/a")
        var limits = EngineLimits()
        limits.clockCheckMs = 86_400_000
        let it = try harness(sender, root: root, limits: limits)
        for n in 1...3 { _ = it.put(Path(["notes", "a", Key("\(n)")]), ["t": .string("n\(n)")]) }
        it.advance(ms: 604_800_000)
        #expect(sender.take() == ["[n1, n2, n3] → /devices/a/m"])
        sender.set { _ in .delivered }
        it.advance(ms: 20_000)
        #expect(sender.take() == ["[n1, n2, n3] → /devices/a/m"] && it.stored.deliveries.isEmpty)
    }

    @Test func mailDigest_isOneMail() throws {
        let sender = TestSender()
        var root = Self.root
        root.set(["m": ["kind": "email", "address": "a@example.org", "every": 3600]], at: "devices/a")
        let it = try harness(sender, root: root)
        for n in 1...3 {
            _ = it.put(Path(["notes", "a", Key("\(n)")]), ["t": .string("n\(n)")])
            it.advance(ms: 60_000)
        }
        #expect(sender.take() == [])
        it.advance(ms: 3_600_000)
        #expect(sender.take() == ["[n1, n2, n3] → /devices/a/m"])
        #expect(it.stored.deliveries.isEmpty && it.root.child("reach") == ["all": ["sent": 3, "delivered": 3]])
    }

    /// Notifications beyond a limit are left out, and an event beyond one refuses the client's commit. The hub's own commits are never refused.
    @Test func tooManyDeliveries_areLeftOut_orRefuseTheEvent() throws {
        var limits = EngineLimits()
        (limits.deliveries, limits.systemWrites, limits.continuedAtOnce) = (3, 2, 2)
        var root = Self.root
        root.set(.object((0..<5).map { (Key("u\($0)"), ["x": true]) }), at: "subs")
        let it = try harness(TestSender { _ in nil }, root: root, limits: limits)
        for n in 1...4 { #expect(it.put(Path(["notes", "a", Key("\(n)")]), ["t": "x"]) == "ok 0") }
        #expect(it.stored.deliveries.count == 3 && it.counters.deliveriesLeftOut == 1)
        #expect(it.put("feedback/1", 1) == "error 0 unavailable" && it.root.child("feedback").isNull)
        // Rows of inboxes are written in any case.
        #expect(it.put("news/k", "x") == "ok 0")
        #expect(it.root.child("notes").childCount == 6 && it.counters.deliveriesLeftOut == 6 && it.stored.deliveries.count == 3)
    }

    @Test func oneRecipient_cannotFillTheOutbox() throws {
        var limits = EngineLimits()
        limits.deliveriesOfRecipient = 2
        let sender = TestSender()
        let it = try harness(sender, limits: limits)
        for n in 1...3 { #expect(it.put(Path(["notes", "a", Key("\(n)")]), ["t": .string("a\(n)")]) == "ok 0") }
        #expect(it.put("notes/b/1", ["t": "b"]) == "ok 0")
        it.advance(ms: 6_000)
        #expect(sender.take().sorted() == ["a1 → /devices/a/d1", "a2 → /devices/a/d1", "b → /devices/b/d1", "b → /devices/b/d2"])
        #expect(it.counters.deliveriesLeftOut == 1)
        #expect(it.put("notes/a/4", ["t": "a4"]) == "ok 0")
        it.advance(ms: 6_000)
        #expect(sender.take() == ["a4 → /devices/a/d1"])
    }

    @Test func bytes_areBounded() throws {
        var limits = EngineLimits()
        limits.deliveryBytes = 3_000
        let it = try harness(TestSender { _ in nil }, limits: limits)
        let text = Node.string(String(repeating: "x", count: 1_000))
        #expect(it.put("feedback/1", text) == "ok 0")
        #expect(it.put("feedback/2", text) == "error 0 unavailable")
        #expect(it.put("feedback/2", 1) == "ok 0")
    }

    /// A recipient's dead letters do not push out those of others.
    @Test func deadLetters_ofOneRecipient_areFew() throws {
        var limits = EngineLimits()
        limits.deadLettersOfRecipient = 2
        let it = try harness(TestSender { _ in .refused(reason: "x") }, limits: limits)
        _ = it.put("feedback/1", 1)
        for n in 1...4 { _ = it.put(Path(["notes", "a", Key("\(n)")]), ["t": .string("a\(n)")]) }
        it.advance(ms: 6_000)
        #expect(Self.outbox(it, dead: true).map(\.source) == ["feedback/1", "notes/a/3", "notes/a/4"])
    }

    @Test func deadLetters_makeRoomForNewOnes() throws {
        var limits = EngineLimits()
        limits.deadLetters = 3
        let it = try harness(TestSender { _ in .refused(reason: "x") }, limits: limits)
        for n in 1...5 {
            _ = it.put(Path(["feedback", Key("\(n)")]), 1)
            it.advance(ms: 10)
        }
        #expect(Self.outbox(it, dead: true).map(\.source) == ["feedback/3", "feedback/4", "feedback/5"])
        #expect(it.counters.deadLetters == 3)
    }

    @Test func notificationWithoutTitle_isADeadLetter() throws {
        let sender = TestSender()
        let it = try harness(sender)
        _ = it.put("notes/a/1", ["x": 1])
        it.advance(ms: 6_000)
        #expect(sender.take() == [])
        guard case .dead("the notification has no title", _)? = Self.outbox(it, dead: true).first?.state else { throw Missing() }
    }

    /// The hub is killed after any of its batches: each notification is sent, and a repetition has the id of the first.
    @Test func killedHub_sendsEverything_andNothingUnrecognisably() throws {
        func run(_ it: RestartHarness, _ sender: TestSender) -> [String] {
            it.advance(ms: 6_000)
            it.advance(ms: 60_000)
            return sender.takeIDs()
        }
        func begin(_ sender: TestSender) throws -> RestartHarness {
            let it = try harness(sender)
            _ = it.put("notes/b/1", ["t": "one"])
            _ = it.put("feedback/1", 1)
            _ = it.put("alarms/1", 1)
            return it
        }
        let sender = TestSender()
        let first = try begin(sender)
        let expected = Set(run(first, sender))
        #expect(expected.count == 5)
        for batch in 0...first.batches {
            let (sender, again) = (TestSender(), TestSender())
            let whole = try begin(sender)
            _ = run(whole, sender)
            let state = whole.boundaries[min(batch, whole.boundaries.count - 1)]
            let it = try RestartHarness(Self.rules, root: Self.root, sender: again)
            try it.restart(after: 0) { _ in state }
            let sent = run(it, again)
            #expect(Set(sent).count == sent.count, "\(batch): \(sent)")
            // All that was stored by then and not yet done, under the ids of the first time.
            #expect(Set(sent).isSubset(of: expected), "\(batch): \(sent)")
            if state.root.node(at: "alarms/1").exists { #expect(it.stored.deliveries.isEmpty, "\(batch)") }
            let missing = expected.subtracting(sent).filter { id in
                state.deliveries.ascending(from: nil).contains { key, _ in id.hasPrefix(key.string.split(separator: ":")[0]) }
            }
            let open = missing.filter { id in !Self.wasDone(id, in: state) }
            #expect(open.isEmpty, "\(batch): \(open)")
        }
    }

    /// Whether a delivery that the first run sent was already done in a state: its notification is split, and its own delivery is gone.
    private static func wasDone(_ id: String, in state: RestartHarness.Stored) -> Bool {
        let notice = String(id.split(separator: " ")[0])
        var isSplit = false
        for (key, node) in state.deliveries.ascending(from: nil) {
            if key.string.hasPrefix(notice + ":") { isSplit = true }
            if case .string(let device) = node.child("device").leaf, key.string.hasPrefix(notice), id.hasSuffix("/" + device.string) { return false }
        }
        return isSplit
    }

    /// Nothing is sent for a commit before it is on disk, nor for one that is rolled back.
    @Test func nothing_isSent_beforeTheCommitIsDurable() throws {
        let sender = TestSender()
        let log = FlakyLog(root: Self.root)
        let hub = EngineHarness(rules: try RuleSet(parsing: Self.rules), root: Self.root, log: log, sender: sender)
        let client = Client.make()
        _ = hub.ask(client, .put("feedback/1", 1))
        hub.time.advance(ms: 100) { hub.settle() }
        #expect(sender.take() == [] && !log.isIdle)
        log.complete()
        hub.settle()
        hub.time.advance(ms: 100) { hub.settle() }
        #expect(sender.take() == [#"web "creation" "/feedback/1""#])
        log.completeAll()
        hub.settle()

        _ = hub.ask(client, .put("feedback/2", 1))
        hub.time.advance(ms: 100) { hub.settle() }
        log.complete(.failure(.diskFull))
        hub.settle()
        hub.time.advance(ms: 10_000) {
            log.completeAll()
            hub.settle()
        }
        #expect(sender.take() == [])
    }
}
