/// Iterates over the children of an object in key order without copying nodes or counting references. The caller that makes one holds
/// a root above the object for as long as it lives (see `NodeCursor`).
struct ChildCursor {
    private var entry: UnsafePointer<ChildMap.Entry>?
    /// Entries from `entry` to the end of its page.
    private var left = 0
    /// Inner pages on the path down, each with the index of its next page.
    private var above: [(page: Unmanaged<ChildPage>, next: Int)] = []

    /// A cursor without children.
    init() {}

    init(_ object: ObjectNode) {
        if let root = object.children.root { enter(Unmanaged.passUnretained(root)) } else { setEntries(object.children.flat) }
    }

    /// The next child, in place; nil at the end.
    @inline(__always)
    mutating func next() -> UnsafePointer<ChildMap.Entry>? {
        if left == 0, !nextPage() { return nil }
        defer {
            entry = entry.map { $0 + 1 }
            left &-= 1
        }
        return entry
    }

    private mutating func nextPage() -> Bool {
        while let top = above.last {
            let page = top.page._withUnsafeGuaranteedRef { top.next < $0.pages.count ? Unmanaged.passUnretained($0.pages[top.next]) : nil }
            guard let page else {
                above.removeLast()
                continue
            }
            above[above.count - 1].next += 1
            enter(page)
            if left > 0 { return true }
        }
        return false
    }

    /// Goes down to the first leaf page.
    private mutating func enter(_ start: Unmanaged<ChildPage>) {
        var page = start
        while let first = page._withUnsafeGuaranteedRef({ $0.isLeaf ? nil : Unmanaged.passUnretained($0.pages[0]) }) {
            above.append((page, 1))
            page = first
        }
        page._withUnsafeGuaranteedRef { setEntries($0.entries) }
    }

    private mutating func setEntries(_ entries: ContiguousArray<ChildMap.Entry>) {
        (entry, left) = entries.withUnsafeBufferPointer { ($0.baseAddress, $0.count) }
    }
}
