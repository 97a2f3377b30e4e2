import Journal
import JSONTree

/// Splits a batch into the rows that store it: one row for nearly all batches, several for a large one. So no
/// write is too large to store, and none is in memory twice.
///
///     set /posts {1 GB}   ──►   [["s","posts",true]]  [["a","posts",{…}]]  [["a","posts",{…}]]  …
struct BatchParts: Sendable {
    /// Bytes at which a row is full. A single string is never split, so it may make a row longer.
    var fullBytes = 1 << 20
    /// Estimated bytes above which a node is split into members. Unlimited by default: a batch larger than a slice has other rows.
    var largeBytes = Int.max
}

/// Encodes the rows of one batch lazily, one after the other.
struct BatchEncoder {
    private let operations: ArraySlice<JournalOperation>
    private let parts: BatchParts
    /// Indices of operations at which commits begin, ascending; commits without operations at the end follow all operations.
    private var starts: ArraySlice<Int>
    private var index: Int
    /// The operation that is being split, as a tree at its whole path, and the path at which the next part starts.
    private var open: (tree: Node, start: Path)?
    private(set) var isDone = false

    init(_ operations: ArraySlice<JournalOperation>, _ parts: BatchParts, starts: ArraySlice<Int> = []) {
        self.operations = operations
        self.starts = starts
        self.parts = parts
        index = operations.startIndex
    }

    /// Encodes the next row, at least one in total; nil after the last.
    mutating func next() -> (bytes: [UInt8], isLast: Bool)? {
        if isDone { return nil }
        if let (tree, start) = open {
            var encoder = ChunkEncoder(tree, sizes: ChunkSizes(full: parts.fullBytes, member: parts.fullBytes / 4))
            open = encoder.encode(from: start, to: nil).map { (tree, $0) }
            return ended(encoder.bytes)
        }
        var writer = JSONWriter(reservingCapacity: 64 + min(operations.endIndex - index, 4096) * 128)
        /// The last object or string that was set in this row.
        var lastSet: Node?
        while true {
            while starts.first == index {
                writer.nextCommit()
                starts.removeFirst()
            }
            guard index < operations.endIndex, writer.bytes.count < parts.fullBytes else { break }
            let operation = operations[index]
            index += 1
            if case .set(let path, let node) = operation {
                if node.canBeRepeated {
                    if let lastSet, node.isIdentical(to: lastSet) {
                        writer.sameEntry(at: path)
                        continue
                    }
                    lastSet = node
                }
            }
            guard let (path, node) = operation.large(than: parts.largeBytes) else {
                writer.entry(operation)
                continue
            }
            // A placeholder replaces the previous value; null would also remove a parent object without other children.
            if case .set = operation { writer.entry(.set, at: path, true) }
            var tree = Node.null
            tree.set(node, at: path)
            open = (tree, path)
            break
        }
        if writer.bytes.isEmpty { writer.raw("[") }
        writer.raw("]")
        return ended(writer.bytes)
    }

    private mutating func ended(_ bytes: [UInt8]) -> ([UInt8], Bool) {
        isDone = open == nil && index == operations.endIndex && starts.isEmpty
        return (bytes, isDone)
    }
}

extension JournalOperation {
    /// The place and node of an operation that must be split.
    fileprivate func large(than bytes: Int) -> (Path, Node)? {
        if bytes == .max { return nil }
        switch self {
        case .set(let path, let node), .add(let path, let node):
            return node.hasChildren && !node.isSmall(within: bytes) ? (path, node) : nil
        case .priority, .pending, .written, .pendingRows, .open, .peer, .delivery, .watch: return nil
        }
    }
}

extension JournalBatch {
    /// Adjacent operations that are either all staged or all not.
    struct Run {
        let operations: ArraySlice<JournalOperation>
        let stage: JournalStage?
        /// Indices at which commits begin within the run or right behind it. For a stage only the latter, as the others are stored with it.
        let starts: ArraySlice<Int>
    }

    /// The operations in order, split wherever staged and unstaged ones meet. One run when none are staged.
    var runs: [Run] {
        var (runs, rest, start) = ([Run](), starts[...], 0)
        func add(_ range: Range<Int>, _ stage: JournalStage?) {
            if stage != nil { rest = rest.drop { $0 < range.upperBound } }
            let own = rest.prefix { $0 <= range.upperBound }
            rest = rest.dropFirst(own.count)
            runs.append(Run(operations: operations[range], stage: stage, starts: own))
        }
        for part in staged {
            // A commit without operations may come before the first stage.
            if part.range.lowerBound > start || start == 0 && starts.first == 0 { add(start..<part.range.lowerBound, nil) }
            add(part.range, part.stage)
            start = part.range.upperBound
        }
        if start < operations.count || runs.isEmpty { add(start..<operations.count, nil) }
        return runs
    }

    /// Subtracts the estimated bytes that are not stored yet from `room`, without escapes; false when they exceed it. O(room)
    func takes(from room: inout Int) -> Bool {
        if staged.isEmpty { return operations[...].takes(from: &room) }
        for run in runs where run.stage == nil { guard run.operations.takes(from: &room) else { return false } }
        return true
    }
}

extension ArraySlice<JournalOperation> {
    fileprivate func takes(from room: inout Int) -> Bool {
        var lastSet: Node?
        for operation in self {
            room -= 16
            switch operation {
            case .set(let path, let node), .priority(let path, let node), .add(let path, let node):
                for key in path.keys { room -= key.text.utf8Count + 1 }
                if case .set = operation, node.canBeRepeated {
                    if let lastSet, node.isIdentical(to: lastSet) { break }
                    lastSet = node
                }
                guard node.takes(from: &room) else { return false }
            case .pending(.keep(_, let write)):
                guard write.value.node.takes(from: &room) else { return false }
            case .pending: break
            case .written(let path, _): for key in path.keys { room -= key.text.utf8Count + 1 }
            case .pendingRows(.begin(_, let source, _, let terms)):
                for key in source.keys { room -= key.text.utf8Count + 1 }
                guard terms.takes(from: &room) else { return false }
            case .pendingRows(.list(_, let keys, _)): for key in keys { room -= key.text.utf8Count + 3 }
            case .pendingRows, .peer: break
            case .delivery(let id, let item):
                room -= id.text.utf8Count
                guard item.takes(from: &room) else { return false }
            case .watch(.muted(let watch, _, let item, _)):
                for key in watch.keys + item.keys { room -= key.text.utf8Count + 1 }
            case .watch(.forget(let path)): for key in path.keys { room -= key.text.utf8Count + 1 }
            case .open(_, let write): guard write?.places.tree.takes(from: &room) ?? true else { return false }
            }
            if room < 0 { return false }
        }
        return true
    }
}
