import Foundation
import JSONTree
import SecurityRules
import Testing

/// Broken rules files: whatever the bytes are, parsing ends with rules or with faults that lie inside the text.
@Suite struct RulesFuzzTests {
    private static let fragments = [
        "\"", "'", "\\", "\\u12", "\\ud800", "{", "}", "[", "]", "(", ")", ",", ":", "/", "/*", "*/", "//", "\n", ".read", ".validate", "$a",
        "$post", "auth", "newData", "data.val()", ".child('a')", ".parent()", "&&", "||", "!", "?", "===", "+", "-1e400", "9", ".matches(/",
        "^(a|b)*$/", "{2,900}", "é", "😀", "\u{0}", "\u{7f}", "true", "null", "query.", "hasChildren([", "=", "==", ".expire", ".indexOn",
    ]

    @Test(arguments: 0..<6) func parsing_endsWithFaultsInsideTheText_onMutatedRules(_ seed: Int) throws {
        let original = try City().rules.text
        let expressions = CompileTests.rows.map { "{\"rules\":{\"$k\":{\".write\":\(quoted($0.expression))}}}" }
        var random = SeededRandom(UInt64(seed) &* 7919)
        for round in 0..<80 {
            var scalars = Array((round % 4 == 0 ? original : random.pick(expressions)).unicodeScalars)
            for _ in 0...random.below(6) {
                let at = random.below(scalars.count + 1)
                switch random.below(4) {
                case 0: scalars.insert(contentsOf: random.pick(Self.fragments).unicodeScalars, at: at)
                case 1: scalars.removeSubrange(at..<min(scalars.count, at + random.below(12)))
                case 2:
                    let piece = scalars[at..<min(scalars.count, at + random.below(40))]
                    scalars.insert(contentsOf: piece, at: random.below(scalars.count + 1))
                default: if at < scalars.count { scalars[at] = random.pick(random.pick(Self.fragments).unicodeScalars.map { $0 }) }
                }
            }
            var view = String.UnicodeScalarView()
            view.append(contentsOf: scalars)
            let text = String(view)
            let lines = text.utf8.filter { $0 == UInt8(ascii: "\n") }.count + 1
            do throws(RulesErrors) {
                let rules = try RuleSet(parsing: text)
                _ = rules.explainWrite(["/posts/p/x", "/a/b"], old: ["a": 1], new: ["a": ["b": "2"], "posts": ["p": 1]], auth: Caller.u1.auth, now: fixedNow)
            } catch {
                #expect(!error.errors.isEmpty)
                for fault in error.errors {
                    #expect(fault.line >= 1 && fault.line <= lines && fault.column >= 1 && !fault.message.isEmpty)
                }
            }
        }
    }

    @Test func everyPrefix_isRefused_withoutHanging() throws {
        let text = "{\"rules\":{\"$k\":{\".write\":\"data.child('a/b').val().matches(/^[a-z]{2,3}$/i) || $k == \\\"x\\\\n\\\"\"}}} // end"
        #expect(faults(text) == [])
        let end = text.count - 7
        for length in 0..<end { #expect(faults(String(text.prefix(length))).count == 1) }
    }
}
