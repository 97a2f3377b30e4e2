import Dispatch
import Foundation
@testable import HubServer
import HTTPTypes
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

/// Rules of a running server: deployed, stored, and read again.
@Suite(.timeLimit(.minutes(30))) struct RulesDeployTests {
    private static let open = #"{"rules":{".read":true,".write":true}}"#
    private static let onlyB = #"{"rules":{".write":true, /* the rest is private */ "b":{".read":true}}}"#

    private func deploy(_ server: Server, _ text: String, namespace: String = "test", isDryRun: Bool = false) -> RulesAnswer {
        let answered = DispatchSemaphore(value: 0)
        let answer = Mutex(RulesAnswer.failed(.notStored("no answer")))
        server.deployRules(Array(text.utf8), namespace: namespace, isDryRun: isDryRun) { given in
            answer.withLock { $0 = given }
            answered.signal()
        }
        #expect(answered.wait(timeout: .now() + 20) == .success)
        return answer.withLock { $0 }
    }

    private func json(_ answer: RulesAnswer, details: Bool = false) -> String {
        String(decoding: answer.json(details: details), as: UTF8.self)
    }

    private func observer(_ server: TestServer, _ id: Int, _ path: String) throws -> TestSocket {
        let socket = try TestSocket(port: server.port)
        socket.server = server
        try socket.upgrade("/.observe?ns=test")
        try socket.sendText("{\"id\":\(id),\"op\":\"observe\",\"path\":\"\(path)\",\"events\":[\"value\"]}")
        #expect(try socket.text().contains("\"ok\""))
        #expect(try socket.text().contains("null"))
        return socket
    }

    @Test func deploy_decidesAtOnce_andCancelsOnlyWhatItRefuses_beforeAnyPush() throws {
        let server = try TestServer()
        let (a, b) = (try observer(server, 1, "/a"), try observer(server, 2, "/b"))
        let answer = deploy(server.server, Self.onlyB)
        #expect(json(answer) == "{\"status\":\"ok\"}\n")
        let writer = try TestSocket(port: server.port)
        try writer.upgrade("/.observe?ns=test")
        try writer.sendText(#"{"id":1,"op":"update","path":"/","value":{"a":1,"b":1}}"#)
        #expect(try writer.text().contains("\"ok\""))
        #expect(try a.text().contains("permission_denied"))
        #expect(try b.text().contains("\"value\":1"))
        // The cancelled observer got nothing else: its next message is the answer to its own request.
        try a.sendText(#"{"id":9,"op":"get","path":"/a"}"#)
        let next = try a.text()
        #expect(next.contains("\"id\":9") && next.contains("permission_denied"))
        #expect(server.server.rules(of: "test")?.text == Self.onlyB)
        #expect(server.server.rules(of: "test")?.plainJSON == #"{"rules":{".write":true,"b":{".read":true}}}"#)
        #expect(server.server.rules(of: "other") == nil)
    }

    @Test func faultyRules_changeNothing_andAreAnsweredWithAllFaults() throws {
        let server = try TestServer()
        let faulty = "{\"rules\":{\n  \".read\": \"auth.uid = 1\",\n  \"a\": { \".write\": \"dta.exists()\" }\n}}"
        let answer = deploy(server.server, faulty)
        #expect(answer.status == .badRequest)
        let node = try Node(json: json(answer))
        #expect(node.child("error") == "2:13: Rule expressions may not contain assignments.\n3:21: Unknown variable 'dta'.\n")
        #expect(json(answer, details: true).contains(#""hint":"did you mean 'data'?""#))
        #expect(server.server.rules(of: "test")?.text == RuleSet.allowAll.text)
        #expect(json(deploy(server.server, "")).contains("1:1: Parse error."))
    }

    @Test func faults_areBounded() throws {
        let server = try TestServer()
        let many = (0..<2_000).map { "\"k\($0)\":{\".read\":\"x\"}" }.joined(separator: ",")
        guard case .refused(let errors) = deploy(server.server, "{\"rules\":{\(many)}}") else { return #expect(Bool(false), "accepted") }
        #expect(errors.errors.count == 500)
        let large = "{\"rules\":{}}" + String(repeating: " ", count: RuleSet.maxBytes)
        #expect(json(deploy(server.server, large)).contains("Rules are larger than"))
        let largest = "{\"rules\":{}}" + String(repeating: " ", count: RuleSet.maxBytes - 12)
        #expect(deploy(server.server, largest).status == .ok)
    }

    @Test func dryRun_changesNothing_andTellsWhatWould() throws {
        let server = try TestServer()
        let text = #"{"rules":{".read":"auth != null","$x":{".write":"true",".validate":"auth.x == 1"}}}"#
        let answer = deploy(server.server, text, isDryRun: true)
        let report = try Node(json: json(answer, details: true))
        let changes = try Node(json: #"{"added":["/$x.write","/$x.validate"],"addedCount":2,"changed":["/.read"],"#
            + #""changedCount":1,"removed":["/.write"],"#
            + #""removedCount":1,"same":false}"#)
        #expect(report.child("changes") == changes)
        #expect(report.child("kept") == "nothing")
        #expect(report.child("warnings").child("0").child("message").json.contains("auth.x is null"), "\(report.json)")
        #expect(server.server.rules(of: "test")?.text == RuleSet.allowAll.text)
    }

    @Test func changes_nameEveryKeyWithADot() throws {
        let server = try TestServer()
        let before = #"{"rules":{"cafes":{".read":true,".count":{"radius":1000},".indexOn":["a"]},"#
            + #""posts":{".rate":{"perSecond":1,"burst":2}}}}"#
        #expect(deploy(server.server, before).status == .ok)
        let after = #"{"rules":{"cafes":{".read":"true",".count":{ "radius": 2000 },".indexOn":[ "a" ]},"#
            + #""posts":{"$p":{".counts":{"votes":"count(votes/$p)"}}}}}"#
        let changes = try Node(json: json(deploy(server.server, after, isDryRun: true), details: true)).child("changes")
        let expected = try Node(json: #"{"added":["/posts/$p.counts"],"addedCount":1,"changed":["/cafes.count"],"changedCount":1,"#
            + #""removed":["/posts.rate"],"removedCount":1,"same":false}"#)
        #expect(changes == expected, "\(changes.json)")
    }

    @Test func unknownNamespace_isRefused() throws {
        let server = try TestServer { $0.isDev = false }
        let answer = deploy(server.server, Self.open, namespace: "nobodys")
        #expect(answer.status == .notFound)
    }

    /// Overlapping deploys run one after the other, and the last one is in force.
    @Test func manyDeploys_areCarriedOutInOrder() throws {
        let server = try TestServer()
        #expect(deploy(server.server, Self.open).status == .ok)
        let database = try #require(server.server.hub.database("test"))
        let all = DispatchGroup()
        let order = Mutex<[Int]>([])
        for i in 0..<20 {
            all.enter()
            server.server.rulesInForce.deploy(Array("{\"rules\":{\"k\(i)\":{}}}".utf8), to: database, isDryRun: false) { _ in
                order.withLock { $0.append(i) }
                all.leave()
            }
        }
        #expect(all.wait(timeout: .now() + 20) == .success)
        #expect(order.withLock { $0 } == Array(0..<20))
        #expect(server.server.rules(of: "test")?.text == #"{"rules":{"k19":{}}}"#)
    }

    // MARK: Stored rules

    private func folder(_ body: (String) throws -> Void) throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("vigla-rules-\(UUID().uuidString)")
        defer { try? FileManager.default.removeItem(at: folder) }
        try body(folder.path)
    }

    /// The rules in force on a server started with the folder, after the test's actions.
    private func run(_ folder: String, rules: String?, _ body: (Server) -> Void = { _ in }) throws -> String? {
        let first = try rules.map { try RuleSet(parsing: $0) }
        let server = try TestServer {
            $0.dataFolder = folder
            $0.namespace = "test"
            $0.isDev = false
            $0.rules = first ?? .denyAll
            $0.rulesFile = rules == nil ? nil : "rules.json"
        }
        body(server.server)
        defer { server.stop() }
        return server.server.rules(of: "test")?.text
    }

    @Test func deployedRules_holdAfterARestart_asTheyWereWritten() throws {
        try folder { (folder: String) throws in
            #expect(try run(folder, rules: nil) == RuleSet.denyAll.text)
            var status: HTTPResponse.Status?
            #expect(try run(folder, rules: nil) { status = self.deploy($0, Self.onlyB).status } == Self.onlyB)
            #expect(status == .ok)
            var isDeployed = false
            #expect(try run(folder, rules: nil) { isDeployed = $0.hasDeployedRules("test") } == Self.onlyB)
            #expect(isDeployed)
            #expect(try run(folder, rules: nil) == Self.onlyB)
        }
    }

    @Test func lastChangeCounts_ofTheFileAndOfDeploys() throws {
        let (first, second) = (#"{"rules":{"first":{}}}"#, #"{"rules":{"second":{}}}"#)
        try folder { (folder: String) throws in
            var kept: RulesReport.Keeping?
            #expect(try run(folder, rules: first) == first)
            let deployed = try run(folder, rules: first) {
                if case .accepted(let report) = self.deploy($0, Self.onlyB) { kept = report.keeps }
            }
            #expect(deployed == Self.onlyB)
            #expect(kept == .storedUntilFileChanges("rules.json"))
            // The file is unchanged, so the later deploy stays in force, also when the file is left out.
            #expect(try run(folder, rules: first) == Self.onlyB)
            #expect(try run(folder, rules: nil) == Self.onlyB)
            // The file has changed, so it is in force; restoring the old file does not bring the deploy back.
            #expect(try run(folder, rules: second) == second)
            #expect(try run(folder, rules: first) == first)
        }
    }

    @Test func reload_takesTheFileOnlyWhenItHasChanged() throws {
        let (first, second) = (#"{"rules":{"first":{}}}"#, #"{"rules":{"second":{}}}"#)
        func reload(_ server: Server, _ text: String) -> Bool {
            let done = DispatchSemaphore(value: 0)
            let changed = Mutex(false)
            guard let rules = try? RuleSet(parsing: text) else { return false }
            server.reload(rules, of: "rules.json") { value in
                changed.withLock { $0 = value }
                done.signal()
            }
            #expect(done.wait(timeout: .now() + 20) == .success)
            return changed.withLock { $0 }
        }
        try self.folder { (folder: String) throws in
            let last = try run(folder, rules: first) { server in
                #expect(!reload(server, first))
                #expect(self.deploy(server, Self.onlyB).status == .ok)
                // SIGHUP for a new certificate keeps the deploys.
                #expect(!reload(server, first))
                #expect(server.rules(of: "test")?.text == Self.onlyB)
                #expect(reload(server, second))
            }
            #expect(last == second)
            #expect(try run(folder, rules: second) == second)
        }
    }

    /// The namespace's deployed rules are parsed while the file is read again, which drops them.
    @Test func fileReadAgain_whileANamespaceOpens_holdsThere() throws {
        let (first, second) = (try RuleSet(parsing: Array(Self.open.utf8)), try RuleSet(parsing: Array(Self.onlyB.utf8)))
        let settings = MemorySettings()
        let deployed = #"{"rules":{".read":false}}"#
        settings.put(
            StoredRules(source: deployed, after: StoredRules.hash(of: first.text)).bytes, setting: StoredRules.setting, of: "test"
        ) { _ in }
        let opening = Mutex<RulesInForce?>(nil)
        let log = LineLog { event in
            guard "\(event.message)" == "the deployed rules are in force", let rules = opening.withLock({ $0 }) else { return "" }
            rules.reload(second, of: "rules.json", in: Hub { _ in nil })
            while rules.rules(of: "another").text != second.text { sched_yield() }
            return "read again"
        }
        let rules = RulesInForce(
            others: DatabaseSettings("others", rules: first, file: "rules.json"),
            settings: settings, isDurable: true, former: 10, scheduler: .system(), logger: log.logger)
        opening.withLock { $0 = rules }
        #expect(try rules.open("test").text == second.text)
        #expect(log.all.contains("read again"))
        #expect(rules.rules(of: "test").text == second.text)
        #expect(!rules.isDeployed("test"))
        opening.withLock { $0 = nil }
    }

    /// A data folder of a version that accepted keys without acting on them.
    @Test func storedRulesWithUnsupportedKeys_hold_andTheLogNamesTheKeys() throws {
        let source = #"{"rules":{"a":{".read":true,".expire":"now + 1",".search":{"lat":"x","lng":"y"}}}}"#
        let settings = MemorySettings()
        settings.put(StoredRules(source: source, after: "").bytes, setting: StoredRules.setting, of: "test") { _ in }
        let log = LineLog { "\($0.message) \($0.metadata?["key"].map { "\($0)" } ?? "")" }
        let rules = RulesInForce(
            others: DatabaseSettings("others", rules: .denyAll),
            settings: settings, isDurable: true, former: 10, scheduler: .system(), logger: log.logger)
        let opened = try rules.open("test")
        #expect(opened.text == source)
        #expect(opened.allowsRead("/a", root: .null, auth: .null, now: 0) && !opened.allowsRead("/b", root: .null, auth: .null, now: 0))
        #expect(log.all.contains { $0.contains("1:40: 'now' is not seen here") })
        #expect(log.all.contains { $0.contains("1:49: '.search' is not supported by this version.") })
        #expect(log.all.contains { $0.contains("the deployed rules are in force") })
        // A server starts with it, but rejects the same text as a deploy.
        let server = try TestServer()
        #expect(json(deploy(server.server, source)).contains("1:40: 'now' is not seen here"))
        #expect(server.server.rules(of: "test")?.text == RuleSet.allowAll.text)
    }

    /// Counters are counted in the background: the answer says so, and a request can wait for them.
    @Test func deployOfCounters_saysWhenTheyHold() throws {
        let server = try TestServer()
        let owner = try RESTPeer.owner(server)
        try owner.put("/.json", #"{"e":{"x":{"t":1}},"v":{"x":{"a":1,"b":2}}}"#)
        let rules = #"{"rules":{".read":true,"e":{"$e":{".counts":{"n":"count(v/$e)"}}}}}"#
        #expect(try owner.put("/.settings/rules.json?details=true", rules).contains(#","pending":["counters"]}"#))
        #expect(try owner.get("/.settings/derived.json?wait=20000").hasPrefix(#"200 {"pending":[],"ms":"#))
        #expect(try owner.get("/e/x/n.json") == "200 2")
        #expect(try owner.put("/.settings/rules.json?details=true&dryRun=true", rules).contains(#","pending":[]}"#))
        #expect(try RESTPeer(server).get("/.settings/derived.json").hasPrefix("401"))
        #expect(try owner.line("POST", "/.settings/derived.json", "{}").hasPrefix("405"))
    }

    /// The limit from both sides: derived data that is incomplete by then is reported as pending.
    @Test func waitForCounters_isBound() throws {
        let server = try TestServer { $0.limits.derivedWaitMs = 1 }
        let owner = try RESTPeer.owner(server)
        let nodes = (0..<20_000).map { "\"k\($0)\":{\"t\":1}" }.joined(separator: ",")
        try owner.put("/e.json", "{\(nodes)}")
        try owner.put("/.settings/rules.json", #"{"rules":{"e":{"$e":{".counts":{"n":"count(v/$e, each.val() == $e)"}}}}}"#)
        #expect(try owner.get("/.settings/derived.json?wait=99999999").hasPrefix(#"200 {"pending":["counters"],"ms":"#))
        #expect(ServerLimits().derivedWaitMs == 20_000)
    }

    @Test func storedRulesThatCannotBeRead_denyEverything() throws {
        let settings = MemorySettings()
        var logger = Logger(label: "test")
        logger.logLevel = .critical
        for bytes in [Array("{\"source\":\"{\\\"rules\\\":5}\",\"after\":\"\"}".utf8), [0xFF, 0], Array("{}".utf8)] {
            settings.put(bytes, setting: "rules", of: "test") { _ in }
            let rules = RulesInForce(
                others: DatabaseSettings("others", rules: .allowAll),
                settings: settings, isDurable: true, former: 10, scheduler: .system(), logger: logger)
            #expect(try rules.open("test").text == RuleSet.denyAll.text)
        }
        let kept = StoredRules(source: "a\"\\\u{1F600}\n", after: StoredRules.hash(of: "x"))
        #expect(StoredRules(kept.bytes) == kept)
    }

    /// Rules that the disk refuses are not in force, and the answer says so.
    @Test func rulesThatAreNotStored_doNotHold() throws {
        struct Full: SettingStore {
            func settings(of namespace: String?) -> [String: [UInt8]] { [:] }
            func put(
                _ value: [UInt8]?, setting name: String, of namespace: String?,
                completion: @escaping @Sendable (Result<Void, JournalError>) -> Void
            ) {
                completion(.failure(.closed))
            }
        }
        var logger = Logger(label: "test")
        logger.logLevel = .critical
        let rules = RulesInForce(
            others: DatabaseSettings("others", rules: .allowAll),
            settings: Full(), isDurable: true, former: 10, scheduler: .system(), logger: logger)
        let server = try TestServer()
        _ = deploy(server.server, Self.open)
        let database = try #require(server.server.hub.database("test"))
        let done = DispatchSemaphore(value: 0)
        let status = Mutex(0)
        rules.deploy(Array(Self.onlyB.utf8), to: database, isDryRun: false) { answer in
            status.withLock { $0 = answer.status.code }
            done.signal()
        }
        #expect(done.wait(timeout: .now() + 20) == .success)
        #expect(status.withLock { $0 } == 503)
        #expect(rules.rules(of: "test").text == RuleSet.allowAll.text)
    }
}
