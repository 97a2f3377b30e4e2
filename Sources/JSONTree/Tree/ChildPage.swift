/// An inner page of a large child map, above other inner pages or, at the lowest level, packed pages. Only its single owner changes it in
/// place.
final class ChildPage: @unchecked Sendable {
    // Sendable: changed only by its single owner (isKnownUniquelyReferenced); immutable once shared.
    // Exclusivity is not checked at run time: only a single owner changes a page, so there is no concurrent reader.

    /// Children below this page.
    @exclusivity(unchecked) var count: Int
    /// The number of them whose key is not an array index.
    @exclusivity(unchecked) var named: Int
    /// `separators[i]` ≤ every key in page `i` < `separators[i + 1]`; the first separator is unused.
    @exclusivity(unchecked) var separators: ContiguousArray<Key>
    /// The pages below, if they are inner pages.
    @exclusivity(unchecked) var pages: ContiguousArray<ChildPage> = []
    /// The pages below, if this is a lowest inner page.
    @exclusivity(unchecked) var leaves: ContiguousArray<PackedPage> = []

    init(separators: ContiguousArray<Key>, pages: ContiguousArray<ChildPage>) {
        count = pages.reduce(0) { $0 + $1.count }
        named = pages.reduce(0) { $0 + $1.named }
        self.separators = separators
        self.pages = pages
    }

    init(separators: ContiguousArray<Key>, leaves: ContiguousArray<PackedPage>) {
        count = leaves.reduce(0) { $0 + $1.count }
        named = leaves.reduce(0) { $0 + $1.named }
        self.separators = separators
        self.leaves = leaves
    }

    convenience init(leaves: ContiguousArray<PackedPage>) {
        self.init(separators: ContiguousArray(leaves.map(\.firstKey)), leaves: leaves)
    }

    private init(copying page: ChildPage) {
        (count, named) = (page.count, page.named)
        separators = page.separators
        pages = page.pages
        leaves = page.leaves
    }

    func copy() -> ChildPage { ChildPage(copying: self) }

    var isLowest: Bool { pages.isEmpty }
    private var width: Int { isLowest ? leaves.count : pages.count }
    var isOverfull: Bool { width > ChildMap.pageCapacity }
    var firstKey: Key { isLowest ? leaves[0].firstKey : pages[0].firstKey }

    var lastLeaf: PackedPage {
        var page = self
        while !page.isLowest { page = page.pages[page.pages.count - 1] }
        return page.leaves[page.leaves.count - 1]
    }

    var lastKey: Key { lastLeaf.lastKey }

    /// The index of the page that contains the key, or into which it would be inserted.
    @inline(__always)
    func pageIndex(for key: Key) -> Int { key.text.withBytes { pageIndex(for: Key.Probe($0)) } }

    @inline(__always)
    func pageIndex(for probe: Key.Probe) -> Int {
        separators.withUnsafeBufferPointer { separators in
            var (low, high) = (1, separators.count)
            while low < high {
                let middle = (low &+ high) / 2
                if probe.order(separators[middle]) <= 0 { low = middle &+ 1 } else { high = middle }
            }
            return low &- 1
        }
    }

    /// The packed page that contains a key, or into which it would be inserted; retained by this page.
    @inline(__always)
    func leaf(_ probe: Key.Probe) -> Unmanaged<PackedPage> {
        // Each page is retained by its parent, so the descent retains none.
        var page = Unmanaged.passUnretained(self)
        while true {
            let (next, leaf) = page._withUnsafeGuaranteedRef { page -> (Unmanaged<ChildPage>?, Unmanaged<PackedPage>?) in
                let i = page.pageIndex(for: probe)
                if page.isLowest { return (nil, Unmanaged.passUnretained(page.leaves[i])) }
                return (Unmanaged.passUnretained(page.pages[i]), nil)
            }
            if let leaf { return leaf }
            if let next { page = next }
        }
    }

    /// The node of a key at or below this page, or nil.
    func node(_ probe: Key.Probe) -> Node? {
        let leaf = leaf(probe)
        guard let value = leaf._withUnsafeGuaranteedRef({ $0.value(probe) }) else { return nil }
        return PackedObject(leaf.takeUnretainedValue()).node(value)
    }

    /// Precondition: this page is uniquely owned. Afterwards it may be empty, or exceed its capacity by some pages; the caller repairs that.
    /// - Parameter isAtEnd: whether this page is the rightmost of the tree.
    func mutate(_ key: Key, isReplaced: Bool, isAtEnd: Bool, _ body: (inout Node) -> Void) {
        let i = pageIndex(for: key)
        if isLowest {
            let more = PackedPage.mutate(&leaves[i], key, isReplaced: isReplaced, body)
            count += more
            if more != 0, !key.isIndex { named += more }
            repairLeaf(i, isAtEnd: isAtEnd && i == leaves.count - 1)
            return
        }
        if !isKnownUniquelyReferenced(&pages[i]) { pages[i] = pages[i].copy() }
        // Read once, as each array access retains the element.
        let page = pages[i]
        let before = (count: page.count, named: page.named)
        let isLast = isAtEnd && i == pages.count - 1
        page.mutate(key, isReplaced: isReplaced, isAtEnd: isLast, body)
        count += page.count - before.count
        named += page.named - before.named
        repair(page, at: i, isAtEnd: isLast)
    }

    private func repairLeaf(_ i: Int, isAtEnd: Bool) {
        let leaf = leaves[i]
        if leaf.isOverfull {
            let parts = leaf.split(appending: isAtEnd)
            leaves.replaceSubrange(i...i, with: parts)
            separators.insert(contentsOf: parts.dropFirst().map(\.firstKey), at: i + 1)
        } else if leaf.count == 0 {
            separators.remove(at: i)
            leaves.remove(at: i)
        } else if leaf.byteCount < PackedLimits.pageBytes / 4, leaves.count > 1 {
            let left = i > 0 ? i - 1 : i
            let (a, b) = (leaves[left], leaves[left + 1])
            guard a.fits(beside: b) else { return }
            leaves[left] = a.joined(with: b)
            separators.remove(at: left + 1)
            leaves.remove(at: left + 1)
        }
    }

    private func repair(_ page: ChildPage, at i: Int, isAtEnd: Bool) {
        if page.isOverfull {
            let (separator, right) = page.split(appending: isAtEnd)
            separators.insert(separator, at: i + 1)
            pages.insert(right, at: i + 1)
        } else if page.count == 0 {
            separators.remove(at: i)
            pages.remove(at: i)
        } else if page.width <= ChildMap.pageCapacity / 4, pages.count > 1 {
            let left = i > 0 ? i - 1 : i
            guard pages[left].width + pages[left + 1].width <= ChildMap.pageCapacity * 3 / 4 else { return }
            let merged = pages[left].copy()
            let right = pages[left + 1]
            merged.separators.append(separators[left + 1])
            merged.separators.append(contentsOf: right.separators.dropFirst())
            merged.pages.append(contentsOf: right.pages)
            merged.leaves.append(contentsOf: right.leaves)
            merged.count += right.count
            merged.named += right.named
            pages[left] = merged
            separators.remove(at: left + 1)
            pages.remove(at: left + 1)
        }
    }

    /// Adds a packed page whose keys all sort after those below this page. Precondition: this page is uniquely owned. Afterwards it may exceed
    /// its capacity by one page.
    func append(_ leaf: PackedPage) {
        count += leaf.count
        named += leaf.named
        if isLowest {
            let last = leaves.count - 1
            if leaves[last].fits(beside: leaf) {
                leaves[last] = leaves[last].joined(with: leaf)
            } else {
                separators.append(leaf.firstKey)
                leaves.append(leaf)
            }
            return
        }
        let last = pages.count - 1
        if !isKnownUniquelyReferenced(&pages[last]) { pages[last] = pages[last].copy() }
        pages[last].append(leaf)
        guard pages[last].isOverfull else { return }
        let (separator, right) = pages[last].split(appending: true)
        separators.append(separator)
        pages.append(right)
    }

    /// Appends the packed pages below this one to `all`, in order.
    func collect(_ all: inout ContiguousArray<PackedPage>) {
        all.append(contentsOf: leaves)
        for page in pages { page.collect(&all) }
    }

    /// Moves the upper part into a new page. At the end of the tree the left page stays full, so that keys arriving in order fill their pages.
    /// Elsewhere both halves keep space for inserts.
    func split(appending: Bool) -> (separator: Key, right: ChildPage) {
        let at = appending ? width - 1 : width / 2
        let separator = separators[at]
        let right: ChildPage
        if isLowest {
            right = ChildPage(separators: ContiguousArray(separators[at...]), leaves: ContiguousArray(leaves[at...]))
            leaves.removeSubrange(at...)
        } else {
            right = ChildPage(separators: ContiguousArray(separators[at...]), pages: ContiguousArray(pages[at...]))
            pages.removeSubrange(at...)
        }
        separators.removeSubrange(at...)
        count -= right.count
        named -= right.named
        return (separator, right)
    }

    /// Builds a tree over at least one packed page, in order. O(pages)
    static func build(_ leaves: ContiguousArray<PackedPage>) -> ChildPage {
        let fill = ChildMap.pageCapacity * 3 / 4
        var level = stride(from: 0, to: leaves.count, by: fill).map { start in
            ChildPage(leaves: ContiguousArray(leaves[start..<min(start + fill, leaves.count)]))
        }
        while level.count > 1 {
            level = stride(from: 0, to: level.count, by: fill).map { start in
                let pages = ContiguousArray(level[start..<min(start + fill, level.count)])
                return ChildPage(separators: ContiguousArray(pages.map(\.firstKey)), pages: pages)
            }
        }
        return level[0]
    }
}
