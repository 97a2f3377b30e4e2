import JSONTree
import SecurityRules
import Testing

/// The data that a write decision depends on.
@Suite(.timeLimit(.minutes(30))) struct WriteDecisionTests {
    private func decide(
        _ rules: String, _ path: Path, _ value: Node, on root: Node = .null, keeping limit: Int = 10
    ) throws -> WriteDecision {
        var new = root
        new.set(value, at: path)
        return try RuleSet(parsing: rules).decideWrite([path], old: root, new: new, auth: .null, now: 1, keeping: limit)
    }

    @Test func placesElsewhere_areDependencies_inBothTrees() throws {
        let rules = #"{"rules":{"a":{"$k":{".write":"root.child('open').val() == true","#
            + #"".validate":"newData.parent().parent().child('b').exists() && newData.parent().hasChild('z')"}}}}"#
        let decision = try decide(rules, "a/x", 1, on: ["open": true, "b": 1, "a": ["z": 1]])
        #expect(decision.isAllowed && !decision.dependsOnOverwritten && !decision.dependsOnEverything)
        #expect(decision.dependencies.isSuperset(of: ["open", "b", "a/z"]))
        #expect(!decision.dependencies.contains("a/x"))
    }

    @Test func whatIsWritten_isNoDependency_howeverMuchOfItIsLookedAt() throws {
        let rules = #"{"rules":{"a":{".write":true,"$k":{".validate":"newData.isNumber() && newData.parent().hasChildren()"}}}}"#
        let value = Node.object((0..<100).map { (Key("k\($0)"), .int(1)) })
        let decision = try decide(rules, "a", value)
        #expect(decision.isAllowed && decision.dependencies.isEmpty && !decision.dependsOnOverwritten && !decision.dependsOnEverything)
    }

    @Test func whatIsWrittenOver_isToldApart() throws {
        for rule in ["!data.exists()", "!root.child('a').exists()", "!data.hasChild('x')", "data.child('x').val() != 1"] {
            let decision = try decide(#"{"rules":{"a":{".write":"\#(rule)"}}}"#, "a", 1)
            #expect(decision.isAllowed && decision.dependsOnOverwritten, "\(rule)")
            #expect(decision.dependencies.isEmpty, "\(rule)")
        }
    }

    @Test func moreDependenciesThanAreKept_areAnything() throws {
        let rules = #"{"rules":{"a":{".write":true,"$k":{".validate":"!root.child('taken').child($k).exists()"}}}}"#
        let value = Node.object((0..<10).map { (Key("k\($0)"), .int(1)) })
        #expect(try decide(rules, "a", value, keeping: 10).dependsOnEverything == false)
        let decision = try decide(rules, "a", value, keeping: 9)
        #expect(decision.isAllowed && decision.dependsOnEverything && decision.dependencies.isEmpty)
    }

    /// Counting or comparing everything below a place depends on all of it.
    @Test(arguments: [
        ("newData.parent().parent().child('b').childCount() < 3", ["/b"]), ("root.child('b').hasAny(root.child('c'))", ["/b", "/c"]),
        ("newData.equals(newData.parent().parent().child('b'))", ["/b"]), ("newData.parent().childCount() < 9", ["/a"]),
        ("root.child('b').exists() || true", []), ("newRoot.child('b').hasAny(['x', 'y'])", []), ("data.childCount() == 0", []),
    ]) func everythingBelow_isADependency_whereItIsCountedOrCompared(_ rule: String, _ subtreeDependencies: [String]) throws {
        let root: Node = ["b": ["x": 1], "c": ["x": 2]]
        let decision = try decide("{\"rules\":{\"a\":{\"$k\":{\".write\":\"\(rule)\"}}}}", "a/x", ["x": 1], on: root)
        #expect(decision.isAllowed)
        #expect(Set(decision.subtreeDependencies.map(\.description)) == Set(subtreeDependencies))
        #expect(decision.subtreeDependencies.isSubset(of: decision.dependencies))
        #expect(decision.dependsOnOverwritten == rule.hasPrefix("data"))
    }
}
