import Foundation
import JSONTree
import Testing
import TestSupport

@testable import SecurityRules

/// Broken rules files, cases and patterns, and unusual values. Reading any bytes results in rules, or in faults with positions inside the text. Every
/// form of a decision gives the same result. See `RulesFuzzing` for long runs.
@Suite(.timeLimit(.fuzzing)) struct RulesFuzzTests {
    private static let fragments = [
        "\"", "'", "\\", "\\u12", "\\ud800", "{", "}", "[", "]", "(", ")", ",", ":", "/", "/*", "*/", "//", "\n", ".read", ".validate",
        "$a",
        "$post", "auth", "newData", "data.val()", ".child('a')", ".parent()", "&&", "||", "!", "?", "===", "+", "-1e400", "9", ".matches(/",
        "^(a|b)*$/", "{2,900}", "é", "😀", "\u{0}", "\u{7f}", "true", "null", "query.", "hasChildren([", "=", "==", ".expire", ".indexOn",
    ]

    // MARK: Files

    /// Lines of a text, each with its length in UTF-16 units.
    private static func lines(_ text: String) -> [Int] {
        text.utf16.split(separator: 0x0A, omittingEmptySubsequences: false).map(\.count)
    }

    /// Describes faults with wrong positions; nil if all lie inside the text.
    private static func misplaced(_ errors: RulesErrors, _ bytes: [UInt8]) -> String? {
        if errors.errors.isEmpty { return "refused without a fault" }
        if errors.errors.count > 500 { return "\(errors.errors.count) faults" }
        let lines = lines(String(decoding: bytes, as: UTF8.self))
        for (fault, next) in zip(errors.errors, errors.errors.dropFirst()) where (fault.line, fault.column) > (next.line, next.column) {
            return "faults out of order: \(fault), \(next)"
        }
        for fault in errors.errors {
            guard fault.line >= 1, fault.line <= lines.count, fault.column >= 1, fault.column <= lines[fault.line - 1]
                + 1, !fault.message.isEmpty
            else { return "fault outside the text: \(fault)" }
        }
        return nil
    }

    @Test func files() throws {
        let corpus = try RulesFuzzing.corpus("rules").map(\.bytes)
        try RulesFuzzing(name: "files").run { random, tally in
            let bytes = random.chance(70) ? RulesFuzzing.mutated(corpus, Self.fragments, &random) : Array(Self.wildFile(&random).utf8)
            let rules: RuleSet
            do throws(RulesErrors) { rules = try Self.parse(bytes, &tally) } catch {
                return Self.misplaced(error, bytes).map { "\($0)\n\(String(decoding: bytes, as: UTF8.self))" }
            }
            tally.accepted += 1
            if let fault = Self.misplacedWarnings(rules, bytes) { return "\(fault)\n\(rules.text)" }
            // The plain form parses to the same rules.
            let told = Set(rules.summary.flatMap { $0.sentences.flatMap(\.keys) })
            guard told == Set(rules.declarations.map(\.name)) else { return "keys without a sentence, or none of the file:\n\(rules.text)" }
            guard let plain = try? Self.parse(Array(rules.plainJSON.utf8), &tally) else {
                return "plain JSON is refused: \(rules.plainJSON)\n\(rules.text)"
            }
            guard plain.rules.map(\.name) == rules.rules.map(\.name), plain.rules.map(\.source.text) == rules.rules.map(\.source.text)
            else { return "plain JSON is other rules: \(rules.text)" }
            return Self.disagreement(rules, &random, &tally).map { "\($0)\n\(rules.text)" }
        }
    }

    private static func parse(_ bytes: [UInt8], _ tally: inout RulesFuzzing.Tally) throws(RulesErrors) -> RuleSet {
        let made: Result<RuleSet, RulesErrors> = tally.timed {
            do throws(RulesErrors) { return .success(try RuleSet(parsing: bytes)) } catch { return .failure(error) }
        }
        return try made.get()
    }

    private static func compile(_ pattern: String, _ ignoresCase: Bool) -> Result<Regex, RegexError> {
        do throws(RegexError) { return .success(try Regex(pattern, ignoresCase: ignoresCase)) } catch { return .failure(error) }
    }

    private static func misplacedWarnings(_ rules: RuleSet, _ bytes: [UInt8]) -> String? {
        let warnings = rules.warnings
        return warnings.isEmpty ? nil : misplaced(RulesErrors(errors: warnings), bytes)
    }

    /// A file whose expressions are mostly invalid.
    private static func wildFile(_ random: inout SeededRandom) -> String {
        func rule(_ random: inout SeededRandom) -> String {
            var wild = WildExpression(random: SeededRandom(random.next()))
            return quoted(random.chance(50) ? wild.plausible(random.below(4)) : wild.text(random.below(5)))
        }
        func node(_ depth: Int, _ random: inout SeededRandom) -> String {
            var members: [String] = []
            for kind in [".read", ".write", ".validate"] where random.chance(40) {
                members.append("\"\(kind)\":\(rule(&random))")
            }
            if random.chance(15) {
                members.append("\".indexOn\":" + random.pick(["\"a\"", "[\"a\",\".value\"]", "5", "[5]", "\"\"", "\"a/b\""]))
            }
            if random.chance(3) { members.append("\".geoIndex\":" + random.pick([
                    "{\"lat\":\"a\"}", "true", "{}", "{\"lat\":\"a\",\"lng\":\"b/c\"}",
                    "{\"lat\":\"a\",\"lng\":\"b\",\"filter\":[\"a\",5,\"x/*\"],\"order\":[]}",
                ])) }
            if depth > 0 {
                for name in ["a", "b", "$a", "$b", "a.b", "é"] where random.chance(30) {
                    members.append("\(quoted(name)):\(node(depth - 1, &random))")
                }
            }
            return "{" + members.joined(
                separator: random.pick([",", ", ", ",\n", ",/* c */", ",,"])) + random.pick(["}", "}", "}", ",}", ""])
        }
        return "{\"rules\":" + node(3, &random) + "}"
    }

    @Test func cases() throws {
        let corpus = try RulesFuzzing.corpus("cases").map(\.bytes)
        let tokens = Self.fragments + [
            "\"as\"", "\"given\"", "\"now\"", "\"expect\"", "\"deny\"", "{\".sv\":\"timestamp\"}", "\"/a/b\"", "\"query\"",
            "\"limitToFirst\"",
        ]
        let rules = try RuleSet(
            parsing: #"{"rules":{"users":{"$u":{".read":"auth.uid == $u",".write":"auth.uid == $u"}}}}"#)
        try RulesFuzzing(name: "cases").run { random, tally in
            let bytes = RulesFuzzing.mutated(corpus, tokens, &random)
            let text = String(decoding: bytes, as: UTF8.self)
            do throws(RulesErrors) {
                let cases = try RuleCases(parsing: text)
                let result = tally.timed { rules.run(cases) }
                tally.accepted += 1
                tally.decisions += result.count
                return result.count == 0 ? "accepted without a case: \(text)" : nil
            } catch { return Self.misplaced(error, Array(text.utf8)).map { "\($0)\n\(text)" } }
        }
    }

    @Test func everyPrefix_isRefused_withoutHanging() throws {
        let text = "{\"rules\":{\"$k\":{\".write\":\"data.child('a/b').val().matches(/^[a-z]{2,3}$/i) || $k == \\\"x\\\\n\\\"\"}}} // end"
        #expect(faults(text) == [])
        let end = text.count - 7
        for length in 0..<end { #expect(faults(String(text.prefix(length))).count == 1) }
    }

    // MARK: Patterns

    /// A pattern is refused, or its two forms agree on every text.
    @Test func regexes() throws {
        let corpus = try RulesFuzzing.corpus("regex").map { String(decoding: $0.bytes, as: UTF8.self).filter { $0 != "\n" } }
        try RulesFuzzing(name: "regexes").run { random, tally in
            var wild = WildRegex(random: SeededRandom(random.next()))
            var pattern = wild.pattern(random.below(5))
            if random.chance(20) {
                pattern = String(
                    decoding: RulesFuzzing.mutated(corpus.map { Array($0.utf8) }, ["{9}", "|", "(", ")*", "[^a]", "\\d"], &random),
                    as: UTF8.self)
            }
            let ignoresCase = random.chance(30)
            let regex: Regex
            switch tally.timed({ Self.compile(pattern, ignoresCase) }) {
            case .success(let made): regex = made
            case .failure(let error): return error.reason.isEmpty ? "refused without a reason: \(pattern)" : nil
            }
            tally.accepted += 1
            let simulated = try? Regex(pattern, ignoresCase: ignoresCase, maxTableStates: 0)
            for _ in 0..<4 {
                let text = Text(Self.strangeText(&random, most: 2_000))
                tally.decisions += 1
                guard let found = tally.timed({ regex.matches(text) }) else { continue }
                if let other = tally.timed({ simulated?.matches(text) }), other != found {
                    return "table and simulation differ: \(pattern) on \(text.string.debugDescription)"
                }
            }
            return nil
        }
    }

    // MARK: Decisions

    /// Rules made of every part of the language, valid and invalid ones, over values of every kind that the tree can hold.
    @Test func decisions() throws {
        let corpus = try RulesFuzzing.corpus("rules").compactMap { try? RuleSet(parsing: $0.bytes) }
        let values = try RulesFuzzing.corpus("values").map { try Node(json: String(decoding: $0.bytes, as: UTF8.self)) }
        try RulesFuzzing(name: "decisions", count: 40).run { random, tally in
            let rules: RuleSet
            switch random.below(10) {
            case 0: rules = random.pick(corpus)
            case 1...4:
                let model = ModelRules(&random, depth: 3)
                guard let made = try? Self.parse(Array("{\"rules\":\(model.json)}".utf8), &tally) else { return "refused: \(model.json)" }
                rules = made
            default:
                var wild = WildExpression(random: SeededRandom(random.next()), captures: ["$a", "$b"])
                let (write, validate, leaf) = (
                    wild.plausible(random.below(4)), wild.plausible(random.below(4)), wild.plausible(random.below(4)))
                let text = "{\"rules\":{\".write\":true,\"$a\":{\"$b\":{\".read\":\(quoted(leaf.replacing("newData", with: "data"))),"
                    + "\".write\":\(quoted(write)),\".validate\":\(quoted(validate)),\"$c\":{\".validate\":\(quoted(leaf))}}}}}"
                do throws(RulesErrors) { rules = try Self.parse(Array(text.utf8), &tally) } catch {
                    return Self.misplaced(error, Array(text.utf8))
                }
            }
            tally.accepted += 1
            return Self.disagreement(rules, &random, &tally, values).map { "\($0)\n\(rules.text)" }
        }
    }

    /// Takes decisions in every form, and describes forms that differ.
    private static func disagreement(
        _ rules: RuleSet, _ random: inout SeededRandom, _ tally: inout RulesFuzzing.Tally, _ values: [Node] = []
    ) -> String? {
        func value(_ depth: Int, _ random: inout SeededRandom) -> Node {
            !values.isEmpty && random.chance(15) ? random.pick(values) : strangeNode(&random, depth: depth)
        }
        let places: [Path] = [
            "/", "/a", "/a/b", "/0/a", "/b/0/a/b", "/a/\u{1F600}", "/posts/p", "/users/u1/name",
            "/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a",
        ]
        for _ in 0..<3 {
            let old = value(3, &random)
            var new = old
            let locations = (0...random.below(5)).map { _ in random.pick(places) }
            for location in locations {
                let written = value(2, &random)
                if written.fits(below: location.depth) { new.set(written, at: location) }
            }
            let auth: Node = random.chance(30) ? .null : ["uid": strangeLeaf(&random), "token": strangeNode(&random, depth: 2)]
            let now = Int64(bitPattern: random.next())
            var query = QueryVariables()
            if random.chance(30) { (query.orderByChild, query.limitToFirst, query.startAt) = ("a", random.below(9), strangeLeaf(&random)) }
            if random.chance(30) { (query.near, query.radius, query.conditions) = (true, 5, ["a": strangeLeaf(&random), "b": 1]) }
            tally.decisions += 2

            let writes = tally.timed { rules.allowsWrite(locations, old: old, new: new, auth: auth, now: now) }
            let told = tally.timed { rules.explainWrite(locations, old: old, new: new, auth: auth, now: now) }
            if told.isAllowed != writes { return "write \(locations): \(writes), explained \(told.isAllowed)\n\(old.json)\n\(new.json)" }
            if told.steps.count > RuleTrace.maxSteps || told.steps.contains(where: { $0.parts.count > RulesLimits.traceParts }) {
                return "a trace without end"
            }
            let reads = tally.timed { rules.allowsRead(locations[0], root: old, auth: auth, now: now, query: query) }
            guard rules.explainRead(locations[0], root: old, auth: auth, now: now, query: query).isAllowed == reads,
                rules.decideRead(locations[0], root: old, auth: auth, now: now, query: query).isAllowed == reads
            else { return "read \(locations[0]) differs\n\(old.json)" }
            // An update of one place equals a write of it, and the order of places does not matter.
            if rules.allowsWrite(locations.reversed(), old: old, new: new, auth: auth, now: now) != writes {
                return "order of places counts: \(locations)"
            }
        }
        return nil
    }

    /// The worst values that the tree can hold, built and not stored: small enough not to slow down a debug build.
    @Test(arguments: [
        ("newData.val().contains(newData.val() + 'a') || true", 1_000_000), ("newData.val().replace('a', 'b').length > 0", 1_000_000),
        ("newData.val().toUpperCase().toLowerCase() == newData.val()", 1_000_000),
        ("newData.val().matches(/^(a|b|ab)*(c|d)?$/)", 1_000_000),
        ("root.child(newData.val()).exists() == false", 1_000_000), ("newData.val() + newData.val() != newData.val()", 1_000_000),
        ("newData.val() == newData.val() && newData.val() <= newData.val()", 1_000_000),
        ("newData.val().length > 0 && newData.hasChild(newData.val()) == false", 1_000_000),
    ]) func longString_isDecidedInOnePass(_ expression: String, _ length: Int) throws {
        let rules = try RuleSet(parsing: "{\"rules\":{\".write\":true,\".validate\":\(quoted(expression))}}")
        #expect(rules.allowsWrite([.root], old: .null, new: .string(String(repeating: "a", count: length)), auth: .null, now: 0))
    }

    // MARK: Values

    private static func strangeText(_ random: inout SeededRandom, most: Int) -> String {
        let piece = random.pick(["a", "b", "ab", "0", "/", "a/", "é", "😀", "A", "\n", " ", "\u{301}", "xyz-1_"])
        let length = random.chance(70) ? random.below(12) : random.below(most)
        return String(repeating: piece, count: length / 2) + random.pick(["", "a", "c", "0", "/"]) + String(
            repeating: random.pick(["a", "b", "1"]), count: length / 2)
    }

    private static func strangeNode(_ random: inout SeededRandom, depth: Int) -> Node {
        guard depth > 0, random.chance(70) else { return strangeLeaf(&random) }
        if random.chance(2) {
            var deep = strangeLeaf(&random)
            for _ in 0..<28 { deep = .object([(Key(random.pick(["a", "b"])), deep)]) }
            return deep
        }
        let wide = depth == 1 && random.chance(5) ? (0..<(random.chance(10) ? 1_500 : 80)).map { "w\($0)" } : []
        let keys = (["a", "b", "0", "c", "1", "length", "uid", "é", "\u{1F600}", "a b"] + wide).filter { _ in random.chance(50) }
        let priority: Node = random.chance(10) ? random.pick([1, "p", -0.5]) : .null
        return .object(keys.map { (Key($0), strangeNode(&random, depth: depth - 1)) }, priority: priority)
    }

    private static let leaves: [Node] = [
        .null, true, false, 0, -1, .int(.max), .int(.min), 1e308, -0.0, 1e-300, "", "a", "/", "//a/", "a/b", "..", "\u{0}", "\u{1F600}",
        "e\u{301}",
        .string(String(repeating: "x", count: 5000)), .string(String(repeating: "/", count: 900)), "0", "1e400",
    ]

    private static func strangeLeaf(_ random: inout SeededRandom) -> Node {
        let leaf = random.chance(5) ? .string(strangeText(&random, most: random.chance(5) ? 70_000 : 500)) : random.pick(leaves)
        return random.chance(10) ? leaf.with(priority: random.pick([1, "p"])) : leaf
    }
}
