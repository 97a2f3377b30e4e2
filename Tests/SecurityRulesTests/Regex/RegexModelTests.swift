import JSONTree
import Testing
import TestSupport

@testable import SecurityRules

/// The automaton compared with a matcher that tries everything.
@Suite(.timeLimit(.minutes(30))) struct RegexModelTests {
    /// A pattern as a tree that prints itself and can be matched by backtracking.
    indirect enum Pattern {
        case unit(Character)
        case any
        case digit
        case set([Character], isNegated: Bool)
        case sequence([Pattern])
        case alternatives([Pattern])
        case repeated(Pattern, Int, Int?)

        static func random(_ random: inout SeededRandom, depth: Int) -> Pattern {
            switch depth == 0 ? random.below(5) : random.below(10) {
            case 0, 1: return .unit(random.pick(["a", "b", "c", "1", "é"]))
            case 2: return random.chance(50) ? .any : .digit
            case 3, 4: return .set(
                (0..<random.below(3) + 1).map { _ in random.pick(["a", "b", "c", "1", "é"]) }, isNegated: random.chance(30))
            case 5, 6: return .sequence((0..<random.below(3) + 1).map { _ in .random(&random, depth: depth - 1) })
            case 7: return .alternatives((0..<random.below(2) + 2).map { _ in .random(&random, depth: depth - 1) })
            default:
                let minimum = random.below(3)
                let inner = Pattern.random(&random, depth: depth - 1)
                return .repeated(inner, minimum, random.chance(50) ? nil : minimum + random.below(3))
            }
        }

        var text: String {
            switch self {
            case .unit(let character): String(character)
            case .any: "."
            case .digit: "\\d"
            case .set(let characters, let isNegated): "[" + (isNegated ? "^" : "") + String(characters) + "]"
            case .sequence(let parts): parts.map { if case .alternatives = $0 { "(\($0.text))" } else { $0.text } }.joined()
            case .alternatives(let parts): "(" + parts.map(\.text).joined(separator: "|") + ")"
            case .repeated(let part, 0, nil): "(\(part.text))*"
            case .repeated(let part, 1, nil): "(\(part.text))+"
            case .repeated(let part, 0, 1): "(\(part.text))?"
            case .repeated(let part, let minimum, nil): "(\(part.text)){\(minimum),}"
            case .repeated(let part, let minimum, let maximum?): "(\(part.text)){\(minimum),\(maximum)}"
            }
        }

        /// All ends of a match that begins at `start`.
        func ends(_ text: [Character], _ start: Int, ignoresCase: Bool) -> Set<Int> {
            func same(_ a: Character, _ b: Character) -> Bool { ignoresCase ? a.lowercased() == b.lowercased() : a == b }
            let next = start < text.count ? text[start] : nil
            switch self {
            case .unit(let character): return next.map { same($0, character) } == true ? [start + 1] : []
            case .any: return next != nil ? [start + 1] : []
            case .digit: return next.map { "0123456789".contains($0) } == true ? [start + 1] : []
            case .set(let characters, let isNegated):
                guard let next else { return [] }
                return characters.contains { same($0, next) } != isNegated ? [start + 1] : []
            case .sequence(let parts):
                return parts.reduce([start]) { starts, part in
                    Set(starts.flatMap { part.ends(text, $0, ignoresCase: ignoresCase) })
                }
            case .alternatives(let parts): return Set(parts.flatMap { $0.ends(text, start, ignoresCase: ignoresCase) })
            case .repeated(let part, let minimum, let maximum):
                var reached: Set<Int> = minimum == 0 ? [start] : []
                var current: Set<Int> = [start]
                for round in 1...max(1, maximum ?? minimum + text.count + 1) where maximum != 0 {
                    current = Set(current.flatMap { part.ends(text, $0, ignoresCase: ignoresCase) })
                    if round >= minimum { reached.formUnion(current) }
                    if current.isEmpty { break }
                }
                return reached
            }
        }

        func matches(_ text: [Character], start: Bool, end: Bool, ignoresCase: Bool) -> Bool {
            for first in start ? 0...0 : 0...text.count {
                let ends = ends(text, first, ignoresCase: ignoresCase)
                if end ? ends.contains(text.count) : !ends.isEmpty { return true }
            }
            return false
        }
    }

    @Test(arguments: 0..<8) func automaton_agreesWithBacktracking_onRandomPatterns(_ seed: Int) throws {
        var random = SeededRandom(UInt64(seed))
        for _ in 0..<100 {
            let pattern = Pattern.random(&random, depth: 3)
            let (start, end, ignoresCase) = (random.chance(50), random.chance(50), random.chance(30))
            let text = (start ? "^" : "") + pattern.text + (end ? "$" : "")
            let regex = try Regex(text, ignoresCase: ignoresCase)
            let simulated = try Regex(text, ignoresCase: ignoresCase, maxTableStates: 0)
            for _ in 0..<12 {
                let sample = (0..<random.below(8)).map { _ in random.pick(Array("abcABC1éÉ-\n")) }
                let expected = pattern.matches(sample, start: start, end: end, ignoresCase: ignoresCase)
                #expect(regex.matches(Text(String(sample))) == expected, "\(text) on \(sample)")
                #expect(simulated.matches(Text(String(sample))) == expected, "simulated \(text) on \(sample)")
            }
        }
    }

    @Test(arguments: [
        ("a{", "integer expected at position 2"), ("a{2", "expected '}' at position 3"), ("[ab", "expected ']' at position 3"),
        ("(up|down|)", "expected ')' at position 10"), ("^(a|)$", "expected ')' at position 4"),
        ("a)", "end-of-string expected at position 1"),
        ("(^a$|b)", "unexpected '^' at position 1"), ("a$b", "unexpected '$' at position 1"), ("\\bx", "unsupported escape at position 1"),
        ("[b-a]", "invalid range at position 4"), ("a{3,2}", "counts out of order at position 6"), ("\\", "unexpected end-of-string"),
        ("a{5000}b{5000}", "too large"), ("((((a{99}){99}){99}){99}){99}", "too large"), ("(a|b)*a(a|b){300}", "too large"),
    ]) func pattern_isRefused_withItsReason(_ pattern: String, _ reason: String) {
        do throws(RegexError) {
            _ = try Regex(pattern, ignoresCase: false)
            Issue.record("accepted \(pattern)")
        } catch { #expect(error.reason == reason) }
    }

    @Test(arguments: [
        ("(?:x)", "?:x", true), ("(?:x)", "x", false), ("a++", "aaa", true), ("^a*?$", "", true), ("\\{a}", "{a}", true),
        ("^()$", "", true),
        ("^$", "", true), ("^$", "a", false), ("^a|b$", "xb", false), ("^a|b$", "b", true), ("\\$", "a$", true), ("^[$^]+$", "$^", true),
        ("^.$", "\n", true), ("^..$", "😀", true), ("^.$", "😀", false), ("^\\s\\S\\w\\W\\d\\D$", " xx-1x", true), ("[-a]", "-", true),
        ("[a-]", "-", true), ("^[\\w-.]+$", "a-.", true), ("x@y#\"<&~", "x@y#\"<&~", true),
    ]) func dialect_meansWhatTheReferenceDoes(_ pattern: String, _ text: String, _ matches: Bool) throws {
        #expect(try Regex(pattern, ignoresCase: false).matches(Text(text)) == matches)
    }

    @Test func ignoringCase_coversGreek() throws {
        #expect(try Regex("^αθήνα$", ignoresCase: true).matches("ΑΘΉΝΑ") == true)
        #expect(try Regex("^[α-ω]+$", ignoresCase: true).matches("ΒΓ") == true)
        #expect(try Regex("^[^α]+$", ignoresCase: true).matches("Α") == false)
        #expect(try Regex("^k$", ignoresCase: true).matches("\u{212A}") == false)
    }

    /// 2^14 table states: simulated, and still linear in the text.
    @Test func exponentialPattern_isSimulated() throws {
        let regex = try Regex("(a|b)*a(a|b){13}$", ignoresCase: false)
        #expect(regex.matches(Text(String(repeating: "b", count: 5000))) == false)
        #expect(regex.matches(Text(String(repeating: "b", count: 5000) + "a" + String(repeating: "b", count: 13))) == true)
    }

    /// A simulation costs some steps per state and unit, so its texts are bounded by its states; texts for a table are not.
    @Test func simulatedPattern_isMatched_withTextsUpToItsLimit() throws {
        let simulated = try Regex("(a|b)*a(a|b){13}$", ignoresCase: false)
        #expect(simulated.unitWork >= 8 * 30)
        let longest = String(repeating: "b", count: RulesLimits.textWork / simulated.unitWork)
        #expect(simulated.matches(Text(longest)) == false)
        #expect(simulated.matches(Text(longest + "b")) == nil)
        let table = try Regex("^(a|b)*c$", ignoresCase: false)
        #expect(table.unitWork == 1 && table.matches(Text(longest + "bbb")) == false)
    }

    /// The charge for a match is no less than its work: steps of the simulation, units of a table.
    @Test(arguments: ["(a|b)*a(a|b){13}$", "(a*)*b(a|b){12}c", "(a|b|ab)*(bba|a)(a|b){12}$", "(a?){40}a{40}(a|b){0,20}c"])
    func charge_coversTheSteps_ofASimulatedPattern(_ pattern: String) throws {
        var random = SeededRandom(5)
        let regex = try Regex(pattern, ignoresCase: false, maxTableStates: 0)
        for length in [0, 1, 10, 1000] {
            let text = Text(String((0..<length).map { _ in random.pick(["a", "b"]) }))
            var work = RulesLimits.textWork
            _ = try regex.matches(text, work: &work)
            let charged = RulesLimits.textWork - work
            #expect(
                charged <= length * regex.unitWork && regex.steps(text) <= charged / RulesLimits.regexStateWork * 3 + 3 * regex.unitWork)
        }
        var work = RulesLimits.textWork
        let long = Text("b" + String(repeating: "x", count: 1000))
        #expect(try Regex("^a", ignoresCase: false).matches(long, work: &work) == false && work == RulesLimits.textWork - 1)
        work = 999
        #expect(throws: FaultReason.tooMuchWork) { try Regex("^a", ignoresCase: false).matches(long, work: &work) }
        #expect(work == 999)
    }
}

extension Regex {
    /// Matches with all the work that one operation may use; nil if that is too little.
    func matches(_ text: Text) -> Bool? {
        var work = RulesLimits.textWork
        return try? matches(text, work: &work)
    }

    func matches(_ text: Text, work: inout Int) throws(FaultReason) -> Bool {
        try withUnsafePointer(to: text) { (text) throws(FaultReason) in try matches(TextCursor(text), work: &work) }
    }
}
