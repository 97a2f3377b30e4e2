/// A growing byte buffer for values being packed.
struct PackedScratch: ~Copyable {
    private(set) var base: UnsafeMutableRawPointer
    private var capacity: Int
    var count = 0

    init(capacity: Int = 512) {
        base = .allocate(byteCount: capacity, alignment: 8)
        self.capacity = capacity
    }

    deinit { base.deallocate() }

    /// Ensures capacity for `more` bytes after `count`.
    @inline(__always)
    mutating func reserve(_ more: Int) {
        if count &+ more > capacity { grow(more) }
    }

    private mutating func grow(_ more: Int) {
        let wider = max(2 * capacity, count + more)
        let moved = UnsafeMutableRawPointer.allocate(byteCount: wider, alignment: 8)
        moved.copyMemory(from: base, byteCount: count)
        base.deallocate()
        (base, capacity) = (moved, wider)
    }
}
