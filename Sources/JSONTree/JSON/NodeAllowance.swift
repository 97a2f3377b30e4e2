/// Who pays for a value that is being read: somebody that holds bytes for it, and can be asked for more.
public protocol NodeHold: AnyObject, Sendable {
    /// Holds so many bytes more; false when there are none.
    func grow(by bytes: Int) -> Bool
    /// Holds no more than so many bytes.
    func shrink(to bytes: Int)
}

/// Whose value is being read.
public protocol NodePayer: AnyObject {
    /// What holds the bytes of a value that is not free.
    func makeHold() -> any NodeHold
}

/// What the value that is being read may cost in memory, as it will stand in the tree and on the way there. Small values are
/// free; more is held in steps before it is allocated, and where that is refused the reading ends (`JSONError.overBudget`).
///
/// Used by one reader at a time.
public final class NodeAllowance: @unchecked Sendable {
    // Sendable: whoever reads has it alone.

    /// Bytes that nobody is asked for.
    public static let freeBytes = 64 << 10
    /// Bytes that are asked for at once.
    public static let stepBytes = 64 << 10

    /// Bytes until somebody must be asked.
    private var left = freeBytes
    /// Bytes that were free or are held.
    private var granted = freeBytes
    private var mayGrow = true
    private var payer: (any NodePayer)?
    /// What holds the bytes; nil while the value is free.
    public private(set) var hold: (any NodeHold)?

    /// - Parameter payer: who is asked for more than the free bytes; without one there are no more.
    public init(_ payer: (any NodePayer)? = nil) { self.payer = payer }

    /// - Parameter hold: holds what is more than the free bytes.
    public init(_ hold: any NodeHold) { self.hold = hold }

    /// Goes back to the beginning, for another value.
    public func begin(_ payer: any NodePayer) {
        self.payer = payer
        hold = nil
        left = Self.freeBytes
        granted = Self.freeBytes
        mayGrow = true
    }

    /// The value is read.
    /// - Returns: what it costs, and what holds the bytes that were not free.
    public func end() -> (bytes: Int, hold: (any NodeHold)?) {
        payer = nil
        guard let hold else { return (bytes, nil) }
        self.hold = nil
        hold.shrink(to: max(0, bytes - Self.freeBytes))
        return (bytes, hold)
    }

    /// Bytes that were taken.
    public var bytes: Int { granted - left }
    /// Whether bytes were refused.
    public var isUsedUp: Bool { !mayGrow }

    /// Takes bytes; false when there are none.
    @inline(__always)
    func take(_ bytes: Int) -> Bool {
        left &-= bytes
        return left >= 0 || grow()
    }

    /// Takes the bytes of one element of an update, beside its value; false when there are none.
    public func take(write path: Path, named name: String) -> Bool {
        var bytes = NodeCost.write + NodeCost.text(name.utf8.count) + 2 * (32 + path.keys.count * MemoryLayout<Key>.stride)
        for key in path.keys { bytes += NodeCost.text(key.text.utf8Count) }
        return take(bytes)
    }

    /// Gives back bytes that were needed on the way.
    @inline(__always)
    func give(_ bytes: Int) { left &+= bytes }

    @inline(never)
    private func grow() -> Bool {
        guard mayGrow else { return false }
        let missing = max(Self.stepBytes, -left)
        if hold == nil { hold = payer?.makeHold() }
        guard let hold, hold.grow(by: missing) else {
            mayGrow = false
            return false
        }
        left += missing
        granted += missing
        return true
    }
}

/// What parts of a value take in memory: their own bytes, and what the allocator adds to them. Held against the real ones by a
/// test.
enum NodeCost {
    /// A child while its object is read: key and node.
    static let entry = MemoryLayout<ChildMap.Entry>.stride
    /// The same in its object's list, with its part of a page.
    static let child = entry + 6
    /// The same where the names came in no order, so that pages are not full.
    static let unorderedChild = entry + 3 * entry / 4
    /// An object with an empty list of children: the object, and the list's own block.
    static let object = 112
    /// A leaf with a priority.
    static let prioritized = 80
    /// The hash that an object remembers once it was asked for: its box and its text.
    static let hash = 112
    /// A value that the server is to compute: what it is and where.
    static let serverValue = 256
    /// An element of an update, beside its value.
    static let write = 2 * (MemoryLayout<TreeWrite>.stride + 64)

    /// A text of so many bytes of UTF-8: short ones stand in the value itself.
    @inline(__always)
    static func text(_ utf8Count: Int) -> Int { utf8Count < 16 ? 0 : (32 + utf8Count + 1 + 8 + 15) & ~15 }
}
