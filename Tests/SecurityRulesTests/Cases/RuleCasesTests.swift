import Foundation
import JSONTree
import SecurityRules
import Testing

/// Cases files, including the example's.
@Suite(.timeLimit(.minutes(30))) struct RuleCasesTests {
    private static let rules =
        #"{"rules":{"n":{"$k":{".read":"auth.uid == $k",".write":"auth.uid == $k",".validate":"newData.isString()"}}}}"#

    private func run(_ cases: String, users: String = #"{"ada":{"uid":"ada"}}"#) throws -> RuleCasesResult {
        try RuleSet(parsing: Self.rules).run(
            RuleCases(parsing: "{\"now\":10,\"users\":\(users),\"data\":{\"n\":{\"ada\":\"x\"}},\"cases\":[\(cases)]}"))
    }

    @Test(arguments: [
        #"{"as":"ada","read":"/n/ada","expect":"allow"}"#, #"{"read":"/n/ada","expect":"deny","refusedBy":".read"}"#,
        #"{"as":{"uid":"bob"},"write":"/n/bob","value":"b","expect":"allow"}"#,
        #"{"as":null,"write":"/n/bob","value":"b","expect":"deny","refusedBy":".write"}"#,
        #"{"as":"ada","write":"/n/ada","value":1,"expect":"deny","refusedBy":"/n/$k.validate"}"#,
        #"{"as":"ada","write":"/n/ada","value":null,"expect":"allow"}"#,
        #"{"as":"ada","update":"/","values":{"n/ada":"y","n/bob":"z"},"expect":"deny"}"#,
        #"{"as":"ada","update":"/n","values":{"ada":null},"expect":"allow"}"#,
        #"{"as":"ada","query":"/n/ada","near":true,"radius":500.5,"limit":5,"where":{"a/b":"x","c":null},"expect":"allow"}"#,
        #"{"as":"ada","query":"/n/ada","orderByChild":"a","startAt":1,"limitToFirst":5,"expect":"allow"}"#,
    ]) func case_passes_whenTheVerdictIsTheExpected(_ text: String) throws {
        let result = try run(text)
        #expect(result.count == 1 && result.failures.isEmpty, "\(result.failures)")
    }

    /// Claims are JSON as in tokens: no name is an illegal key, and none has a special meaning.
    @Test(arguments: [
        "auth.token.firebase.identities['github.com'][0] === 'n7'", "auth.token['https://example.org/claims'].role == 'editor'",
        "auth.token['a/b'] == 1 && auth.token['$x'] == 2 && auth.token[''] == 3", "auth.token['.priority'] == 4 && auth.token.n == 1",
        "auth.token['.sv'] == 'timestamp' && auth.token.list[1] == 'b'",
    ]) func claims_haveAnyName(_ rule: String) throws {
        let auth = #"{"uid":"u","token":{"firebase":{"identities":{"github.com":["n7"]}},"https://example.org/claims":{"role":"editor"},"#
            + #""a/b":1,"$x":2,"":3,".priority":4,"n":1,".sv":"timestamp","list":["a","b"]}}"#
        let rules = try RuleSet(parsing: "{\"rules\":{\".read\":\(quoted(rule))}}")
        for (users, who) in [("{\"u\":\(auth)}", "\"u\""), ("{}", auth)] {
            let cases = "{\"users\":\(users),\"cases\":[{\"as\":\(who),\"read\":\"/\",\"expect\":\"allow\"}]}"
            #expect(rules.run(try RuleCases(parsing: cases)).failures.isEmpty)
        }
    }

    @Test(arguments: [
        (#"{"as":"ada","read":"/n/ada","expect":"deny"}"#, "expected to be denied, was allowed"),
        (#"{"read":"/n/ada","expect":"allow"}"#, "expected to be allowed, was denied"),
        (
            #"{"as":"ada","write":"/n/ada","value":1,"expect":"deny","refusedBy":".write"}"#,
            "expected to be refused by .write, was refused by /n/$k.validate"),
    ]) func case_fails_withWhatHappened(_ text: String, _ message: String) throws {
        let result = try run("\n  " + text)
        #expect(result.failures.map(\.message) == [message])
        #expect(result.failures[0].failed.line == 2 && result.failures[0].failed.column == 3)
    }

    @Test(arguments: [
        (#"{"as":"ada","update":"/p","values":{"a/t":"x","b/t":"x"},"expect":"deny","refusedBy":"BY"}"#, "/p.rate"),
        (#"{"as":"ada","write":"/p/a","value":{"t":"x","likes":5},"expect":"deny","refusedBy":"BY"}"#, "/p/$p.counts"),
        (#"{"count":"/c","near":true,"radius":999,"expect":"deny","refusedBy":"BY"}"#, "/c.count"),
    ]) func refusal_ofABound_namesItsPlace(_ text: String, _ rule: String) throws {
        let rules = try RuleSet(
            parsing: """
                {"rules":{
                  "p":{".write":true,".rate":{"perSecond":1,"burst":1},"$p":{".counts":{"likes":"count(likes/$p)"}}},
                  "c":{".read":true,".count":{"radius":1000}}}}
                """)
        for (by, isRight) in [(rule, true), (".write", false), (".read", false)] {
            let cases = "{\"users\":{\"ada\":{\"uid\":\"ada\"}},\"cases\":[\(text.replacing("BY", with: by))]}"
            let result = rules.run(try RuleCases(parsing: cases))
            #expect(result.failures.isEmpty == isRight, "\(result.failures)")
            if let trace = result.failures.first?.trace { #expect(trace.refuser == rule && trace.reason != "Allowed.") }
        }
    }

    @Test(arguments: [
        ("{}", #"1:1: Expected 'cases', a list."#),
        (#"{"cases":[{}]}"#, "1:11: A case has one of 'read', 'query', 'count', 'write' and 'update', with a path, or 'deleteAccount'."),
        (#"{"cases":[{"read":"/a","write":"/b","expect":"deny"}]}"#, "1:11: A case has one of"),
        (#"{"cases":[{"raed":"/a","expect":"deny"}]}"#, "1:12: Unknown key 'raed'. Did you mean 'read'?"),
        (#"{"cases":[{"read":"/a.b","expect":"deny"}]}"#, "1:19: '/a.b' is no path."),
        (#"{"cases":[{"read":"/a","expect":"maybe"}]}"#, "1:33: Expected \"allow\" or"),
        (#"{"cases":[{"read":"/a","as":"eve","expect":"deny"}]}"#, "1:29: There is no 'eve' in 'users'."),
        (#"{"cases":[{"write":"/a","expect":"deny"}]}"#, "1:11: A 'write' has a 'value'"),
        (#"{"data":"none.json","cases":[]}"#, "1:9: There is no file 'none.json'."),
        (#"{"cases":[{"read":"/a","limitToFirst":1,"expect":"deny"}]}"#, "1:24: 'limitToFirst' belongs to a 'query' or a 'count'."),
        (#"{"cases":[{"query":"/a","where":{"a":{"b":1}},"expect":"deny"}]}"#, "1:38: A condition names no object."),
        (#"{"cases":[{"query":"/a","where":{"a.b":1},"expect":"deny"}]}"#, "1:34: 'a.b' is no path."),
        (#"{"cases":[{"query":"/a","near":5,"expect":"deny"}]}"#, "1:32: 'near' is true or false."),
        (#"{"cases":[{"query":"/a","where":["b"],"expect":"deny"}]}"#, "1:33: 'where' is an object such as {\"status\": \"open\"}."),
        (#"{"cases":[{"write":"/a","value":1,"advance":5,"expect":"allow"}]}"#, "1:35: 'advance' says when 'then' and 'sends' are checked, and"),
        (#"{"cases":[{"read":"/a"}]}"#, "1:11: A case has 'expect'."),
        (#"{"cases":[{"write":"/a","value":{"a.b":1},"expect":"deny"}]}"#, "1:34: 'a.b' cannot be a key."),
        (#"{"cases":[{"read":"/a","expect":"allow","refusedBy":".read"}]}"#, "1:33: Expected"),
        (#"{"cases":[5]}"#, "1:11: A case is an object."), ("{", "1:2: Expected"),
    ]) func file_isRefused_withTheFaultsPlace(_ text: String, _ message: String) {
        do throws(RulesErrors) {
            _ = try RuleCases(parsing: text)
            Issue.record("accepted")
        } catch { #expect(error.errors.count == 1 && error.errors[0].description.hasPrefix(message), "\(error)") }
    }

    @Test func faultsOfSeveralCases_areReportedTogether() {
        do throws(RulesErrors) {
            _ = try RuleCases(parsing: "{\"cases\":[{\"read\":5,\"expect\":\"deny\"},\n{\"read\":\"/a\",\"expect\":\"allow\"},\n"
                + "{\"write\":\"/a\",\"expect\":\"deny\"}]}")
            Issue.record("accepted")
        } catch { #expect(error.errors.map(\.line) == [1, 3]) }
    }

    @Test func data_comesFromAFile_thatIsNamed() throws {
        let cases = try RuleCases(parsing: #"{"data":"seed.json","cases":[{"read":"/n/ada","expect":"deny"}]}"#) {
            $0 == "seed.json" ? "{\"n\":{\"ada\":\"s\"}}" : nil
        }
        #expect(cases.cases[0].data == ["n": ["ada": "s"]])
    }

    @Test func given_changesTheDataOfItsCaseOnly() throws {
        let cases = try RuleCases(parsing: #"{"now":7,"data":{"a":1,"b":2},"cases":[{"read":"/","given":{"/a":null,"#
            + #""c/d":{".sv":"timestamp"}},"expect":"deny"},{"read":"/","expect":"deny"}]}"#)
        #expect(cases.cases.map(\.data) == [["b": 2, "c": ["d": 7]], ["a": 1, "b": 2]])
    }

    @Test func coverage_saysWhichRulesWereNeverTrueOrFalse() throws {
        let coverage = try run(#"{"as":"ada","read":"/n/ada","expect":"allow"},{"read":"/n/ada","expect":"deny"},{"as":"ada","#
            + #""write":"/n/ada","value":"y","expect":"allow"}"#).coverage
        #expect(coverage.rules.map(\.name) == ["/n/$k.read", "/n/$k.write", "/n/$k.validate"])
        #expect(coverage.rules.map(\.gap) == [nil, "never false", "never false"])
        #expect(coverage.coveredCount == 1 && !coverage.isComplete)
        let missed = try run(#"{"write":"/n/ada","value":"y","expect":"deny"}"#).coverage
        #expect(missed.rules.map(\.gap)[1] == "never true")
    }

    @Test func neverFalse_needsToBeSeenTrueOnly_andMustBeSo() throws {
        let rules = try RuleSet(parsing: #"{"rules":{"a":{".read":"auth != null",".write":"true"}}}"#)
        func coverage(_ names: String, _ cases: String) throws -> RuleCoverage {
            rules.run(try RuleCases(parsing: #"{"users":{"ada":{"uid":"ada"}},"neverFalse":\#(names),"cases":[{"write":"/a","value":1,"#
                + #""expect":"allow"},\#(cases)]}"#)).coverage
        }
        let (seen, refused) = (#"{"as":"ada","read":"/a","expect":"allow"}"#, #"{"read":"/a","expect":"deny"}"#)
        #expect(try coverage("[]", seen).rules[0].gap == "never false")
        #expect(try coverage(#"["/a.read"]"#, seen).isComplete)
        #expect(try coverage(#"["/a.read"]"#, "").rules[0].gap == "never asked")
        #expect(try coverage(#"["/a.read"]"#, seen + "," + refused).rules[0].gap == "declared as never false, and was not true")
        let unknown = try coverage(#"["/a.read","/b.read"]"#, seen)
        #expect(unknown.unknown == ["/b.read"] && !unknown.isComplete)
        #expect(throws: RulesErrors.self) { try RuleCases(parsing: #"{"neverFalse":"/a.read","cases":[]}"#) }
    }

    @Test func cases_keepFewTraces_andEndWhenTheirTimeIsOver() throws {
        let rules = try RuleSet(parsing: #"{"rules":{".read":false}}"#)
        let cases = (0..<5).map { _ in #"{"read":"/a","expect":"allow"}"# }.joined(separator: ",")
        let parsed = try RuleCases(parsing: #"{"cases":[\#(cases)]}"#)
        let all = rules.run(parsed)
        #expect(all.failures.count == 5 && all.failures.allSatisfy { $0.trace != nil })
        #expect(rules.run(parsed, explained: 2).failures.map { $0.trace != nil } == [true, true, false, false, false])
        var asked = 0
        let cut = rules.run(parsed) {
            asked += 1
            return asked > 3
        }
        #expect(cut.count == 3 && cut.failures.count == 3)
    }

    /// The example's cases pass, and show both results of every rule.
    @Test func watchMe_coversAllItsRules_bothWays() throws {
        let city = try City()
        let text = try String(contentsOf: City.exampleFolder().appending(path: "cases.json"), encoding: .utf8)
        let result = city.rules.run(try RuleCases(parsing: text))
        #expect(
            result.failures.isEmpty,
            "\(result.failures.map { "\($0.failed.line): \($0.failed.name): \($0.message)\n\($0.trace.map(\.description) ?? "")" })")
        #expect(result.coverage.isComplete, "\(result.coverage.rules.compactMap { rule in rule.gap.map { "\(rule.name): \($0)" } })")
        #expect(result.count > 100)
        #expect(city.rules.warnings.isEmpty, "\(city.rules.warnings)")
    }

    /// The same for the examples that are only rules.
    @Test(arguments: ["aboard", "fitness", "planner", "watchr"]) func example_coversAllItsRules_bothWays(_ name: String) throws {
        let folder = try City.exampleFolder().deletingLastPathComponent().appending(path: name)
        let rules = try RuleSet(parsing: String(contentsOf: folder.appending(path: "rules.json"), encoding: .utf8))
        let text = try String(contentsOf: folder.appending(path: "cases.json"), encoding: .utf8)
        let result = rules.run(try RuleCases(parsing: text))
        #expect(result.failures.isEmpty, "\(result.failures.map { "\($0.failed.line): \($0.failed.name): \($0.message)" })")
        #expect(result.coverage.isComplete, "\(result.coverage.rules.compactMap { rule in rule.gap.map { "\(rule.name): \($0)" } })")
        #expect(rules.warnings.isEmpty, "\(rules.warnings)")
    }
}
