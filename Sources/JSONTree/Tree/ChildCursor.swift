/// Iterates over the children of an object in key order without copying nodes or counting references. The caller keeps a root above the
/// object alive as long as the cursor exists (see `NodeCursor`).
struct ChildCursor {
    /// The page of the outermost members; nil for an object nested in packed bytes, which has no slots.
    private var page: Unmanaged<PackedPage>?
    private var isRun = false
    private var members: PackedMembers?
    private var index = 0
    private var count = 0
    /// The inner pages above, each with the index of its next page.
    private var above: [(page: Unmanaged<ChildPage>, next: Int)] = []

    /// A cursor without children.
    init() {}

    init(_ node: NodeCursor) {
        switch node.form {
        case .packed:
            members = PackedValue(node.address).members
            count = members?.count ?? 0
        case .object:
            Unmanaged<ObjectNode>.fromOpaque(node.address)._withUnsafeGuaranteedRef { object in
                if let root = object.children.root {
                    above.append((Unmanaged.passUnretained(root), 0))
                } else if let packed = object.children.packed {
                    enter(Unmanaged.passUnretained(packed.page))
                }
            }
        case .leaf, .longText, .prioritized: break
        }
    }

    /// The next child, in place; nil at the end.
    @inline(__always)
    mutating func next() -> (key: TextCursor, node: NodeCursor)? {
        if index == count, !nextPage() { return nil }
        guard let members else { return nil }
        let i = index
        index &+= 1
        guard let page else {
            let entry = members.entry(i)
            return (TextCursor(entry.key), NodeCursor(entry.value))
        }
        if isRun { return page._withUnsafeGuaranteedRef { ($0.keyCursor(i), NodeCursor($0.value(i))) } }
        let entry = members.entry(i)
        return (TextCursor(entry.key), NodeCursor(entry.value, in: page))
    }

    private mutating func nextPage() -> Bool {
        while let top = above.last {
            let (inner, leaf) = top.page._withUnsafeGuaranteedRef { page -> (Unmanaged<ChildPage>?, Unmanaged<PackedPage>?) in
                if page.isLowest { return (nil, top.next < page.leaves.count ? Unmanaged.passUnretained(page.leaves[top.next]) : nil) }
                return (top.next < page.pages.count ? Unmanaged.passUnretained(page.pages[top.next]) : nil, nil)
            }
            above[above.count - 1].next += 1
            if let leaf {
                enter(leaf)
                if count > 0 { return true }
            } else if let inner {
                above.append((inner, 0))
            } else {
                above.removeLast()
            }
        }
        return false
    }

    private mutating func enter(_ leaf: Unmanaged<PackedPage>) {
        page = leaf
        let members = leaf._withUnsafeGuaranteedRef { $0.members }
        isRun = leaf._withUnsafeGuaranteedRef { $0.isRun }
        self.members = members
        (index, count) = (0, members.count)
    }
}
