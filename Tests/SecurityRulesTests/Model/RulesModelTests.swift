import Foundation
import JSONTree
import SecurityRules
import Testing
import TestSupport

/// The compiled rules compared with the plain interpreter, over random rules, trees and operations.
@Suite(.timeLimit(.minutes(30))) struct RulesModelTests {
    /// Rounds per seed; raised by `VIGLA_MODEL_ROUNDS` for long runs.
    private static let rounds = ProcessInfo.processInfo.environment["VIGLA_MODEL_ROUNDS"].flatMap(Int.init) ?? 60

    private static func randomNode(_ random: inout SeededRandom, depth: Int) -> Node {
        guard depth > 0, random.chance(65) else {
            let leaf: Node = random.pick([.null, true, false, 0, 1, 2.5, "a", "b", "ab", "a/b", "é", "u1"])
            return random.chance(10) ? leaf.with(priority: random.pick([1, "p"])) : leaf
        }
        return .object(["a", "b", "0", "c", "1"].filter { _ in random.chance(50) }.map { (Key($0), randomNode(&random, depth: depth - 1)) })
    }

    private static func randomPath(_ random: inout SeededRandom) -> [String] {
        (0..<random.below(5)).map { _ in random.pick(["a", "b", "0", "c", "1"]) }
    }

    @Test(arguments: 0..<6) func rules_agreeWithTheInterpreter_onRandomOperations(_ seed: Int) throws {
        var random = SeededRandom(UInt64(seed) &* 104_729 &+ 1)
        for _ in 0..<Self.rounds {
            let model = ModelRules(&random, depth: 3)
            let text = "{\"rules\":" + model.json + "}"
            let rules: RuleSet
            do throws(RulesErrors) { rules = try RuleSet(parsing: text) } catch {
                Issue.record("refused: \(error)\(text)")
                continue
            }
            for _ in 0..<20 {
                let old = Self.randomNode(&random, depth: 4)
                var new = old
                let paths = (0..<random.below(4)).map { _ in Self.randomPath(&random) }
                for path in paths { new.set(Self.randomNode(&random, depth: 2), at: Path(path.map { Key($0) })) }
                let auth: Node = random.chance(30) ? .null : ["uid": "a", "token": ["n": 2, "b": true, "x": ["y": "b"]]]
                let context = ModelInterpreter(old: old, new: new, auth: auth, now: 1000)

                let locations = paths.map { Path($0.map { Key($0) }) }
                let writes = rules.allowsWrite(locations, old: old, new: new, auth: auth, now: 1000)
                #expect(writes == model.allowsWrite(paths, context), "\(text)\n\(old.json)\n\(new.json)\n\(locations)\n\(auth.json)")

                let place = Self.randomPath(&random)
                var reading = context
                reading = ModelInterpreter(old: old, new: old, auth: auth, now: 1000)
                let reads = rules.allowsRead(Path(place.map { Key($0) }), root: old, auth: auth, now: 1000)
                #expect(reads == model.allowsRead(place, reading), "\(text)\n\(old.json)\n\(place)\n\(auth.json)")
            }
        }
    }

    /// A decision about one value equals that about the tree with it, whether the rules read above it or not.
    @Test(arguments: 0..<6) func oneValue_isDecidedAboutAsItsTree(_ seed: Int) throws {
        var random = SeededRandom(UInt64(seed) &* 32_452_843 &+ 5)
        var (made, allowed, refused) = (0, 0, 0)
        for _ in 0..<Self.rounds {
            let text = "{\"rules\":" + ModelRules(&random, depth: 3).json + "}"
            let rules = try RuleSet(parsing: text)
            for _ in 0..<40 {
                let old = Self.randomNode(&random, depth: 4)
                let path = Path(Self.randomPath(&random).map { Key($0) })
                let value = Self.randomNode(&random, depth: 2)
                guard value.exists else { continue }
                var new = old
                new.set(value, at: path)
                let auth: Node = random.chance(30) ? .null : ["uid": "a", "token": ["n": 2, "b": true, "x": ["y": "b"]]]
                let isAllowed = rules.allowsWrite([path], old: old, new: new, auth: auth, now: 1000)
                var (work, tree) = (Int.max, Node?.none)
                let isAlso = rules.allowsWrite(value, at: path, on: old, auth: auth, now: 1000, making: &tree, textWork: &work)
                #expect(isAlso == isAllowed, "\(text)\n\(old.json)\n\(value.json)\n\(path)\n\(auth.json)")
                if let tree {
                    made += 1
                    #expect(tree == new)
                }
                if isAllowed { allowed += 1 } else { refused += 1 }
                // With little work for texts, no value is allowed that is refused with the tree.
                let most = random.below(200)
                var (left, whole) = (most, most)
                if rules.allowsWrite(value, at: path, on: old, auth: auth, now: 1000, making: &tree, textWork: &left) {
                    #expect(rules.allowsWrite([path], old: old, new: new, auth: auth, now: 1000, textWork: &whole))
                }
                #expect(left <= most)
            }
        }
        #expect(made > Self.rounds && made < allowed + refused - Self.rounds, "\(made) of \(allowed + refused)")
        #expect(allowed > Self.rounds / 4 && refused > Self.rounds / 4, "\(allowed), \(refused)")
    }

    /// A request refused for any data is refused by the full evaluation, for every tree that was tried.
    @Test(arguments: 0..<6) func refusalForAnyData_isOneOfTheFullEvaluation_onRandomOperations(_ seed: Int) throws {
        var random = SeededRandom(UInt64(seed) &* 15_485_863 &+ 7)
        var refused = 0
        for _ in 0..<Self.rounds {
            let text = "{\"rules\":" + ModelRules(&random, depth: 3).json + "}"
            let rules = try RuleSet(parsing: text)
            for _ in 0..<20 {
                let paths = (0..<random.below(4)).map { _ in Self.randomPath(&random) }
                let locations = paths.map { Path($0.map { Key($0) }) }
                let auth: Node = random.chance(60) ? .null : random.pick(
                    [["uid": "a"], ["uid": "a", "token": ["n": 2, "b": true, "x": ["y": "b"]]]])
                // Created on demand, so that none outlives its turn.
                let made = paths.lazy.map { Path($0.map { Key($0) }) }
                let mayWrite = rules.mayAllowWrite(made, auth: auth, now: 1000)
                #expect(mayWrite == rules.mayAllowWrite(locations, auth: auth, now: 1000))
                #expect(mayWrite == locations.allSatisfy { rules.mayAllowWrite([$0], auth: auth, now: 1000) })
                refused += mayWrite ? 0 : 1
                for _ in 0..<12 where !mayWrite {
                    let old = Self.randomNode(&random, depth: 4)
                    var new = old
                    for path in locations { new.set(Self.randomNode(&random, depth: 2), at: path) }
                    let writes = rules.allowsWrite(locations, old: old, new: new, auth: auth, now: 1000)
                    #expect(!writes, "\(text)\n\(old.json)\n\(new.json)\n\(locations)\n\(auth.json)")
                }
            }
        }
        // Rules without any `.write` on the path are some of them, but not most.
        #expect(refused > Self.rounds * 4, "\(refused)")
    }
}
