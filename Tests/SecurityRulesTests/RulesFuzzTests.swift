import Foundation
import JSONTree
import SecurityRules
import Testing

/// Broken rules files and strange values: whatever the bytes are, parsing ends with rules or with faults that lie inside the
/// text, and every decision ends the same way with and without a trace.
///
/// `VIGLA_FUZZ_SECONDS` makes each of the two run that long, with new seeds each time.
@Suite struct RulesFuzzTests {
    private static let seconds = ProcessInfo.processInfo.environment["VIGLA_FUZZ_SECONDS"].flatMap(Double.init)

    /// Calls `body` with seeds: a few fixed ones, or random ones until the time is over. Returns how many.
    @discardableResult
    private static func repeated(_ count: Int, _ seed: Int, _ body: (inout SeededRandom) throws -> Void) rethrows -> Int {
        let end = Date().addingTimeInterval(seconds ?? 0)
        var rounds = 0
        while seconds == nil ? rounds < count : Date() < end {
            let start = seconds == nil ? UInt64(seed) &* 7919 &+ UInt64(rounds) : UInt64.random(in: 0 ... .max)
            var random = SeededRandom(start)
            try body(&random)
            rounds += 1
        }
        if seconds != nil { print("\(rounds) rounds in \(seconds ?? 0) s") }
        return rounds
    }

    private static let fragments = [
        "\"", "'", "\\", "\\u12", "\\ud800", "{", "}", "[", "]", "(", ")", ",", ":", "/", "/*", "*/", "//", "\n", ".read", ".validate", "$a",
        "$post", "auth", "newData", "data.val()", ".child('a')", ".parent()", "&&", "||", "!", "?", "===", "+", "-1e400", "9", ".matches(/",
        "^(a|b)*$/", "{2,900}", "é", "😀", "\u{0}", "\u{7f}", "true", "null", "query.", "hasChildren([", "=", "==", ".expire", ".indexOn",
    ]

    @Test(arguments: 0..<6) func parsing_endsWithFaultsInsideTheText_onMutatedRules(_ seed: Int) throws {
        let original = try City().rules.text
        let expressions = CompileTests.rows.map { "{\"rules\":{\"$k\":{\".write\":\(quoted($0.expression))}}}" }
        Self.repeated(80, seed) { random in
            var scalars = Array((random.chance(25) ? original : random.pick(expressions)).unicodeScalars)
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

    /// Rules made of every piece of the language over values made of everything the tree can hold.
    @Test(arguments: 0..<3) func evaluation_endsAlike_withAndWithoutATrace(_ seed: Int) throws {
        Self.repeated(40, seed) { random in
            let model = ModelRules(&random, depth: 3)
            guard let rules = try? RuleSet(parsing: "{\"rules\":" + model.json + "}") else {
                Issue.record("refused: \(model.json)")
                return
            }
            let old = Self.strangeNode(&random, depth: 3)
            var new = old
            let places: [Path] = ["/", "/a", "/a/b", "/0/a", "/b/0/a/b", "/a/\u{1F600}"]
            let locations = (0...random.below(5)).map { _ in random.pick(places) }
            for location in locations { new.set(Self.strangeNode(&random, depth: 2), at: location) }
            let auth: Node = random.chance(30) ? .null : ["uid": Self.strangeLeaf(&random), "token": Self.strangeNode(&random, depth: 2)]
            let now = Int64(bitPattern: random.next())

            let writes = rules.allowsWrite(locations, old: old, new: new, auth: auth, now: now)
            #expect(rules.explainWrite(locations, old: old, new: new, auth: auth, now: now).isAllowed == writes, "\(model.json)")
            let reads = rules.allowsRead(locations[0], root: old, auth: auth, now: now)
            #expect(rules.explainRead(locations[0], root: old, auth: auth, now: now).isAllowed == reads, "\(model.json)")
        }
    }

    private static func strangeNode(_ random: inout SeededRandom, depth: Int) -> Node {
        guard depth > 0, random.chance(70) else { return strangeLeaf(&random) }
        let wide = depth == 1 && random.chance(5) ? (0..<80).map { "w\($0)" } : []
        let keys = (["a", "b", "0", "c", "1", "length", "uid", "é", "\u{1F600}", "a b"] + wide).filter { _ in random.chance(50) }
        let priority: Node = random.chance(10) ? random.pick([1, "p", -0.5]) : .null
        return .object(keys.map { (Key($0), strangeNode(&random, depth: depth - 1)) }, priority: priority)
    }

    private static func strangeLeaf(_ random: inout SeededRandom) -> Node {
        let leaf: Node = random.pick([
            .null, true, false, 0, -1, .int(.max), .int(.min), 1e308, -0.0, 1e-300, "", "a", "/", "//a/", "a/b", "..", "\u{0}", "\u{1F600}", "e\u{301}",
            .string(String(repeating: "x", count: 5000)), .string(String(repeating: "/", count: 900)), "0", "1e400",
        ])
        return random.chance(10) ? leaf.with(priority: random.pick([1, "p"])) : leaf
    }

    @Test func everyPrefix_isRefused_withoutHanging() throws {
        let text = "{\"rules\":{\"$k\":{\".write\":\"data.child('a/b').val().matches(/^[a-z]{2,3}$/i) || $k == \\\"x\\\\n\\\"\"}}} // end"
        #expect(faults(text) == [])
        let end = text.count - 7
        for length in 0..<end { #expect(faults(String(text.prefix(length))).count == 1) }
    }
}
