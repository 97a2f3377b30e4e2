import CMalloc
import Testing
@testable import JSONTree

/// The memory of a tree, and the part that another version does not share.
@Suite(.serialized, .timeLimit(.minutes(30))) struct NodeMemoryTests {
    private static func records(_ count: Int, _ version: Int64 = 0) -> Node {
        .object((0..<count).map { i in
            (Key("k\(100_000 + i)"), ["n": .int(version), "text": .string(String(repeating: "x", count: i % 40)), "p": ["q": true]] as Node)
        })
    }

    /// In a separate process: the allocator counts the memory of all threads.
    @Test(arguments: NodeAllowanceTests.shapes.indices) func memory_isWhatIsAllocated(shape: Int) async {
        await #expect(processExitsWith: .success) { [shape = shape as Int] in
            let (name, make) = NodeAllowanceTests.shapes[shape]
            let text = make()
            let before = malloc_allocated_bytes()
            let node = try text.withUnsafeBytes { bytes in
                var reader = JSONReader(bytes)
                return try reader.writeValue(allowance: nil).node
            }
            let kept = malloc_allocated_bytes() - before
            let ratio = Double(node.memoryBytes) / Double(kept)
            #expect((0.7...1.3).contains(ratio), "\(name): estimated \(node.memoryBytes), kept \(kept)")
        }
    }

    @Test func versions_differ_byWhatWasWritten_notBySize() throws {
        let old = Self.records(50_000)
        #expect(old.memoryBytes(besides: old, atMost: 1) == 0)
        var new = old
        for i in 0..<10 { new.set(.int(Int64(i)), at: Path([Key("k\(100_000 + i * 4_321)"), Key("n")])) }
        for (one, other) in [(old, new), (new, old)] {
            let bytes = try #require(one.memoryBytes(besides: other, atMost: 2_000))
            #expect(bytes > 10 * PackedLimits.pageBytes / 2 && bytes < 10 * PackedLimits.pageBytes * 3 / 2, "\(bytes)")
        }
        #expect(old.memoryBytes > 50_000 * 50)
    }

    @Test func versions_withEqualContent_shareNothing() throws {
        let (one, other) = (Self.records(1_000), Self.records(1_000))
        let bytes = try #require(one.memoryBytes(besides: other, atMost: 100_000))
        #expect(abs(bytes - one.memoryBytes) < one.memoryBytes / 20)
        #expect(one.memoryBytes(besides: other, atMost: 100) == nil)
        let long = Node.string(String(repeating: "x", count: 1000))
        let longer: Node = ["a": .string(String(repeating: "x", count: 1000))]
        #expect(try #require((["a": long] as Node).memoryBytes(besides: longer, atMost: 100)) > 1000)
    }

    @Test func versions_withAnotherPriority_shareTheirChildren() throws {
        let old = Self.records(1_000)
        let new = old.with(priority: 1)
        #expect(try #require(old.memoryBytes(besides: new, atMost: 100)) < 1_000)
        #expect(try #require(old.memoryBytes(besides: .null, atMost: 100_000)) == old.memoryBytes)
        #expect(try #require(Node.null.memoryBytes(besides: old, atMost: 10)) == 0)
    }
}
