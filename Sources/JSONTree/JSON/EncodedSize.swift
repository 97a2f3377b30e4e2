extension Node {
    /// Size in bytes of the node's export form as JSON text (`JSONWriter.node`); nil above `limit`. Writes nothing. O(nodes and bytes), up to
    /// the limit
    public func encodedSize(upTo limit: Int) -> Int? {
        var measure = Measure(left: limit)
        return withUnsafePointer(to: self) { measure.subtract(NodeCursor($0)) } ? limit - measure.left : nil
    }
}

/// The size of a tree.
public struct TreeExtent: Sendable, Equatable {
    /// The number of keys on all levels.
    public let keys: Int
    /// Bytes of the export form as JSON text; 0 for an empty tree.
    public let bytes: Int
}

extension Node {
    /// The node's number of keys and bytes. O(nodes and bytes)
    public var extent: TreeExtent {
        guard exists else { return TreeExtent(keys: 0, bytes: 0) }
        var measure = Measure(left: .max)
        withUnsafePointer(to: self) { _ = measure.subtract(NodeCursor($0)) }
        return TreeExtent(keys: measure.keys, bytes: .max - measure.left)
    }
}

private struct Measure {
    var left: Int
    /// The number of keys measured.
    private(set) var keys = 0
    /// Formats one number at a time, to measure its length.
    private var scratch = JSONWriter(reservingCapacity: 32)

    init(left: Int) { self.left = left }

    /// Subtracts the node's bytes from `left`; false once that is negative.
    mutating func subtract(_ cursor: NodeCursor) -> Bool {
        switch cursor.kind {
        case .null: left -= 4
        case .int(let value): number(.int(value))
        case .double(let value): number(.double(value))
        case .bool(let value): left -= value ? 4 : 5
        case .text(let text): text.withBytes { string($0) }
        case .prioritized:
            left -= #"{".value":,".priority":}"#.utf8.count
            scalar(cursor.leaf)
            scalar(cursor.priority)
        case .object:
            // Braces and commas: one comma fewer than children.
            left -= 1
            let isWhole = cursor.allChildren { key, child in
                key.withBytes { string($0) }
                keys += 1
                left -= 2
                return subtract(child)
            }
            guard isWhole else { return false }
            let priority = cursor.priority
            if priority.exists {
                left -= #","#.utf8.count + #"".priority":"#.utf8.count
                scalar(priority)
            }
        }
        return left >= 0
    }

    private mutating func scalar(_ leaf: Node) {
        switch leaf {
        case .bool(let value): left -= value ? 4 : 5
        case .string(let text): text.withBytes { string($0) }
        default: number(leaf)
        }
    }

    private mutating func number(_ leaf: Node) {
        scratch.bytes.removeAll(keepingCapacity: true)
        scratch.node(leaf)
        left -= scratch.bytes.count
    }

    /// A quoted string with its escapes.
    private mutating func string(_ bytes: UnsafeBufferPointer<UInt8>) {
        left -= bytes.count + 2
        guard left >= 0 else { return }
        var more = 0
        for byte in bytes {
            if byte >= 0x20, byte != UInt8(ascii: "\""), byte != UInt8(ascii: "\\") { continue }
            switch byte {
            case 0x0A, 0x0D, 0x09, UInt8(ascii: "\""), UInt8(ascii: "\\"): more += 1
            default: more += 5
            }
        }
        left -= more
    }
}
