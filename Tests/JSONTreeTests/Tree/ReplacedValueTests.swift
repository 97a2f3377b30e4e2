import JSONTree
import Testing
import TestSupport

/// Values set where other values are, some of which only look equal: the replaced value is not decoded for that.
@Suite struct ReplacedValueTests {
    private static let long = String(repeating: "y", count: 1_200)
    private static let leaves: [Node] = [
        0, 1, 127, 128, -1, true, false, .double(0.5), .double(-0.5), .int(.max), .int(.min), .double(9.3e18), "", "a", "0", .string(Text(long)),
        .string(Text(long + "z")), Node.int(1).with(priority: 1), Node.int(1).with(priority: .double(1.5)), Node.int(1).with(priority: "1"),
        Node.string(Text(long)).with(priority: 2),
    ]

    private static func value(_ depth: Int, _ random: inout SeededRandom) -> Node {
        if depth == 0 || random.chance(40) { return random.pick(leaves) }
        let count = random.chance(3) ? 150 : random.pick([1, 2, 3, 6])
        var children: [(Key, Node)] = []
        for i in 0..<count { children.append((Key("k\(i)"), count > 20 ? random.pick(leaves) : value(depth - 1, &random))) }
        let node = Node.object(children)
        return random.chance(30) ? node.with(priority: random.pick([1, "p", .double(2.5)] as [Node])) : node
    }

    @Test(arguments: Array(1...8) as [UInt64]) func sets_areAsInATreeThatIsReadAnew_andLeaveTheOldOne(seed: UInt64) throws {
        var random = SeededRandom(seed)
        for _ in 0..<15 {
            var root = Self.value(3, &random)
            for _ in 0..<15 {
                let path = Path((0..<1 + random.below(3)).map { _ in Key("k\(random.below(13))") })
                let old = root
                let json = old.json
                if random.chance(30) { _ = old.hash }
                let new = random.chance(25) ? root.node(at: path) : random.chance(10) ? .null : Self.value(2, &random)
                root.set(new, at: path)
                #expect(root.node(at: path) == new && old.json == json)
                if new.exists {
                    var other = old
                    let beside = Path(Array(path.keys.dropLast()) + [Key("other")])
                    #expect(other.set(new, atEach: [path, beside]).contains(path) == (old.node(at: path) != new))
                }
                let fresh = try Node(json: root.json)
                #expect(root == fresh && root.hash == fresh.hash)
            }
        }
    }
}
