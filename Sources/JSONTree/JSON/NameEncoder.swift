/// Encodes the names of a node's children piece by piece: `{"a":true,"b":true}`; a leaf is encoded as it is (`shallow=true`, contract §7.2).
///
/// It iterates over the immutable node without copying, however many children there are. O(children named)
public struct NameEncoder: Sendable {
    /// The children to name.
    public struct Range: Sendable {
        /// Only children after this key.
        public var after: Key?
        /// The most children to name.
        public var limit: Int?
        /// Whether `limit` keeps the last children instead of the first.
        public var keepsLast: Bool

        public init(after: Key? = nil, limit: Int? = nil, keepsLast: Bool = false) {
            self.after = after
            self.limit = limit
            self.keepsLast = keepsLast
        }
    }

    private let leaf: Node
    private let isPretty: Bool
    private let after: Key?
    private var children: ChildMap.Iterator
    private var left: Int
    private var hasBegun = false
    /// Whether everything has been written.
    public private(set) var isDone = false

    /// O(log n)
    public init(_ node: Node, _ range: Range = Range(), isPretty: Bool = false) {
        let map = node.children
        leaf = node.leaf
        self.isPretty = isPretty
        after = range.after
        left = range.limit ?? .max
        let start = range.keepsLast ? map.count - min(map.count, left) : 0
        children = ChildMap.Iterator(map, at: start)
        // The last `limit` children may all lie behind the key.
        if let after = range.after, let first = map.key(at: start), !(after < first) { children = ChildMap.Iterator(map, from: after) }
    }

    private mutating func next() -> Key? {
        guard left > 0, var child = children.next() else { return nil }
        if child.key == after {
            guard let second = children.next() else { return nil }
            child = second
        }
        left -= 1
        return child.key
    }

    /// Appends until everything, or at least `bytes`, is in the writer. Exceeds `bytes` by at most one name.
    public mutating func write(to writer: inout JSONWriter, atLeast bytes: Int) {
        if isDone { return }
        let enough = bytes < .max - writer.bytes.count ? writer.bytes.count + bytes : .max
        repeat {
            guard let key = next() else { return end(&writer) }
            hasBegun ? writer.raw(",") : writer.raw("{")
            hasBegun = true
            if isPretty { writer.raw("\n  ") }
            writer.string(key.text)
            isPretty ? writer.raw(" : true") : writer.raw(":true")
        } while writer.bytes.count < enough
    }

    private mutating func end(_ writer: inout JSONWriter) {
        isDone = true
        if hasBegun { return writer.raw(isPretty ? "\n}" : "}") }
        writer.node(leaf)
    }

    /// Size of the unwritten rest in bytes, without escapes and white space; nil above `limit`. Writes nothing. O(children named)
    public func size(upTo limit: Int) -> Int? {
        var (rest, size) = (self, 2)
        if !leaf.isNull { return leaf.size(upTo: limit) }
        while let key = rest.next() {
            size += key.text.utf8Count + 8
            if size > limit { return nil }
        }
        return size
    }
}
