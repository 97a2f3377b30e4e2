@testable import HubEngine
@testable import HubServer
import Journal
import JSONTree
import Logging
import Scheduling
import SecurityRules
import TestHub
import Testing
import TestSupport

/// `--log-refusals`: a sample of refusals with their reasons, in the log only.
@Suite(.timeLimit(.minutes(30))) struct RefusalLogTests {
    private static func log() -> LineLog {
        LineLog { event in
            let fields = (event.metadata ?? [:]).map { "\($0.key)=\($0.value)" }.sorted()
            return "\(event.message) " + fields.joined(separator: " | ")
        }
    }

    private func question(_ rules: String, _ path: Path, auth: Node = .null, value: Node = 1) throws -> RuleQuestion {
        var new = Node.null
        new.set(value, at: path)
        return RuleQuestion(operation: .write([path]), rules: try RuleSet(parsing: rules), old: .null, new: new, auth: auth, now: 5)
    }

    /// The logged lines, once all have been written.
    private func logged(_ perSecond: Int, _ tell: (any RefusalListener, RefusalLog) throws -> Void) throws -> [String] {
        let lines = Self.log()
        let log = RefusalLog(perSecond: perSecond, FakeClock().scheduler, logger: lines.logger)
        try tell(log.listener("city"), log)
        log.flush()
        return lines.all
    }

    @Test func line_namesTheBudget_ofAWriteThatIsOverIt() throws {
        let lines = try logged(5) { listener, _ in
            #expect(listener.wantsRefusal(now: 1))
            var question = try question(#"{"rules":{".write":true}}"#, "/ada/x")
            question.budget = "2 writes a second, 5 at once at /ada"
            listener.refused(.overBudget, question)
        }
        #expect(lines == ["refused by the rules namespace=city | operation=write over budget | path=/ada/x | "
            + "rules=over the budget of 2 writes a second, 5 at once at /ada"])
    }

    @Test func line_saysWhatWasRefused_byWhichRule_andWhatItsPartsWere() throws {
        let lines = try logged(5) { listener, _ in
            #expect(listener.wantsRefusal(now: 1))
            listener.refused(.write, try question(
                #"{"rules":{"$u":{".write":"auth.uid == $u"}}}"#, "/ada/x", auth: ["uid": "bo", "token": ["email": "bo@ex.org"]]))
        }
        #expect(lines == [#"refused by the rules namespace=city | operation=write | path=/ada/x | rules=1:26 /$u.write is false (auth.uid "#
            + #"== $u = false, auth.uid = "bo", $u = "ada")"#])
    }

    @Test func line_isShort_howeverLongValuesAndRulesAre() throws {
        let long = String(repeating: "x", count: 1_000_000)
        let chain = (0..<200).map { "newData.val() != 'a\($0)'" }.joined(separator: " && ")
        let lines = try logged(5) { listener, _ in
            _ = listener.wantsRefusal(now: 1)
            listener.refused(.write, try question(
                "{\"rules\":{\".write\":true,\".validate\":\"\(chain) && newData.val().length < 5\"}}", "/", value: .string(long)))
        }
        #expect(lines.count == 1)
        #expect((lines.first?.utf8.count ?? 0) < 6_000)
        #expect(lines.first?.contains("/.validate is false") == true)
        #expect(lines.first?.contains(String(repeating: "x", count: RefusalLog.valueCharacters) + "…") == true)
        #expect(lines.first?.contains(String(repeating: "x", count: RefusalLog.valueCharacters + 1)) == false)
    }

    @Test func writeThatIsRefusedUnread_isTold_andOneThatMayBeAllowedIsNot() throws {
        let lines = Self.log()
        var settings = ServerSettings()
        (settings.port, settings.loops) = (0, 1)
        settings.rules = try RuleSet(parsing: #"{"rules":{"open":{".write":"newData.exists()"}}}"#)
        settings.limits.loggedRefusals = 5
        let server = try Server(settings, scheduler: .system(), logger: lines.logger) { MemoryStorage() }
        defer { server.stop {} }
        let database = try #require(server.hub.database("default"))
        #expect(server.mayAllowWrite("/open/a", in: database, by: .anonymous))
        #expect(!server.mayAllowWrite("/shut/a", in: database, by: .anonymous))
        #expect(server.mayAllowWrite("/shut/a", in: database, by: .admin))
        server.records.refusalLog?.flush()
        #expect(lines.all.filter { $0.hasPrefix("refused") } == [
            "refused by the rules namespace=default | operation=write | path=/shut/a | rules=no rule could grant it for any value",
        ])
    }

    @Test func sample_isBoundedEachSecond_andCountsTheRest() throws {
        let lines = try logged(2) { listener, log in
            let refused = try question(#"{"rules":{}}"#, "/a")
            for now in [1_000, 1_100, 1_200, 1_999, 2_000, 2_500, 2_600] as [Int64] {
                if listener.wantsRefusal(now: now) { listener.refused(.get, refused) }
                log.flush()
            }
        }
        #expect(lines.count == 4)
        #expect(lines[2].contains("unlogged=2"))
        #expect(lines[0].contains("rules=no rule grants it"))
        #expect(!lines[1].contains("unlogged"))
    }

    /// Through the whole server: the client's answer stays the same.
    @Test(arguments: [0, 100]) func refusals_areLoggedOnlyWhenAskedFor(_ perSecond: Int) throws {
        let lines = Self.log()
        let rules = try RuleSet(parsing: #"{"rules":{"a":{".read":"auth.uid == 'ada'",".write":"auth.uid == 'ada'"}}}"#)
        var settings = ServerSettings()
        (settings.port, settings.loops, settings.isDev, settings.rules, settings.limits.loggedRefusals) = (0, 1, true, rules, perSecond)
        let server = try Server(settings, scheduler: .system(), logger: lines.logger) { MemoryStorage() }
        defer { server.stop {} }
        let client = try TestSocket(port: server.port)
        try client.upgrade("/.ws?v=5&ns=test")
        _ = try client.text()
        for request in [
            #"{"t":"d","d":{"r":1,"a":"q","b":{"p":"/a","h":""}}}"#, #"{"t":"d","d":{"r":2,"a":"g","b":{"p":"/a"}}}"#,
            #"{"t":"d","d":{"r":3,"a":"p","b":{"p":"/a/b","d":"x"}}}"#, #"{"t":"d","d":{"r":4,"a":"o","b":{"p":"/a/b","d":"x"}}}"#,
        ] {
            try client.sendText(request)
            let answer = try client.text()
            #expect(answer.contains(#""s":"permission_denied","d":"Permission denied""#))
            #expect(!answer.contains("uid"))
        }
        server.records.refusalLog?.flush()
        let told = lines.all.filter { $0.hasPrefix("refused by the rules") }
        #expect(told.count == (perSecond == 0 ? 0 : 4))
        for (line, operation) in zip(told, ["listen", "get", "write", "onDisconnect"]) {
            #expect(line.contains("operation=\(operation)") && line.contains("auth.uid = null") && line.contains("path=/a"))
        }
    }
}
