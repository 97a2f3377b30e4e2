import Journal
import JSONTree

/// How a batch is cut into the rows in which it is stored: one for nearly all, several for a batch of many bytes, so that no
/// write is too large to be stored and none is in memory twice.
///
///     set /posts {1 GB}   ──►   [["s","posts",true]]  [["a","posts",{…}]]  [["a","posts",{…}]]  …
struct BatchParts: Sendable {
    /// From so many bytes on a row is full. One string is never cut: it may make a row longer.
    var fullBytes = 1 << 20
    /// A node that is estimated to have more is cut into members. None by default: what is larger than a slice has other rows.
    var largeBytes = Int.max
}

/// The rows of one batch, one after the other: what is not asked for is not encoded.
struct BatchEncoder {
    private let operations: ArraySlice<JournalOperation>
    private let parts: BatchParts
    /// Where commits begin, up to the end; those at the end stand behind everything.
    private var starts: ArraySlice<Int>
    private var index: Int
    /// The operation that is being cut, as a tree with the paths of the whole, and the path at which the next part starts.
    private var open: (tree: Node, start: Path)?
    private(set) var isDone = false

    init(_ operations: ArraySlice<JournalOperation>, _ parts: BatchParts, starts: ArraySlice<Int> = []) {
        self.operations = operations
        self.starts = starts
        self.parts = parts
        index = operations.startIndex
    }

    /// The next row, at least one; nil behind the last.
    mutating func next() -> (bytes: [UInt8], isLast: Bool)? {
        if isDone { return nil }
        if let (tree, start) = open {
            var encoder = ChunkEncoder(tree, sizes: ChunkSizes(full: parts.fullBytes, member: parts.fullBytes / 4))
            open = encoder.encode(from: start, to: nil).map { (tree, $0) }
            return ended(encoder.bytes)
        }
        var writer = JSONWriter(reservingCapacity: 64 + min(operations.endIndex - index, 4096) * 128)
        while true {
            while starts.first == index {
                writer.nextCommit()
                starts.removeFirst()
            }
            guard index < operations.endIndex, writer.bytes.count < parts.fullBytes else { break }
            let operation = operations[index]
            index += 1
            guard let (path, node) = operation.large(than: parts.largeBytes) else {
                writer.entry(operation)
                continue
            }
            // A placeholder takes the place of what was there; null would take an object around it along.
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
    /// The place and node of an operation that is to be cut.
    fileprivate func large(than bytes: Int) -> (Path, Node)? {
        if bytes == .max { return nil }
        switch self {
        case .set(let path, let node), .add(let path, let node):
            return node.hasChildren && !node.isSmall(within: bytes) ? (path, node) : nil
        case .priority, .pending, .written, .owed, .open, .peer: return nil
        }
    }
}

extension JournalBatch {
    /// Neighbours that are all stored already, or all not.
    struct Run {
        let operations: ArraySlice<JournalOperation>
        let stage: JournalStage?
        /// Where commits begin in it and right behind it; of a stage only the latter: the others are stored with it.
        let starts: ArraySlice<Int>
    }

    /// Its operations in order, cut where it changes whether they are stored already. One run when none are.
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

    /// Takes from `room` what is not stored yet, estimated in bytes, escapes not counted; false when that is more. O(room)
    func takes(from room: inout Int) -> Bool {
        if staged.isEmpty { return operations[...].takes(from: &room) }
        for run in runs where run.stage == nil { guard run.operations.takes(from: &room) else { return false } }
        return true
    }
}

extension ArraySlice<JournalOperation> {
    fileprivate func takes(from room: inout Int) -> Bool {
        for operation in self {
            room -= 16
            switch operation {
            case .set(let path, let node), .priority(let path, let node), .add(let path, let node):
                for key in path.keys { room -= key.text.utf8Count + 1 }
                guard node.takes(from: &room) else { return false }
            case .pending(.keep(_, let write)):
                guard write.value.node.takes(from: &room) else { return false }
            case .pending: break
            case .written(let path, _): for key in path.keys { room -= key.text.utf8Count + 1 }
            case .owed(.begin(_, let source, _, let terms)):
                for key in source.keys { room -= key.text.utf8Count + 1 }
                guard terms.takes(from: &room) else { return false }
            case .owed(.list(_, let keys, _)): for key in keys { room -= key.text.utf8Count + 3 }
            case .owed, .peer: break
            case .open(_, let write): guard write?.places.tree.takes(from: &room) ?? true else { return false }
            }
            if room < 0 { return false }
        }
        return true
    }
}
