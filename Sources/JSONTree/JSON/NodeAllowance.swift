/// Reserves bytes of a memory budget for a value being parsed.
public protocol MemoryReservation: AnyObject, Sendable {
    /// Reserves `bytes` more; false if the budget refuses.
    func grow(by bytes: Int) -> Bool
    /// Releases all but `bytes`.
    func shrink(to bytes: Int)
}

/// Creates the budget's hold when a value needs more than the free bytes.
public protocol ReservationMaker: AnyObject {
    /// A hold for the bytes beyond the free ones.
    func makeReservation() -> any MemoryReservation
}

/// Bounds the memory of one value while it is parsed: of the resulting nodes and of temporary buffers. Small values are free. Larger ones
/// reserve memory in steps before allocating it. When the budget refuses, parsing ends with `JSONError.overBudget`.
///
/// Used by one reader at a time.
public final class NodeAllowance: @unchecked Sendable {
    // Sendable: used only on the thread of its reader.

    /// Bytes that need no reservation.
    public static let freeBytes = 64 << 10
    /// The smallest step by which a hold grows.
    public static let stepBytes = 64 << 10

    /// Granted bytes not used yet.
    private var left = freeBytes
    /// Bytes granted so far: free ones plus reserved ones.
    private var granted = freeBytes
    private var mayGrow = true
    private var payer: (any ReservationMaker)?
    /// The hold for bytes beyond the free ones; nil until needed.
    public private(set) var hold: (any MemoryReservation)?

    /// - Parameter payer: creates the hold beyond the free bytes; without it the value is limited to the free bytes.
    public init(_ payer: (any ReservationMaker)? = nil) { self.payer = payer }

    /// - Parameter hold: reserves the bytes beyond the free ones.
    public init(_ hold: any MemoryReservation) { self.hold = hold }

    /// Resets for another value.
    public func begin(_ payer: any ReservationMaker) {
        self.payer = payer
        hold = nil
        left = Self.freeBytes
        granted = Self.freeBytes
        mayGrow = true
    }

    /// Ends the accounting of a value.
    /// - Returns: its bytes, and the hold for those beyond the free ones.
    public func end() -> (bytes: Int, hold: (any MemoryReservation)?) {
        payer = nil
        guard let hold else { return (bytes, nil) }
        self.hold = nil
        hold.shrink(to: max(0, bytes - Self.freeBytes))
        return (bytes, hold)
    }

    /// Bytes charged so far.
    public var bytes: Int { granted - left }
    /// Whether the budget has refused.
    public var isUsedUp: Bool { !mayGrow }

    /// Charges bytes; false when the budget refuses.
    @inline(__always)
    func charge(_ bytes: Int) -> Bool {
        left &-= bytes
        return left >= 0 || grow()
    }

    /// Charges one element of an update, without its value; false if the budget refuses.
    public func charge(write path: Path, named name: String) -> Bool {
        var bytes = NodeCost.write + NodeCost.text(name.utf8.count) + 2 * (32 + path.keys.count * MemoryLayout<Key>.stride)
        for key in path.keys { bytes += NodeCost.text(key.text.utf8Count) }
        return charge(bytes)
    }

    /// Refunds bytes of temporary buffers.
    @inline(__always)
    func refund(_ bytes: Int) { left &+= bytes }

    @inline(never)
    private func grow() -> Bool {
        guard mayGrow else { return false }
        let missing = max(Self.stepBytes, -left)
        if hold == nil { hold = payer?.makeReservation() }
        guard let hold, hold.grow(by: missing) else {
            mayGrow = false
            return false
        }
        left += missing
        granted += missing
        return true
    }
}

/// Memory cost of the parts of a value, including allocator overhead. A test compares these with measured values.
enum NodeCost {
    /// A child of an object collected as keys and nodes, as claims are.
    static let collected = 2 * (MemoryLayout<Key>.stride + MemoryLayout<Node>.stride)
    /// An object without its children.
    static let object = 96
    /// An inner page without its targets, and its two arrays.
    static let innerPage = 144
    /// The box of a long text in a slot.
    static let longText = 64
    /// A packed page, rounded like the allocator does.
    @inline(__always)
    static func page(bytes: Int, slots: Int) -> Int { (8 + 32 + 8 * slots + (bytes + 7) / 8 * 8 + 15) & ~15 }
    /// A leaf with a priority.
    static let prioritized = 80
    /// A cached hash of an object: its box and its text.
    static let hash = 112
    /// A server value: its kind and place.
    static let serverValue = 256
    /// An element of an update, without its value.
    static let write = 2 * (MemoryLayout<TreeWrite>.stride + 64)

    /// A text of `utf8Count` bytes; short ones are stored inline.
    @inline(__always)
    static func text(_ utf8Count: Int) -> Int { utf8Count < 16 ? 0 : (32 + utf8Count + 1 + 8 + 15) & ~15 }
}
