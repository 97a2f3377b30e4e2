import Dispatch
import HubEngine
@testable import HubServer
import Journal
import JSONTree
import Scheduling
import SecurityRules
import TestHub
import Testing
import TestSupport

/// `GET /.settings/formerRules.json`: previous rules, to roll back to.
@Suite(.timeLimit(.minutes(30))) struct FormerRulesTests {
    private func rules(_ name: String) -> String { #"{"rules":{"\#(name)":{}}}"# }

    private func former(_ owner: RESTPeer) throws -> [String] {
        let answer = try Node(json: try owner.ask("GET", "/.settings/formerRules.json").body)
        return answer.child("former").children.compactMap { _, entry in
            guard case .string(let source) = entry.child("source"), case .int(let until) = entry.child("until"), until > 0
            else { return nil }
            return source.string
        }
    }

    private func deploy(_ owner: RESTPeer, _ name: String) throws {
        #expect(try owner.put("/.settings/rules.json", rules(name)).hasPrefix("200"))
    }

    @Test func replacedTexts_areKept_theLastFirst_withoutTheOneInForce() throws {
        let first = try RuleSet(parsing: rules("first"))
        let server = try TestServer { $0.rules = first }
        let owner = try RESTPeer.owner(server)
        #expect(try former(owner).isEmpty)
        try deploy(owner, "a")
        try deploy(owner, "b")
        #expect(try former(owner) == [rules("a"), rules("first")])
        // Deploy a again: it is no longer in the list.
        try deploy(owner, "a")
        #expect(try former(owner) == [rules("b"), rules("first")])
        try deploy(owner, "a")
        #expect(try owner.put("/.settings/rules.json?dryRun=true", rules("c")).hasPrefix("200"))
        #expect(try owner.put("/.settings/rules.json", "{").hasPrefix("400"))
        #expect(try former(owner) == [rules("b"), rules("first")])
        #expect(try RESTPeer(server).get("/.settings/formerRules.json").hasPrefix("401"))
    }

    @Test func texts_areBounded_inNumberAndBytes() {
        var kept = FormerRules()
        for i in 0..<5 { kept.add("\(i)", until: Int64(i), inForce: "x", most: 3) }
        #expect(kept.entries.map(\.source) == ["4", "3", "2"])
        kept.add("none", until: 9, inForce: "x", most: 0)
        #expect(kept.entries.isEmpty)
        let large = (0..<3).map { "\($0)" + String(repeating: " ", count: FormerRules.allBytes / 2 - 1) }
        for (i, text) in large.enumerated() { kept.add(text, until: Int64(i), inForce: "x", most: 3) }
        #expect(kept.entries.map(\.source) == [large[2], large[1]])
        kept.add(String(repeating: " ", count: FormerRules.allBytes + 1), until: 9, inForce: "x", most: 3)
        #expect(kept.entries.count == 1)
        #expect(FormerRules(kept.bytes()) == kept)
        for faulty in ["", "{", "[]", #"{"former":[{"until":"x","source":"y"}]}"#, #"{"former":[{"source":"y"}]}"#] {
            #expect(FormerRules(Array(faulty.utf8)) == nil, "\(faulty)")
        }
    }

    /// A store that accepts former rules and no others.
    private final class Refusing: SettingStore {
        let kept = MemorySettings()

        func settings(of namespace: String?) -> [String: [UInt8]] { kept.settings(of: namespace) }

        func put(
            _ value: [UInt8]?, setting name: String, of namespace: String?,
            completion: @escaping @Sendable (Result<Void, JournalError>) -> Void
        ) {
            if name == StoredRules.setting { return completion(.failure(.diskFull(reason: "full"))) }
            kept.put(value, setting: name, of: namespace, completion: completion)
        }
    }

    /// Rules that could not be stored replace nothing, and evict no former rules.
    @Test func failedDeploys_changeNothing() throws {
        let server = try TestServer()
        let database = try #require(server.server.hub.openNow("test"))
        let settings = Refusing()
        var former = FormerRules()
        for name in ["a", "b"] { former.add(rules(name), until: 1, inForce: "x", most: 2) }
        settings.put(former.bytes(), setting: FormerRules.setting, of: "test") { _ in }
        let made = RulesInForce(
            others: DatabaseSettings("others", rules: try RuleSet(parsing: rules("first"))),
            settings: settings, isDurable: true, former: 2,
            scheduler: FakeClock().scheduler, logger: .silent)
        _ = try made.open("test")
        let done = DispatchSemaphore(value: 0)
        made.deploy(Array(rules("next").utf8), to: database, isDryRun: false) { answer in
            if case .failed(.notStored) = answer { done.signal() }
        }
        #expect(done.wait(timeout: .now() + 20) == .success)
        #expect(String(decoding: made.former(of: "test"), as: UTF8.self) == String(decoding: former.bytes(), as: UTF8.self))
        #expect(settings.settings(of: "test")[FormerRules.setting] == former.bytes())
        #expect(made.rules(of: "test").text == rules("first"))
    }

    /// A changed file replaces deployed rules, which become former rules, at a start and at SIGHUP.
    @Test func rulesThatTheFileReplaced_areKept() throws {
        let settings = MemorySettings()
        let clock = FakeClock()
        func start(_ name: String) throws -> RulesInForce {
            let made = RulesInForce(
                others: DatabaseSettings("others", rules: try RuleSet(parsing: rules(name)), file: "rules.json"),
                settings: settings, isDurable: true, former: 10,
                scheduler: clock.scheduler, logger: .silent)
            _ = try made.open("city")
            return made
        }
        settings.put(
            StoredRules(source: rules("deployed"), after: StoredRules.hash(of: rules("one"))).bytes, setting: StoredRules.setting,
            of: "city") { _ in }
        #expect(try start("one").rules(of: "city").text == rules("deployed"))
        let second = try start("two")
        #expect(second.rules(of: "city").text == rules("two"))
        #expect(String(decoding: second.former(of: "city"), as: UTF8.self).contains("deployed"))
        let done = DispatchSemaphore(value: 0)
        second.reload(try RuleSet(parsing: rules("three")), of: "rules.json", in: Hub { _ in nil }) { _ in done.signal() }
        #expect(done.wait(timeout: .now() + 20) == .success)
        let kept = try #require(settings.settings(of: "city")[FormerRules.setting].flatMap(FormerRules.init))
        #expect(kept.entries.map(\.source) == [rules("two"), rules("deployed")])
        #expect(kept.entries.allSatisfy { $0.until == clock.scheduler.wallMs })
    }
}
