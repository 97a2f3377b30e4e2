import JSONTree
import Testing

@testable import SecurityRules

/// Each limit from both sides.
@Suite struct RulesLimitsTests {
    private func nested(_ open: String, _ count: Int, _ close: String) -> [RuleError] {
        let expression = String(repeating: open, count: count) + "true" + String(repeating: close, count: count)
        return faults("{\"rules\":{\".read\":\"\(expression)\"}}")
    }

    @Test(arguments: [("(", ")"), ("!", ""), ("true ? true : ", "")]) func expression_isRefused_whenItNestsTooDeeply(_ open: String, _ close: String) {
        #expect(nested(open, RulesLimits.expressionHeight - 1, close) == [])
        #expect(nested(open, RulesLimits.expressionHeight, close).map(\.message) == ["Expression is nested deeper than 256 levels."])
    }

    @Test func longChain_isNoDeepExpression() throws {
        let rules = try RuleSet(parsing: "{\"rules\":{\".read\":\"\(String(repeating: "data.exists() || ", count: 20_000))auth == null\"}}")
        #expect(rules.allowsRead("/", root: .null, auth: .null, now: 0))
        #expect(!rules.allowsRead("/", root: .null, auth: ["uid": "a"], now: 0))
    }

    @Test func regularExpression_isRefused_whenItsTableIsTooLarge() throws {
        _ = try Regex("^a{2000}$", ignoresCase: false)
        #expect(throws: RegexError.self) { try Regex("^a{2100}$", ignoresCase: false) }
        #expect(throws: RegexError.self) { try Regex("^a{5100}$", ignoresCase: false) }
    }

    /// A text too long for a simulated pattern fails the rule: it neither grants nor is it true under a `!`.
    @Test func ruleFails_whenATextIsTooLong_forASimulatedPattern() throws {
        let rules = try RuleSet(parsing: #"{"rules":{".read":"!data.val().matches(/(a|b)*a(a|b){13}c/)"}}"#)
        let longest = String(repeating: "a", count: RulesLimits.regexSimulatedBytes)
        #expect(rules.allowsRead("/", root: .string(longest), auth: .null, now: 0))
        #expect(!rules.allowsRead("/", root: .string(longest + "a"), auth: .null, now: 0))
    }

    @Test func upperCase_isBounded_asOtherComputedStrings() throws {
        // Each of these grows from two bytes to six.
        let rules = try RuleSet(parsing: #"{"rules":{".read":"data.val().toUpperCase().length > 0"}}"#)
        #expect(rules.allowsRead("/", root: .string(String(repeating: "ΐ", count: 1_000_000)), auth: .null, now: 0))
        #expect(!rules.allowsRead("/", root: .string(String(repeating: "ΐ", count: 2_000_000)), auth: .null, now: 0))
    }
}
