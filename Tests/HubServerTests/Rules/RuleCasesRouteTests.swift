import HubServer
import JSONTree
import SecurityRules
import TestHub
import Testing

/// `POST /.settings/testRules`: `vigla rules test` for tools.
@Suite(.timeLimit(.minutes(30))) struct RuleCasesRouteTests {
    private static let rules = #"{"rules":{"a":{".read":"auth != null",".write":"auth.uid == 'ada'"}}}"#

    private func ask(_ peer: RESTPeer, cases: String, rules: String? = nil) throws -> (status: Int, answer: Node) {
        var body = "{\"cases\":\(Node.string(Text(cases)).json)"
        if let rules { body += ",\"rules\":\(Node.string(Text(rules)).json)" }
        let answer = try peer.ask("POST", "/.settings/testRules", body + "}")
        return (answer.status, try Node(json: answer.body))
    }

    private func server() throws -> TestServer {
        let rules = try RuleSet(parsing: Self.rules)
        return try TestServer { $0.rules = rules }
    }

    @Test func cases_areDecided_byTheRulesInForce_orByOthers() throws {
        let owner = try RESTPeer.owner(try server())
        let cases = """
            {"cases":[{"as":{"uid":"eve"},"read":"/a","expect":"allow"},{"read":"/a","expect":"deny"},
            {"name":"Eve writes","as":{"uid":"eve"},"write":"/a","value":1,"expect":"allow"}]}
            """
        let (status, answer) = try ask(owner, cases: cases)
        #expect(status == 200)
        #expect(answer.child("count") == 3 && answer.child("passed") == 2 && answer.child("covered") == 1, "\(answer.json)")
        let failure = answer.child("failures").child("0")
        #expect(failure.child("name") == "Eve writes" && failure.child("line") == 2)
        #expect(failure.child("explanation").child("rules").child("0").child("rule") == "/a.write")
        #expect(answer.child("rules").child("1").child("gap") == "never true")
        #expect(answer.child("rules").child("0").child("true") == 1 && answer.child("rules").child("0").child("notTrue") == 1)
        let open = try ask(owner, cases: cases, rules: #"{"rules":{".read":true,".write":true}}"#)
        #expect(open.status == 200 && open.answer.child("passed") == 2)
    }

    /// A check is a dry run; failing cases do not make its answer an error.
    @Test func check_tellsFaultsAndChanges_andChangesNothing() throws {
        let server = try server()
        let owner = try RESTPeer.owner(server)
        let faulty = try owner.ask("POST", "/.settings/checkRules", #"{"rules":{".read":"dta"}}"#)
        #expect(faulty.status == 200)
        let fault = try Node(json: faulty.body).child("faults").child("0")
        #expect(fault.child("line") == 1 && fault.child("column") == 20)
        let right = try owner.ask("POST", "/.settings/checkRules", #"{"rules":{"a":{".read":"auth != null"}}}"#)
        #expect(try Node(json: right.body).child("changes").child("removed").child("0") == "/a.write")
        #expect(server.server.rules(of: "test")?.text == Self.rules)
        #expect(try RESTPeer(server).line("POST", "/.settings/checkRules", "{}").hasPrefix("401"))
    }

    @Test func faults_nameTheTextTheyAreIn() throws {
        let server = try server()
        let owner = try RESTPeer.owner(server)
        let inCases = try ask(owner, cases: #"{"cases":[{"read":"/a"}]}"#)
        #expect(inCases.status == 400 && inCases.answer.child("of") == "cases")
        #expect(inCases.answer.child("faults").child("0").child("line") == 1)
        let inRules = try ask(owner, cases: "{\"cases\":[]}", rules: #"{"rules":{".read":"dta"}}"#)
        #expect(inRules.status == 400 && inRules.answer.child("of") == "rules")
        // The cases cannot refer to files.
        #expect(try ask(owner, cases: #"{"data":"/etc/passwd","cases":[]}"#).status == 400)
        #expect(try owner.line("POST", "/.settings/testRules", "[]").hasPrefix("400"))
        #expect(try RESTPeer(server).line("POST", "/.settings/testRules", "{}").hasPrefix("401"))
    }
}
