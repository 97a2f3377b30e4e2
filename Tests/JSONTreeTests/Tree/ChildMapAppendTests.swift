@testable import JSONTree
import Testing
import TestSupport

/// Children that follow all others are appended in whole pages.
@Suite(.timeLimit(.minutes(30))) struct ChildMapAppendTests {
    private func records(_ range: Range<Int>, bytes: Int = 60) -> Node {
        .object(range.map { (Key("k\(1_000_000 + $0)"), ["n": .int(Int64($0)), "t": .string(String(repeating: "x", count: bytes))] as Node) })
    }

    private func fault(_ node: Node) -> String? { node.children.invariantFault() }

    @Test(arguments: 1...10) func mergedParts_areTheWhole(seed: Int) throws {
        var random = SeededRandom(UInt64(seed))
        var (root, model, start) = (Node.null, Node.null, 0)
        var earlier: [(Node, Node)] = []
        for _ in 0..<60 {
            let count = random.pick([1, 2, 5, 30, 200, 900])
            // Sometimes overlapping existing children, fully or partly.
            if random.chance(20) { start = max(0, start - random.below(2 * count)) }
            let part = records(start..<start + count, bytes: random.pick([1, 60, 600]))
            start += count
            root.merge(part, at: "all")
            for (key, child) in part.children { model.set(child, at: Path([Key("all"), key])) }
            #expect(root == model)
            try #require(fault(root.node(at: "all")) == nil)
            if random.chance(20) { earlier.append((root, model)) }
            if random.chance(20) { _ = root.hash }
        }
        #expect(root.hash == (try Node(json: model.json)).hash)
        for (old, model) in earlier { #expect(old == model) }
    }

    @Test func partBehindTheOthers_isTakenOver_notCopied() throws {
        var root = Node.null
        root.merge(records(0..<5_000), at: "all")
        let part = records(5_000..<10_000)
        root.merge(part, at: "all")
        let pages = try #require(part.children.root)
        let all = try #require(root.node(at: "all").children.root)
        var (own, others) = (ContiguousArray<PackedPage>(), ContiguousArray<PackedPage>())
        all.collect(&own)
        pages.collect(&others)
        let taken = others.filter { page in own.contains { $0 === page } }
        #expect(taken.count >= others.count - 1)
        // The appended part is unchanged.
        #expect(part == records(5_000..<10_000))
    }
}
