/// The children of an object in key order: packed in one page while small, a B+ tree of copy-on-write pages when large.
///
///     ≤ 4 KiB            page  [k v k v k v …]
///     more               root ─► [sep page | sep page | …] ─► … ─► pages of ≤ 4 KiB
///
/// A value type: copying is O(1), and a change copies the shared pages on its path. Lookup and change are O(log n). Iteration is in key order
/// from any key, in both directions.
public struct ChildMap: Sendable {
    /// The children of a small map; nil if empty or if `root` is set.
    var packed: PackedObject?
    var root: ChildPage?

    /// The most pages below an inner page.
    static let pageCapacity = 32

    public init() {}

    init(_ packed: PackedObject) { self.packed = packed }

    /// Creates a map from pages in order; none is empty.
    init(pages: ContiguousArray<PackedPage>) {
        if pages.count > 1 { root = ChildPage.build(pages) } else { packed = pages.first.map { PackedObject($0.keyed) } }
    }

    public var count: Int { root?.count ?? packed?.count ?? 0 }
    public var isEmpty: Bool { root == nil && packed == nil }

    /// The child, or nil. O(log n)
    public subscript(key: Key) -> Node? {
        key.text.withBytes { bytes in
            let probe = Key.Probe(bytes)
            guard let root else { return packed?.child(probe) }
            return root.node(probe)
        }
    }

    /// Sets or, with `null`, removes a child. O(log n)
    public mutating func set(_ key: Key, _ node: Node) {
        mutate(key) { $0 = node }
    }

    /// Lets `body` change the child in place (`null` if missing); a child left `null` is removed. O(log n) plus the body.
    mutating func mutate(_ key: Key, isReplaced: Bool = false, _ body: (inout Node) -> Void) {
        if root != nil { return mutatePages(key, isReplaced, body) }
        guard var page = takePage() else {
            var node = Node.null
            body(&node)
            if node.exists { packed = PackedObject(PackedPage.of(key, node)) }
            return
        }
        _ = PackedPage.mutate(&page, key, isReplaced: isReplaced, body)
        if page.count == 0 { return }
        if page.isOverfull { root = ChildPage(leaves: page.split(appending: false)) } else { packed = PackedObject(page) }
    }

    /// Moves the single page out. A page that is part of another, or has a priority, is copied.
    private mutating func takePage() -> PackedPage? {
        guard let object = packed.take() else { return nil }
        return object.asPage
    }

    private mutating func mutatePages(_ key: Key, _ isReplaced: Bool, _ body: (inout Node) -> Void) {
        guard var page = root.take() else { return }
        if !isKnownUniquelyReferenced(&page) { page = page.copy() }
        page.mutate(key, isReplaced: isReplaced, isAtEnd: true, body)
        if page.isOverfull {
            let (separator, right) = page.split(appending: false)
            page = ChildPage(separators: [page.firstKey, separator], pages: [page, right])
        }
        while !page.isLowest, page.pages.count == 1 { page = page.pages[0] }
        guard page.isLowest, page.leaves.count <= 1 else {
            root = page
            return
        }
        packed = page.leaves.first.map { PackedObject($0.keyed) }
    }

    /// Adds the children of another map, all of which sort after those of this one. Reuses the other map's pages.
    /// O(pages of the other · log n)
    mutating func append(_ later: ChildMap) {
        guard !later.isEmpty else { return }
        guard !isEmpty else { return self = later }
        var leaves = later.leaves[...]
        if root == nil {
            guard let page = takePage() else { return }
            var pages: ContiguousArray = [page]
            if let first = leaves.first, page.fits(beside: first) {
                pages = [page.joined(with: first)]
                leaves.removeFirst()
            }
            self = ChildMap(pages: pages + leaves)
            return
        }
        for leaf in leaves {
            guard var page = root else { return }
            root = nil
            if !isKnownUniquelyReferenced(&page) { page = page.copy() }
            page.append(leaf)
            if page.isOverfull {
                let (separator, right) = page.split(appending: true)
                page = ChildPage(separators: [page.firstKey, separator], pages: [page, right])
            }
            root = page
        }
    }

    /// The packed pages in order.
    private var leaves: ContiguousArray<PackedPage> {
        guard let root else { return packed.map { [$0.asPage] } ?? [] }
        var leaves = ContiguousArray<PackedPage>()
        root.collect(&leaves)
        return leaves
    }

    var firstKey: Key? { root?.firstKey ?? packed?.key(0) }
    var lastKey: Key? { root?.lastKey ?? packed.map { $0.key($0.count - 1) } }

    /// The number of children below the key. O(log n)
    func rank(of key: Key) -> Int {
        guard var page = root else { return packed?.position(of: key).index ?? 0 }
        var rank = 0
        while !page.isLowest {
            let i = page.pageIndex(for: key)
            for before in page.pages[..<i] { rank += before.count }
            page = page.pages[i]
        }
        let i = page.pageIndex(for: key)
        for before in page.leaves[..<i] { rank += before.count }
        return rank + PackedObject(page.leaves[i]).position(of: key).index
    }

    /// The key at a rank; nil if out of range. O(log n)
    func key(at rank: Int) -> Key? {
        guard rank < count else { return nil }
        guard var page = root else { return packed?.key(rank) }
        var left = rank
        while !page.isLowest {
            var i = 0
            while left >= page.pages[i].count {
                left -= page.pages[i].count
                i += 1
            }
            page = page.pages[i]
        }
        for leaf in page.leaves {
            if left < leaf.count { return leaf.key(left) }
            left -= leaf.count
        }
        return nil
    }

    /// The greatest key below the given one, or nil. O(log n)
    public func key(before key: Key) -> Key? {
        guard var page = root else {
            guard let packed else { return nil }
            let (i, _) = packed.position(of: key)
            return i > 0 ? packed.key(i - 1) : nil
        }
        var candidate: ChildPage?
        while !page.isLowest {
            let i = page.pageIndex(for: key)
            if i > 0 { candidate = page.pages[i - 1] }
            page = page.pages[i]
        }
        let i = page.pageIndex(for: key)
        let (position, _) = PackedObject(page.leaves[i]).position(of: key)
        if position > 0 { return page.leaves[i].key(position - 1) }
        if i > 0 { return page.leaves[i - 1].lastKey }
        return candidate?.lastKey
    }
}

extension PackedObject {
    /// The index of a key, or its insertion index.
    @inline(__always)
    func position(of key: Key) -> (index: Int, found: Bool) {
        key.text.withBytes { value.tag == PackedTag.run ? page.position(Key.Probe($0)) : members.position(Key.Probe($0)) }
    }

    /// The members in a page of their own, without the priority.
    var asPage: PackedPage {
        let value = value
        if offset == 0, value.tag == PackedTag.object { return page }
        let members = value.members
        let bytes = end
        let copy = PackedPage.make(byteCount: PackedTag.objectHead + bytes, slotCount: 0)
        let target = copy.bytes
        target.storeBytes(of: PackedTag.object, as: UInt8.self)
        target.setShort(PackedTag.objectHead + bytes, at: 1)
        (target + PackedTag.objectHead).copyMemory(from: members.start, byteCount: bytes)
        return copy
    }
}

extension PackedPage {
    /// Whether the page must be split.
    var isOverfull: Bool { (byteCount > PackedLimits.pageBytes || slotCount > PackedLimits.pageSlots) && count > 1 }

    /// The page in parts, none overfull: usually two, more if large entries meet.
    func split(appending: Bool) -> ContiguousArray<PackedPage> {
        guard isOverfull else { return [self] }
        let at = middle(appending: appending)
        return part(0..<at).split(appending: false) + part(at..<count).split(appending: false)
    }

    /// The split index: half of the bytes, or the last entry when appending, so that the left page stays full while keys arrive in order.
    private func middle(appending: Bool) -> Int {
        let (members, count) = (members, count)
        if appending || count < 3 { return count - 1 }
        let half = (members.offset(0) + end) / 2
        var (low, high) = (1, count - 1)
        while low < high {
            let i = (low + high) / 2
            if members.offset(i) < half { low = i + 1 } else { high = i }
        }
        return low
    }

    var firstKey: Key { key(0) }
    var lastKey: Key { key(count - 1) }
}
