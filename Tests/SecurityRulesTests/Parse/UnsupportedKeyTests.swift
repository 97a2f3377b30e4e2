import JSONTree
import Testing
import TestSupport

@testable import SecurityRules

/// Keys of rules files that have a meaning, but that this version does not act on.
@Suite(.timeLimit(.minutes(30))) struct UnsupportedKeyTests {
    @Test(arguments: UnsupportedKeys.ofPlace.sorted()) func keyOfAPlace_isRefused_whateverItsValue(_ key: String) {
        for value in ["true", "\"now\"", "5", "null", "{}", "[]", "{\"a\":[{\"b\":\"c\"}]}"] {
            let found = faults("{\"rules\":{\n  \"a\":{\"\(key)\":\(value)}}}")
            #expect(found.map(\.description) == ["2:8: '\(key)' is not supported by this version."])
        }
    }

    @Test(arguments: UnsupportedKeys.ofFile.sorted()) func keyBesideTheRules_isRefused(_ key: String) {
        #expect(faults("{\"rules\":{},\n\"\(key)\":{}}").map(\.description) == ["2:1: '\(key)' is not supported by this version."])
    }

    @Test(arguments: UnsupportedKeys.ofCase.sorted()) func keyOfACase_isRefused(_ key: String) {
        do throws(RulesErrors) {
            _ = try RuleCases(parsing: "{\"cases\":[{\"\(key)\":5}]}")
            Issue.record("accepted")
        } catch { #expect(error.errors.map(\.description) == ["1:12: '\(key)' is not supported by this version."]) }
    }

    /// All of them at once, among other faults, in the order of the text.
    @Test func keys_areFaultsAmongOthers() {
        let found = faults("{\"rules\":{\".alias\":\"now\",\n\".read\":\"dta\",\n\"$x\":{\".search\":[]}}}")
        #expect(
            found.map(\.description) == [
                "1:11: '.alias' is not supported by this version.", "2:10: Unknown variable 'dta'.",
                "3:7: '.search' is not supported by this version.",
            ])
    }

    @Test func rulesInForce_holdWithoutTheKeys_andNameThem() throws {
        let text = #"{"rules":{"a":{".read":true,".expire":"5 +",".search":7,"b":{".write":true}}},"files":{}}"#
        let rules = try RuleSet(inForce: text)
        #expect(rules.allowsRead("/a", root: .null, auth: .null, now: 0) && !rules.allowsRead("/b", root: .null, auth: .null, now: 0))
        #expect(rules.allowsWrite(["/a/b"], old: .null, new: ["a": ["b": 1]], auth: .null, now: 0))
        #expect(
            rules.unsupported.map(\.description) == [
                "1:43: Unexpected end of expression.", "1:45: '.search' is not supported by this version.",
                "1:79: 'files' is not supported by this version.",
            ])
        #expect(rules.text == text && rules.rules.map(\.name) == ["/a.read", "/a/b.write"])
        // Other faults deny, as always.
        #expect(throws: RulesErrors.self) { try RuleSet(inForce: #"{"rules":{".alias":1,".read":"x"}}"#) }
        #expect(try RuleSet(parsing: #"{"rules":{}}"#).unsupported.isEmpty)
    }

    /// Earlier versions accepted an `.expire` of any form, anywhere.
    @Test(arguments: ["3600000", "{\"after\":\"30d\"}", "[]", "{}", "true", "null", "[\"1\",5]", "{\"at\":1}", "\"5 +\""])
    func expiryInForce_thatHasAnotherForm_isPassedOver(_ value: String) throws {
        for text in [
            "{\"rules\":{\".read\":true,\"a\":{\".expire\":\(value)}}}", "{\"rules\":{\".read\":true,\".expire\":\(value)}}",
        ] {
            let rules = try RuleSet(inForce: text)
            #expect(rules.allowsRead("/a", root: .null, auth: .null, now: 0) && !rules.hasExpiry && rules.unsupported.count == 1, "\(text)")
            #expect(!faults(text).isEmpty, "a deploy of it is refused")
        }
    }
}
