/// Numbers the paths from a root that several rules use, so that an evaluation walks each once. A WatchMe update, for example, uses
/// `/posts/$post` in every field of every entry.
extension ProgramBuilder {
    /// The most shared paths: an evaluation reserves stack space for them.
    private static let maxSharedPaths = 32

    /// Counts the uses of all paths, keeps the most used ones, and makes instructions start from them.
    mutating func sharePaths() {
        var nodes: [PathNode] = []
        var roots: [PathStep: Int] = [:]
        for instruction in code where Self.isAbsolute(instruction) {
            var parent: Int?
            for i in Int(instruction.b)..<Int(instruction.b + instruction.c) {
                guard Self.isFixed(steps[i]) else { break }
                let step = PathStep(tree: instruction.detail, kind: steps[i].kind, index: steps[i].index)
                let known = parent.map { nodes[$0].children[step] } ?? roots[step]
                let number = known ?? nodes.count
                if known == nil {
                    nodes.append(PathNode(step: step, parent: parent))
                    if let parent { nodes[parent].children[step] = number } else { roots[step] = number }
                }
                nodes[number].uses += 1
                parent = number
            }
        }
        // A path is never used more often than its parent, which has the smaller index.
        let chosen = nodes.indices.sorted { (nodes[$1].uses, $0) < (nodes[$0].uses, $1) }.prefix(Self.maxSharedPaths)
        for number in chosen {
            let node = nodes[number]
            nodes[number].slot = Int32(sharedPaths.count)
            sharedPaths.append(
                SharedPath(
                    tree: Tree(rawValue: node.step.tree) ?? .old, parent: node.parent.flatMap { nodes[$0].slot } ?? -1,
                    step: Step(kind: node.step.kind, index: node.step.index)))
        }
        for (i, instruction) in code.enumerated() where Self.isAbsolute(instruction) {
            var (children, taken, slot) = (roots, Int32(0), Int32(-1))
            while taken < instruction.c {
                let step = steps[Int(instruction.b + taken)]
                guard let next = children[
                    PathStep(tree: instruction.detail, kind: step.kind, index: step.index)
                ], let number = nodes[next].slot
                else { break }
                (children, slot) = (nodes[next].children, number)
                taken += 1
            }
            guard slot >= 0 else { continue }
            code[i] = Instruction(
                operation: .shared, detail: instruction.detail, readsData: true, a: slot, b: instruction.b + taken,
                    c: instruction.c - taken)
        }
    }

    private struct PathStep: Hashable {
        let tree: UInt8
        let kind: Step.Kind
        let index: Int32
    }

    private struct PathNode {
        let step: PathStep
        let parent: Int?
        var children: [PathStep: Int] = [:]
        var uses = 0
        var slot: Int32?
    }

    private static func isAbsolute(_ instruction: Instruction) -> Bool {
        instruction.operation == .place && instruction.a == 0 && instruction.c > 0
    }

    private static func isFixed(_ step: Step) -> Bool { step.kind == .key || step.kind == .capture }
}
