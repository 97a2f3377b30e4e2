import HubServer
import SecurityRules
import TestHub
import Testing

/// `GET` and `POST /.settings/explainRules`: rules in sentences, for administrators.
@Suite(.timeLimit(.minutes(30))) struct RuleSummaryRouteTests {
    private func peer() throws -> RESTPeer {
        let rules = try RuleSet(parsing: """
            {"functions":{"staff()":"auth.token.staff == true"},
             "rules":{"a":{".read":true,"$b":{".write":"staff()","c":{".validate":"newData.isString()"}}},"d":{".write":"auth != null"}}}
            """)
        return try RESTPeer.owner(TestServer { $0.rules = rules })
    }

    private static let a = #"{"place":"/a","sentences":[{"kind":"read","text":"Read by everybody, signed in or not."},"#
        + #"{"kind":"write","text":"Nobody writes it as a whole."}]}"#
    private static let b = #"{"place":"/a/$b","sentences":[{"kind":"read","text":"Read by everybody, signed in or not, because of /a."},"#
        + #"{"kind":"write","text":"Written by everybody for whom `staff()` holds."},"#
        + #"{"kind":"valid","text":"Its `c` is valid if it is a text."}]}"#
    private static let d = #"{"place":"/d","sentences":[{"kind":"read","text":"Nobody reads it."},"#
        + #"{"kind":"write","text":"Written by everybody who is signed in."}]}"#
    private static let staff = #"{"place":"staff()","sentences":[{"kind":"function","text":"Means: the user has the claim `staff`."}]}"#

    @Test func rulesInForce_atAPlace_andBelow() throws {
        let peer = try peer()
        let root = #"{"place":"/","sentences":[{"kind":"read","text":"Nobody reads it as a whole."},"#
            + #"{"kind":"write","text":"Nobody writes it as a whole."}]}"#
        func all(_ places: String...) -> String { "200 [\(places.joined(separator: ",\n"))]\n" }
        #expect(try peer.get("/.settings/explainRules.json") == all(root, Self.a, Self.b, Self.d, Self.staff))
        #expect(try peer.get("/.settings/explainRules.json?place=/a") == all(Self.a, Self.b, Self.staff))
        #expect(try peer.get("/.settings/explainRules.json?place=/a/x/c/deeper") == all(Self.b, Self.staff), "a field, with its place")
        #expect(try peer.get("/.settings/explainRules.json?place=d") == all(Self.d, Self.staff))
        #expect(try peer.get("/.settings/explainRules.json?place=/elsewhere") == all(root, Self.staff))
        #expect(try peer.refusal("GET", "/.settings/explainRules.json?place=a.b").hasPrefix("400 "))
    }

    @Test func rulesOfTheBody_areNotDeployed_andFaultsAreAnswered() throws {
        let peer = try peer()
        let open = try peer.line("POST", "/.settings/explainRules?place=/x", #"{"rules":{".read":true}}"#)
        #expect(open.contains("Read by everybody, signed in or not.") && open.hasPrefix("200 "))
        let faulty = try peer.line("POST", "/.settings/explainRules", #"{"rules":{".read":"dta.exists()"}}"#)
        #expect(faulty.hasPrefix(#"200 {"error":"1:20: Unknown variable 'dta'.\n","faults":[{"line":1,"column":20,"#), "\(faulty)")
        #expect(try peer.line("POST", "/.settings/explainRules", "").hasPrefix(#"200 {"error":"1:1: Parse error."#))
        #expect(try peer.get("/.settings/explainRules.json?place=/d").contains("Written by everybody who is signed in."), "as before")
    }
}
