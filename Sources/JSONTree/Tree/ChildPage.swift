/// A page of a large child map: entries at the bottom, pages above. Changed in place only by its single owner.
final class ChildPage: @unchecked Sendable {
    // Sendable: changed only after isKnownUniquelyReferenced said that one owner holds it; immutable once shared.
    // Exclusivity is not checked at run time: only a single owner changes a page, so there is no concurrent reader.
    typealias Entry = ChildMap.Entry

    /// Children at and below this page.
    @exclusivity(unchecked) var count: Int
    /// The entries of a leaf page, ascending.
    @exclusivity(unchecked) var entries: ContiguousArray<Entry>
    /// For an inner page: `separators[i]` ≤ every key in `pages[i]` < `separators[i + 1]`; the first one is unused.
    @exclusivity(unchecked) var separators: ContiguousArray<Key>
    @exclusivity(unchecked) var pages: ContiguousArray<ChildPage>

    init(entries: ContiguousArray<Entry>) {
        count = entries.count
        self.entries = entries
        separators = []
        pages = []
    }

    init(separators: ContiguousArray<Key>, pages: ContiguousArray<ChildPage>) {
        count = pages.reduce(0) { $0 + $1.count }
        entries = []
        self.separators = separators
        self.pages = pages
    }

    private init(copying page: ChildPage) {
        count = page.count
        entries = page.entries
        separators = page.separators
        pages = page.pages
    }

    func copy() -> ChildPage { ChildPage(copying: self) }

    var isLeaf: Bool { pages.isEmpty }
    private var width: Int { isLeaf ? entries.count : pages.count }
    var isOverfull: Bool { width > ChildMap.pageCapacity }
    var firstKey: Key { isLeaf ? entries[0].key : pages[0].firstKey }

    var lastEntry: Entry {
        var page = self
        while !page.isLeaf { page = page.pages[page.pages.count - 1] }
        return page.entries[page.entries.count - 1]
    }

    /// The index of the page that contains the key, or into which it belongs.
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

    /// The node of a key at or below this page, or nil.
    func node(_ probe: Key.Probe) -> Node? {
        // Pages are held by those above them: on the way down none is retained.
        var page = Unmanaged.passUnretained(self)
        while let below = page._withUnsafeGuaranteedRef({ $0.page(for: probe) }) { page = below }
        return page._withUnsafeGuaranteedRef { $0.entries.node(probe) }
    }

    /// The page that contains the key, or into which it belongs; nil for a leaf page.
    @inline(__always)
    private func page(for probe: Key.Probe) -> Unmanaged<ChildPage>? {
        isLeaf ? nil : Unmanaged.passUnretained(pages[pageIndex(for: probe)])
    }

    /// Precondition: this page is uniquely owned. Afterwards it may be overfull by one or empty; the caller repairs that.
    func mutate(_ key: Key, _ body: (inout Node) -> Void) {
        if isLeaf {
            count += entries.mutate(key, body)
            return
        }
        let i = pageIndex(for: key)
        if !isKnownUniquelyReferenced(&pages[i]) { pages[i] = pages[i].copy() }
        let before = pages[i].count
        pages[i].mutate(key, body)
        count += pages[i].count - before
        repair(i)
    }

    private func repair(_ i: Int) {
        let page = pages[i]
        if page.isOverfull {
            let (separator, right) = page.split(appending: i == pages.count - 1)
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
            if merged.isLeaf {
                merged.entries.append(contentsOf: right.entries)
            } else {
                merged.separators.append(separators[left + 1])
                merged.separators.append(contentsOf: right.separators.dropFirst())
                merged.pages.append(contentsOf: right.pages)
            }
            merged.count += right.count
            pages[left] = merged
            separators.remove(at: left + 1)
            pages.remove(at: left + 1)
        }
    }

    /// Moves the upper part into a new page. At the right edge the left page stays full, so keys that arrive in order fill
    /// their pages.
    func split(appending: Bool) -> (separator: Key, right: ChildPage) {
        let at = appending ? width - 1 : width / 2
        let right: ChildPage
        let separator: Key
        if isLeaf {
            right = ChildPage(entries: ContiguousArray(entries[at...]))
            separator = right.entries[0].key
            entries.removeSubrange(at...)
        } else {
            separator = separators[at]
            right = ChildPage(separators: ContiguousArray(separators[at...]), pages: ContiguousArray(pages[at...]))
            separators.removeSubrange(at...)
            pages.removeSubrange(at...)
        }
        count -= right.count
        return (separator, right)
    }

    /// Builds a tree over ascending entries. O(n)
    static func build(_ entries: ContiguousArray<Entry>) -> ChildPage {
        let fill = ChildMap.pageCapacity * 3 / 4
        var level = stride(from: 0, to: entries.count, by: fill).map { start in
            ChildPage(entries: ContiguousArray(entries[start..<min(start + fill, entries.count)]))
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
