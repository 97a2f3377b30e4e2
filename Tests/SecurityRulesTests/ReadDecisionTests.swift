import JSONTree
import SecurityRules
import Testing

/// The data that a read decision depends on.
@Suite(.timeLimit(.minutes(30))) struct ReadDecisionTests {
    @Test func dependencies_areInTheOrderOfLooking_eachOnce() throws {
        let names = (0..<8).map { "p\($0)" }
        let condition = (names + names).map { "root.child('\($0)').val() == 1" }.joined(separator: " && ")
        let rules = try RuleSet(parsing: #"{"rules":{"d":{".read":"\#(condition)"}}}"#)
        let root = Node.object(names.map { (Key($0), Node.int(1)) })
        // Kept alive, so that no decision reuses the memory of another.
        var decisions: [ReadDecision] = []
        for _ in 0..<20 { decisions.append(rules.decideRead("d", root: root, auth: .null, now: 0)) }
        for decision in decisions {
            #expect(decision.isAllowed)
            #expect(decision.dependencies.map(\.description) == names.map { "/" + $0 })
        }
    }

    @Test func everythingBelow_isADependency_whereItIsCountedOrCompared() throws {
        let rules = try RuleSet(
            parsing: #"{"rules":{"d":{".read":"root.child('a').childCount() > 0 && !data.equals(root.child('b'))"#
                + #" && root.child('c').exists()"}}}"#)
        let decision = rules.decideRead("d", root: ["a": ["x": 1], "c": 1], auth: .null, now: 0)
        #expect(!decision.isAllowed && decision.subtreeDependencies == ["a", "d", "b"])
        let other = rules.decideRead("d", root: ["a": ["x": 1], "b": 1, "c": 1], auth: .null, now: 0)
        #expect(other.isAllowed && other.subtreeDependencies == ["a", "d", "b"] && other.dependencies == ["a", "d", "b", "c"])
    }
}
