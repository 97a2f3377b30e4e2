import JSONTree

/// Snapshots: cursors into one of the trees; nil if the node does not exist.
extension Evaluator {
    /// The node of a snapshot instruction, when the expression reads its value, existence or children.
    @inline(__always)
    mutating func node(_ i: Int32) throws(Fault) -> NodeCursor? {
        if let dependencies { try record(i, in: dependencies) }
        return try snapshot(i)
    }

    /// The node of a snapshot instruction, when the expression reads everything below it.
    mutating func wholeNode(_ i: Int32) throws(Fault) -> NodeCursor? {
        if let dependencies { try record(i, in: dependencies, whole: true) }
        return try snapshot(i)
    }

    private mutating func record(_ i: Int32, in recorder: DependencyRecorder, whole: Bool = false) throws(Fault) {
        let instruction = tables.code[Int(i)]
        if instruction.operation == .place, Int(instruction.a) >= recorder.writtenDepth {
            return recorder.recordWritten(Tree(rawValue: instruction.detail) ?? .old)
        }
        let (tree, keys) = try location(i)
        record(tree, keys, in: recorder, whole: whole)
    }

    private func record(_ tree: Tree, _ keys: ContiguousArray<Key>, in recorder: DependencyRecorder, whole: Bool = false) {
        let written = recorder.writtenDepth
        guard keys.count >= written, written <= depth, (0..<written).allSatisfy({ keys[$0] == key($0 &+ 1).key }) else {
            return recorder.record(keys, whole: whole)
        }
        recorder.recordWritten(tree)
    }

    /// The node of a snapshot instruction, without recording a dependency.
    private mutating func snapshot(_ i: Int32) throws(Fault) -> NodeCursor? {
        let instruction = tables.code[Int(i)]
        switch instruction.operation {
        case .place:
            let base = node(Tree(rawValue: instruction.detail) ?? .old, at: Int(instruction.a))
            return instruction.c == 0 ? base : try walk(base, instruction)
        case .shared:
            let base = sharedNode(Int(instruction.a))
            return instruction.c == 0 ? base : try walk(base, instruction)
        case .below: return try walk(try snapshot(instruction.a), instruction)
        case .conditional: return try snapshot(try boolean(instruction.a) ? instruction.b : instruction.c)
        default:
            // A parent of a computed place: walk the whole path again, one key shorter.
            let (tree, keys) = try location(i)
            var cursor = node(tree, at: 0)
            for key in keys { cursor = withUnsafePointer(to: key) { cursor?.child(TextCursor($0)) } }
            return cursor
        }
    }

    /// The node at a shared path: looked up again only if the node above or the key has changed.
    private mutating func sharedNode(_ number: Int) -> NodeCursor? {
        let path = tables.sharedPaths[number]
        let base = path.parent < 0 ? node(path.tree, at: 0) : sharedNode(Int(path.parent))
        guard let base else { return nil }
        let key = path.step.kind == .key ? tables.key(path.step.index) : key(Int(path.step.index))
        let known = shared[number]
        if known.parent == base, let last = known.key, last.isEqual(to: key) { return known.node }
        let node = base.child(key)
        shared[number] = SharedNode(parent: base, key: key, node: node)
        return node
    }

    /// Follows the steps of an instruction.
    mutating func walk(_ base: NodeCursor?, _ instruction: Instruction) throws(Fault) -> NodeCursor? {
        var cursor = base
        for i in Int(instruction.b)..<Int(instruction.b &+ instruction.c) {
            let step = tables.steps[i]
            switch step.kind {
            case .key: cursor = cursor?.child(tables.key(step.index))
            case .capture: cursor = cursor?.child(key(Int(step.index)))
            case .value, .part:
                let mark = scratchCount
                let value = try value(step.index)
                if case .text(let text) = value, let from = cursor, let last = steppedByValue, last.step == i, last.from == from,
                    last.name == text
                {
                    cursor = last.node
                } else if case .text(let text) = value, let segment = text.segment {
                    let from = cursor
                    cursor = cursor?.child(segment)
                    // Not a text that the expression computed: its scratch slot may be reused.
                    if let from, scratchCount == mark, steppedByValue?.step ?? i == i { steppedByValue = (i, from, text, cursor) }
                } else {
                    let text = try segments(value, step)
                    cursor = cursor.flatMap { Self.descend($0, text, isWhole: step.kind == .value) }
                }
                dropScratch(to: mark)
            }
        }
        return cursor
    }

    private func segments(_ value: Value, _ step: Step) throws(Fault) -> String {
        if case .text(let text) = value { return text.string }
        guard step.kind == .part else { throw fault(.argumentNotString, step.index) }
        guard let text = Operations.text(value) else { throw fault(.notAddable, step.index) }
        return text
    }

    /// Descends along a text of segments. Slashes separate and are otherwise ignored. A text without segments leads to no child; as a part
    /// of a longer path it is no step. Stops where the tree ends, however long the text is.
    private static func descend(_ base: NodeCursor, _ text: String, isWhole: Bool) -> NodeCursor? {
        var cursor = base
        var rest = Substring(text).utf8
        var hasSegment = false
        while let start = rest.firstIndex(where: { $0 != UInt8(ascii: "/") }) {
            rest = rest[start...]
            let segment = rest.prefix { $0 != UInt8(ascii: "/") }
            rest = rest[segment.endIndex...]
            hasSegment = true
            guard let next = child(String(Substring(segment)), of: cursor) else { return nil }
            cursor = next
        }
        return hasSegment || !isWhole ? cursor : nil
    }

    static func child(_ name: String, of cursor: NodeCursor) -> NodeCursor? {
        guard name.utf8.count <= Key.maxBytes else { return nil }
        return withUnsafePointer(to: Key(name)) { cursor.child(TextCursor($0)) }
    }

    // MARK: Places known only at run time

    /// The tree and the keys from its root, needed for `parent()` after a computed path. Allocates.
    private mutating func location(_ i: Int32) throws(Fault) -> (tree: Tree, keys: ContiguousArray<Key>) {
        let instruction = tables.code[Int(i)]
        switch instruction.operation {
        case .place:
            let keys = ContiguousArray(path(Int(instruction.a)))
            return (Tree(rawValue: instruction.detail) ?? .old, try append(instruction, to: keys))
        case .shared:
            let (tree, keys) = sharedLocation(Int(instruction.a))
            return (tree, try append(instruction, to: keys))
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

    private func sharedLocation(_ number: Int) -> (tree: Tree, keys: ContiguousArray<Key>) {
        let path = tables.sharedPaths[number]
        var keys = path.parent < 0 ? [] : sharedLocation(Int(path.parent)).keys
        keys.append(path.step.kind == .key ? tables.keys[Int(path.step.index)] : key(Int(path.step.index)).key)
        return (path.tree, keys)
    }

    /// Records the places of the names in `hasChildren([…])`.
    mutating func recordChildren(of i: Int32, _ test: Instruction) throws(Fault) {
        guard let dependencies else { return }
        let (tree, keys) = try location(i)
        record(tree, try append(test, to: keys), in: dependencies)
    }

    private mutating func append(_ instruction: Instruction, to base: ContiguousArray<Key>) throws(Fault) -> ContiguousArray<Key> {
        var keys = base
        for i in Int(instruction.b)..<Int(instruction.b &+ instruction.c) {
            let step = tables.steps[i]
            switch step.kind {
            case .key: keys.append(tables.keys[Int(step.index)])
            case .capture: keys.append(key(Int(step.index)).key)
            case .value, .part:
                let mark = scratchCount
                keys.append(contentsOf: Self.split(try segments(try value(step.index), step), step))
                dropScratch(to: mark)
            }
        }
        return keys
    }

    private static func split(_ text: String, _ step: Step) -> [Key] {
        let keys = text.split(separator: "/").map { Key(String($0)) }
        return keys.isEmpty && step.kind == .value ? [Key("")] : keys
    }
}

/// The cached node of a shared path, with the parent node and key that it was looked up with.
struct SharedNode {
    var parent: NodeCursor?
    var key: TextCursor?
    var node: NodeCursor?
}
