import JSONTree

extension Evaluator {
    /// The node of a snapshot instruction.
    mutating func node(_ i: Int32) throws(Fault) -> Node {
        let instruction = tables.code[Int(i)]
        switch instruction.operation {
        case .place:
            let base = node(Tree(rawValue: instruction.detail) ?? .old, at: Int(instruction.a))
            return instruction.c == 0 ? base : try walk(base, instruction)
        case .below: return try walk(try node(instruction.a), instruction)
        case .conditional: return try node(try boolean(instruction.a) ? instruction.b : instruction.c)
        default:
            // A parent whose place shows only now: follow the whole path again, one key short.
            let (tree, keys) = try location(i)
            return node(tree, at: 0).node(at: keys[...])
        }
    }

    /// Follows the steps of a `place` or `below` instruction.
    mutating func walk(_ base: Node, _ instruction: Instruction) throws(Fault) -> Node {
        var node = base
        for i in Int(instruction.b)..<Int(instruction.b &+ instruction.c) {
            let step = tables.steps[i]
            switch step.kind {
            case .key: node = node.child(tables.keys[Int(step.index)])
            case .capture: node = node.child(key(Int(step.index)))
            case .value, .part:
                let text = try segments(step)
                if Self.isOneSegment(text) {
                    node = node.child(Key(text))
                } else {
                    for key in Self.split(text, step) { node = node.child(key) }
                }
            }
        }
        return node
    }

    /// The text of a computed step.
    private mutating func segments(_ step: Step) throws(Fault) -> String {
        let value = try value(step.index)
        if case .string(let text) = value { return text.string }
        guard step.kind == .part else { throw fault(.argumentNotString, step.index) }
        guard let text = Operations.text(value) else { throw fault(.notAddable, step.index) }
        return text
    }

    private static func isOneSegment(_ text: String) -> Bool {
        !text.utf8.isEmpty && !text.utf8.contains(UInt8(ascii: "/"))
    }

    /// Slashes separate and are otherwise ignored; a path of nothing else leads to no child, but as a part of a longer path it
    /// is no step.
    private static func split(_ text: String, _ step: Step) -> [Key] {
        let keys = text.split(separator: "/").map { Key(String($0)) }
        return keys.isEmpty && step.kind == .value ? [Key("")] : keys
    }

    // MARK: Places that are known only at run time

    /// The tree and the keys from its root: what `parent()` after a computed path needs. Allocates.
    private mutating func location(_ i: Int32) throws(Fault) -> (Tree, ContiguousArray<Key>) {
        let instruction = tables.code[Int(i)]
        switch instruction.operation {
        case .place:
            let keys = ContiguousArray(path(Int(instruction.a)))
            return (Tree(rawValue: instruction.detail) ?? .old, try append(instruction, to: keys))
        case .below:
            let (tree, keys) = try location(instruction.a)
            return (tree, try append(instruction, to: keys))
        case .conditional: return try location(try boolean(instruction.a) ? instruction.b : instruction.c)
        default:
            var (tree, keys) = try location(instruction.a)
            guard keys.popLast() != nil else { throw fault(.beyondRoot, i) }
            return (tree, keys)
        }
    }

    private mutating func append(_ instruction: Instruction, to base: ContiguousArray<Key>) throws(Fault) -> ContiguousArray<Key> {
        var keys = base
        for i in Int(instruction.b)..<Int(instruction.b &+ instruction.c) {
            let step = tables.steps[i]
            switch step.kind {
            case .key: keys.append(tables.keys[Int(step.index)])
            case .capture: keys.append(key(Int(step.index)))
            case .value, .part: keys.append(contentsOf: Self.split(try segments(step), step))
            }
        }
        return keys
    }
}
