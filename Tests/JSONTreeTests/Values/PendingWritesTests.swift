@testable import JSONTree
import Testing
import TestSupport

/// Pending disconnect writes, compared with the simplest implementation.
@Suite(.timeLimit(.minutes(30))) struct PendingWritesTests {
    private static func add(_ write: TreeWrite, to writes: inout [TreeWrite]) {
        let above = writes.firstIndex {
            $0.part == .node && $0.path.contains(write.path) && (write.part == .priority || $0.path != write.path)
        }
        if let above {
            return writes[above].value.overwrite(write.part, at: write.path.dropping(writes[above].path.depth), with: write.value)
        }
        switch write.part {
        case .node: writes.removeAll { write.path.contains($0.path) }
        case .priority: writes.removeAll { $0.part == .priority && $0.path == write.path }
        }
        writes.append(write)
    }

    @Test(arguments: 0..<20) func randomWrites_areThoseOfThePlainOnes(seed: Int) {
        var random = SeededRandom(UInt64(seed))
        var pending = PendingWrites()
        var plain: [TreeWrite] = []
        for i in 0..<400 {
            let path = Path((0..<random.below(5)).map { _ in Key("k\(random.below(3))") })
            if random.below(12) == 0 {
                pending.cancel(path)
                plain.removeAll { path.contains($0.path) }
                for i in plain.indices where plain[i].path.contains(path) {
                    plain[i].value.node.set(.null, at: path.dropping(plain[i].path.depth))
                }
            } else {
                var write = TreeWrite(path, WriteValue(random.below(3) == 0 ? ["k0": 1, "k1": ["k2": .int(Int64(i))]] : .int(Int64(i))))
                if random.below(5) == 0 { write = TreeWrite(path, part: .priority, WriteValue(.int(1))) }
                pending.add(write)
                Self.add(write, to: &plain)
            }
            #expect(pending.writes == plain)
        }
        #expect(pending.takeAll() == plain && pending.isEmpty && pending == PendingWrites())
    }
}
