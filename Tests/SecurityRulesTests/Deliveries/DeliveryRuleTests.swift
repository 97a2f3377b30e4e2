import JSONTree
import Testing

@testable import SecurityRules

/// `.notify` and `.webhook`: what leaves the hub because of a commit.
@Suite(.timeLimit(.minutes(30))) struct DeliveryRuleTests {
    static func rules(_ places: String) throws -> RuleSet { try RuleSet(parsing: "{\"rules\":{\(places)}}") }

    /// The deliveries of some writes at time 1,000,000.
    static func deliveries(
        _ rules: RuleSet, _ old: String, _ writes: [(String, String)], limits: ConsequenceLimits = ConsequenceLimits()
    ) throws -> [RuleDelivery] {
        let old = try Node(json: old)
        var new = old
        for (path, value) in writes { new.set(try Node(json: value), at: Path(relative: path)) }
        return try rules.consequences(
            of: writes.map { Path(relative: $0.0) }, old: old, new: new, by: .administrator, now: 1_000_000, limits: limits
        ).deliveries
    }

    private static let inbox = #"""
        "notifications":{"$u":{"$n":{".notify":{
          "devices":"devices/$u","if":"newRoot.child('settings').child($u).child('push').val() == true",
          "title":"newData.child('title').val()","body":"'by ' + newData.child('by').val()","url":"'/n/' + $n",
          "urgent":"newData.child('severity').val() == 'urgent'","acknowledged":"read_at"}}}}
        """#

    @Test(arguments: [
        // a new row of a person who wants it
        (#"{"settings":{"a":{"push":true}}}"#, [("notifications/a/n1", #"{"title":"Lunch","by":"Bo"}"#)],
            #"[{"devices":"/devices/a","title":"Lunch","body":"by Bo","url":"/n/n1","wait":5000}]"#),
        (#"{"settings":{"a":{"push":true}}}"#, [("notifications/a/n1", #"{"title":"Fire","severity":"urgent","by":"Bo"}"#)],
            #"[{"devices":"/devices/a","title":"Fire","body":"by Bo","url":"/n/n1","urgent":true,"wait":5000}]"#),
        // one who does not, a change, a removal, an equal value
        (#"{"settings":{"a":{"push":false}}}"#, [("notifications/a/n1", #"{"title":"Lunch"}"#)], "[]"),
        (#"{"settings":{"a":{"push":true}},"notifications":{"a":{"n1":{"title":"x"}}}}"#, [("notifications/a/n1/read_at", "5")], "[]"),
        (#"{"settings":{"a":{"push":true}},"notifications":{"a":{"n1":{"title":"x"}}}}"#, [("notifications/a", "null")], "[]"),
        (#"{"settings":{"a":{"push":true}},"notifications":{"a":{"n1":{"title":"x"}}}}"#, [("notifications/a/n1", #"{"title":"x"}"#)], "[]"),
        // settings as they are after the commit; several rows of one write, each once although two writes made it
        ("null", [("settings/a/push", "true"), ("notifications/a/n1/title", #""x""#), ("notifications/a/n1/by", #""Bo""#)],
            #"[{"devices":"/devices/a","title":"x","body":"by Bo","url":"/n/n1","wait":5000}]"#),
        (#"{"settings":{"a":{"push":true},"b":{"push":true}}}"#, [("notifications", #"{"a":{"n1":{"title":"x"}},"b":{"n2":{"title":"y"}}}"#)],
            #"[{"devices":"/devices/a","title":"x","url":"/n/n1","wait":5000},{"devices":"/devices/b","title":"y","url":"/n/n2","wait":5000}]"#),
    ]) func rows_areNotifiedOnce(_ old: String, _ writes: [(String, String)], _ expected: String) throws {
        let found = try Self.deliveries(Self.rules(Self.inbox), old, writes)
        // A text that cannot be computed is left out.
        #expect(found.map(\.summary.json) == (try Node(json: expected)).children.map { $1.json })
    }

    @Test func consequences_areNotified_too() throws {
        let rules = try Self.rules(#"""
            "news":{"$k":{".inbox":{"to":"inbox/$u/$k","each":"subs/$u","value":{"title":"newData.child('t').val()"}}}},
            "inbox":{"$u":{"$k":{".notify":{"devices":"devices/$u","title":"newData.child('title').val()"}}}}
            """#)
        let found = try Self.deliveries(rules, #"{"subs":{"a":{"x":1},"b":{"x":1}}}"#, [("news/k", #"{"t":"Hello"}"#)])
        #expect(found.map(\.source.description) == ["/inbox/a/k", "/inbox/b/k"])
        #expect(found.map(\.rule) == ["/inbox/$u/$k.notify", "/inbox/$u/$k.notify"])
    }

    @Test func events_ofANode_haveTheirOwnNotifications() throws {
        let rules = try Self.rules(#"""
            "follow":{"$f":{"$w":{".notify":[
              {"on":"change","if":"data.child('s').val() != 'overdue' && newData.child('s').val() == 'overdue'",
               "devices":"devices/$f","title":"$w + ' is overdue'","urgent":true,"wait":0},
              {"on":"removal","devices":"devices/{by}","title":"'gone: ' + data.child('s').val()"}]}}}
            """#)
        let old = #"{"follow":{"f":{"w":{"s":"active","by":"x"}}}}"#
        let changed = try Self.deliveries(rules, old, [("follow/f/w/s", #""overdue""#)])
        #expect(changed.map(\.summary.json) == [#"{"devices":"/devices/f","title":"w is overdue","urgent":true,"wait":0}"#])
        #expect(try Self.deliveries(rules, old, [("follow/f/w/s", #""done""#)]).isEmpty)
        let removed = try Self.deliveries(rules, old, [("follow", "null")])
        #expect(removed.map(\.summary.json) == [#"{"devices":"/devices/x","title":"gone: active","wait":5000}"#])
        // Without the value that names the place there is nobody to notify.
        #expect(try Self.deliveries(rules, #"{"follow":{"f":{"w":{"s":"active"}}}}"#, [("follow", "null")]).isEmpty)
    }

    @Test func then_followsUnlessItsConditionHolds() throws {
        let rules = try Self.rules(#"""
            "alarms":{"$a":{".notify":{"devices":"devices/{to}","title":"'Alarm'","acknowledged":"seen",
              "unless":"newData.child('safe').exists()","after":60,
              "then":{"devices":"devices/{next}","after":300,"then":{"title":"'Still no answer'","urgent":true}}}}}
            """#)
        let found = try Self.deliveries(rules, "null", [("alarms/1", #"{"to":"x","next":"y"}"#)])
        #expect(found.map(\.summary.json) == [
            #"{"devices":"/devices/x","title":"Alarm","wait":5000}"#,
            #"{"devices":"/devices/y","escalation":true,"title":"Alarm","wait":65000}"#,
            #"{"devices":"/devices/y","escalation":true,"title":"Still no answer","urgent":true,"wait":365000}"#,
        ])
        for delivery in found.dropFirst() {
            guard case .notification(let notice) = delivery.content, let unless = notice.unless else { throw Missing() }
            func isUnanswered(_ tree: String, _ rules: RuleSet) throws -> Bool {
                rules.isUnanswered(delivery, unless: unless, in: try Node(json: tree), now: 5)
            }
            #expect(try isUnanswered(#"{"alarms":{"1":{"to":"x"}}}"#, rules))
            #expect(try !isUnanswered(#"{"alarms":{"1":{"to":"x","safe":1}}}"#, rules))
            // Rules that no longer have it cannot say that somebody has answered.
            #expect(try isUnanswered(#"{"alarms":{"1":{"safe":1}}}"#, Self.rules("")))
        }
    }

    private struct Missing: Error {}

    @Test func texts_areChosenByLanguage_andCut() throws {
        let rules = try Self.rules(#"""
            "n":{"$n":{".notify":{"devices":"d","title":{"el":"'Γεια'","en":"'Hello'","pt":"newData.child('none').val()"},
              "body":"newData.child('b').val()"}}}
            """#)
        let long = String(repeating: "é", count: 3_000)
        let found = try Self.deliveries(rules, "null", [("n/1", "{\"b\":\"a\(long)\"}")])
        guard case .notification(let notice)? = found.first?.content else { throw Missing() }
        let chosen = [nil, "el", "el-GR", "pt", "fr"].map { RuleDelivery.Notice.text(notice.title, language: $0).text }
        #expect(chosen == ["Hello", "Γεια", "Γεια", "Hello", "Hello"])
        #expect(RuleDelivery.Notice.text(["de": "Hallo"], language: "fr") == ("Hallo", "de"))
        #expect(RuleDelivery.Notice.text("plain", language: "fr") == ("plain", nil))
        // At a whole character.
        #expect(notice.body == .string("a" + String(repeating: "é", count: 1_999)))
    }

    @Test(arguments: [
        ("22:00", "7:00", "UTC", "2026-01-10T23:30:00", "2026-01-11T07:00:00"), ("22:00", "7:00", "UTC", "2026-01-10T06:59:59", "2026-01-10T07:00:00"),
        ("22:00", "7:00", "UTC", "2026-01-10T07:00:00", nil), ("22:00", "7:00", "UTC", "2026-01-10T21:59:59", nil),
        ("13:00", "14:30", "UTC", "2026-01-10T13:10:00", "2026-01-10T14:30:00"),
        // 22:00 in Athens is 20:00 UTC in winter
        ("22:00", "07:00", "Europe/Athens", "2026-01-10T20:00:00", "2026-01-11T05:00:00"),
        // in the night of 29 March the clock goes forward
        ("22:00", "07:00", "Europe/Athens", "2026-03-28T21:00:00", "2026-03-29T04:00:00"),
        // an unknown zone is UTC
        ("22:00", "7:00", "Nowhere/Else", "2026-01-10T23:30:00", "2026-01-11T07:00:00"),
        // no times, no quiet hours
        ("late", "7:00", "UTC", "2026-01-10T23:30:00", nil), ("24:00", "7:00", "UTC", "2026-01-10T23:30:00", nil),
        ("7:00", "7:00", "UTC", "2026-01-10T07:30:00", nil),
    ] as [(String, String, String, String, String?)])
    func quietHours_postpone(_ from: String, _ to: String, _ zone: String, _ at: String, _ end: String?) throws {
        let rules = try Self.rules(#"""
            "n":{"$n":{".notify":{"devices":"d","title":"'x'","wait":0,"urgent":"newData.child('urgent').val() == true",
              "quiet":{"from":"newData.child('from').val()","to":"newData.child('to').val()","zone":"newData.child('zone').val()"}}}}
            """#)
        func due(_ row: String) throws -> Int64? {
            let new = try Node(json: "{\"n\":{\"1\":\(row)}}")
            return try rules.consequences(of: ["n"], old: .null, new: new, now: Self.ms(at)).deliveries.first?.due
        }
        let terms = #""from":"\#(from)","to":"\#(to)","zone":"\#(zone)""#
        #expect(try due("{\(terms)}") == Self.ms(end ?? at))
        #expect(try due("{\(terms),\"urgent\":true}") == Self.ms(at))
    }

    /// `2026-01-10T23:30:00` in UTC, as ms since the epoch.
    private static func ms(_ text: String) -> Int64 {
        let numbers = text.split { "-T:".contains($0) }.compactMap { Int64($0) }
        let days = CivilDay.number(numbers[0], numbers[1], numbers[2])
        return ((days * 24 + numbers[3]) * 60 + numbers[4]) * 60_000 + numbers[5] * 1000
    }

    @Test func quietHours_areMinutes_too() throws {
        let hours = QuietHours(from: 1_320, to: 420, zone: .null)
        #expect(hours?.next(82_800_000) == Int64(111_600_000))
        #expect(QuietHours(from: 1_440, to: 420, zone: .null) == nil)
        #expect(QuietHours(from: -1, to: 420, zone: .null) == nil)
    }

    @Test func webhooks_getEachChange() throws {
        let rules = try Self.rules(#"""
            "feedback":{"$f":{".webhook":["all",{"name":"new","on":"creation","if":"newData.child('n').val() > 1"}]}}
            """#)
        #expect(try Self.deliveries(rules, "null", [("feedback/1", #"{"n":1}"#), ("feedback/2", #"{"n":2}"#)]).map(\.summary.json) == [
            #"{"after":{"n":1},"path":"/feedback/1","webhook":"all"}"#, #"{"after":{"n":2},"path":"/feedback/2","webhook":"all"}"#,
            #"{"after":{"n":2},"path":"/feedback/2","webhook":"new"}"#,
        ])
        let old = #"{"feedback":{"1":{"n":1}}}"#
        #expect(try Self.deliveries(rules, old, [("feedback/1/n", "3")]).map(\.summary.json)
            == [#"{"after":{"n":3},"before":{"n":1},"path":"/feedback/1","webhook":"all"}"#])
        #expect(try Self.deliveries(rules, old, [("feedback", "null")]).map(\.summary.json)
            == [#"{"before":{"n":1},"path":"/feedback/1","webhook":"all"}"#])
        // Large values are left out, from 64 KiB on.
        let large = "\"" + String(repeating: "x", count: RulesLimits.eventBytes + 1) + "\""
        #expect(try Self.deliveries(rules, "null", [("feedback/1", large)]).map(\.summary.json)
            == [#"{"after":{"omitted":true},"path":"/feedback/1","webhook":"all"}"#])
    }

    @Test func bounds_refuseTheCommit_butNoRemoval() throws {
        let rules = try Self.rules(#""n":{"$n":{".notify":[{"devices":"d","title":"'x'"},{"on":"removal","devices":"d","title":"'y'"}]}}"#)
        var limits = ConsequenceLimits()
        limits.deliveries = 3
        let (three, four) = (#"{"1":1,"2":1,"3":1}"#, #"{"1":1,"2":1,"3":1,"4":1}"#)
        #expect(try Self.deliveries(rules, "null", [("n", three)], limits: limits).count == 3)
        let fault = #expect(throws: ConsequenceFault.self) { try Self.deliveries(rules, "null", [("n", four)], limits: limits) }
        #expect(fault?.reason == .tooManyDeliveries(3))
        #expect(fault?.description == "/n/$n.notify at /n/4: more than 3 notifications and events would follow")
        #expect(try Self.deliveries(rules, "{\"n\":\(four)}", [("n", "null")], limits: limits).count == 3)
        let removed = try rules.consequences(of: ["n"], old: Node(json: "{\"n\":\(four)}"), new: .null, limits: limits)
        #expect(removed.deliveries.count == 3 && removed.deliveriesLeftOut == 1)
        (limits.deliveries, limits.keys) = (100, 3)
        #expect(try Self.deliveries(rules, "null", [("n", three)], limits: limits).count == 3)
        #expect(throws: ConsequenceFault.self) { try Self.deliveries(rules, "null", [("n", four)], limits: limits) }
        #expect(try Self.deliveries(rules, "{\"n\":\(four)}", [("n", "null")], limits: limits).isEmpty)
    }

    @Test(arguments: [
        (#"{"title":"'x'"}"#, "A '.notify' has 'devices'."), (#"{"devices":"d"}"#, "A '.notify' has 'title'."),
        (#""devices/$u""#, "A '.notify' is {"), (#"{"devices":"d","title":"'x'","titel":"'y'"}"#, "A '.notify' has no 'titel'."),
        (#"{"devices":"d","title":"'x'","on":"update"}"#, "'on' is \"creation\", \"change\" or \"removal\"."),
        (#"{"devices":"d/*","title":"'x'"}"#, "This is one place"), (#"{"devices":"d/$x","title":"'x'"}"#, "This is one place"),
        (#"{"devices":"d/+","title":"'x'"}"#, "A generated key"), (#"{"devices":"d","title":"nope"}"#, "Unknown variable 'nope'."),
        (#"{"devices":"d","title":"'x'","urgent":"'yes'"}"#, "Expression must evaluate to a boolean."),
        (#"{"devices":"d","title":"'x'","wait":-1}"#, "'wait' is a whole number of seconds from 0 to 86400."),
        (#"{"devices":"d","title":"'x'","expires":59}"#, "'expires' is a whole number of seconds from 60 to 2592000."),
        (#"{"devices":"d","title":"'x'","quiet":"x"}"#, "'quiet' is {"), (#"{"devices":"d","title":{}}"#, "'title' is an expression"),
        (#"{"devices":"d","title":"'x'","then":{}}"#, "A 'then' needs 'after'"),
        (#"{"devices":"d","title":"'x'","after":5,"then":{}}"#, "A 'then' needs 'unless', or 'acknowledged'"),
        (#"{"devices":"d","title":"'x'","after":5}"#, "'after' belongs to a 'then'"),
        (#"{"devices":"d","title":"'x'","after":5,"unless":"data.exists()","then":{}}"#, "'data' is not seen here"),
        (#"{"devices":"d","title":"'x'","after":5,"unless":"true","then":{"if":"true"}}"#, "A 'then' has no 'if'"),
        (#"{"devices":"d","title":"'x'","acknowledged":"/"}"#, "'acknowledged' is a path below the node"),
        (#"{"devices":"d","title":"'x'","funnel":"n/$n/reach"}"#, "Its 'funnel' lies where a '.notify' is"),
        (#"{"devices":"d","title":"'x'","funnel":"n"}"#, "Its 'funnel' lies where a '.notify' is"),
    ]) func faults_areNamed(_ notify: String, _ message: String) throws {
        let error = #expect(throws: RulesErrors.self) { try Self.rules("\"n\":{\"$n\":{\".notify\":\(notify)}}") }
        #expect(error?.description.contains(message) == true, "\(error?.description ?? "accepted")")
    }

    @Test func limitsOfTimes_areAccepted() throws {
        for terms in [#""wait":0,"expires":60"#, #""wait":86400,"expires":2592000"#, #""after":1,"unless":"true","then":{"title":"'y'"}"#] {
            _ = try Self.rules("\"n\":{\"$n\":{\".notify\":{\"devices\":\"d/$n\",\"title\":\"'x'\",\"funnel\":\"reach/$n\",\(terms)}}}")
        }
    }

    @Test(arguments: [
        (#"{}"#, "A '.webhook' is"), (#""""#, "A '.webhook' is"), (#"{"name":"a","when":"x"}"#, "A '.webhook' is"),
        (#"{"name":"a","on":[]}"#, "'on' is"), (#"{"name":"a","on":["creation","x"]}"#, "'on' is"), (#"{"name":"a","if":"x"}"#, "Unknown variable"),
    ]) func faultsOfWebhooks_areNamed(_ webhook: String, _ message: String) throws {
        let error = #expect(throws: RulesErrors.self) { try Self.rules("\"n\":{\"$n\":{\".webhook\":\(webhook)}}") }
        #expect(error?.description.contains(message) == true, "\(error?.description ?? "accepted")")
    }

    @Test(arguments: [
        (#""sends":[{"devices":"devices/a","title":"x"}]"#, nil), (#""sends":[{"title":"x","wait":5000},{"webhook":"w"}]"#, "expected {"),
        (#""sends":[]"#, "was not expected"), (#""sends":[{"title":"y"}]"#, "expected {\"title\":\"y\"} to be sent, there was {"),
        (#""then":{"/settings/a/push":true}"#, nil),
    ] as [(String, String?)]) func cases_checkWhatIsSent(_ check: String, _ message: String?) throws {
        let cases = "{\"cases\":[{\"update\":\"/\",\"values\":{\"settings/a/push\":true,\"notifications/a/1\":{\"title\":\"x\"}},"
            + "\"expect\":\"allow\",\(check)}]}"
        let result = try Self.rules("\".write\":true,\(Self.inbox)").run(RuleCases(parsing: cases))
        #expect(result.failures.isEmpty == (message == nil))
        if let message { #expect(result.failures.first?.message.contains(message) == true, "\(result.failures)") }
    }

    @Test func cases_checkWhatExpirySends() throws {
        let rules = try Self.rules(#"""
            ".write":true,"reminders":{"$u":{"$r":{".expire":"data.child('at').val()",
              ".notify":{"on":"removal","if":"data.child('at').val() <= now","devices":"devices/$u","title":"data.child('t').val()"}}}}
            """#)
        let write = #"{"now":10,"cases":[{"write":"/reminders/a/1","value":{"at":50,"t":"Go"},"expect":"allow","advance":40,"#
        #expect(try rules.run(RuleCases(parsing: write + #""sends":[{"devices":"/devices/a","title":"Go"}]}]}"#)).failures.isEmpty)
        let early = write.replacing("\"advance\":40", with: "\"advance\":39")
        #expect(try rules.run(RuleCases(parsing: early + #""sends":[]}]}"#)).failures.isEmpty)
    }

    @Test func explanations_tellWhatIsSent() throws {
        let new = try Node(json: #"{"settings":{"a":{"push":true}},"notifications":{"a":{"1":{"title":"x"}}}}"#)
        let rules = try Self.rules("\".write\":true,\(Self.inbox)")
        let trace = rules.explainWrite(
            ["notifications/a/1"], old: ["settings": ["a": ["push": true]]], new: new, auth: .null, now: 1, following: ConsequenceLimits())
        let line = #"then sends {"devices":"/devices/a","title":"x","url":"/n/1","wait":5000} by /notifications/$u/$n.notify"#
        #expect(trace.description.contains(line), "\(trace)")
    }
}
