import JSONTree

/// A sorted collection of positions, in ascending or descending order.
///
///     chunks  [ a b c … | d e f … | … ]     each in order, ≤ 128 positions, all of one before all of the next
///
/// Insert, remove and search cost O(log n) comparisons and move at most one chunk.
struct SortedChunks: Sendable {
    /// The location of an element.
    struct Position: Equatable {
        var chunk: Int
        var offset: Int
    }

    private var chunks: ContiguousArray<ContiguousArray<ChildPlace>> = []
    private(set) var count = 0
    let isDescending: Bool

    private static var capacity: Int { 128 }

    init(isDescending: Bool) { self.isDescending = isDescending }

    /// - Parameter sorted: in order.
    init(_ sorted: some Sequence<ChildPlace>, isDescending: Bool) {
        self.isDescending = isDescending
        append(sorted)
    }

    @inline(__always)
    func order(_ a: ChildPlace, _ b: ChildPlace) -> Int { isDescending ? b.order(a) : a.order(b) }

    var last: ChildPlace? { chunks.last?.last }
    /// The location after the last element.
    var end: Position { Position(chunk: chunks.count, offset: 0) }

    subscript(position: Position) -> ChildPlace { chunks[position.chunk][position.offset] }

    /// The next location; `end` after the last element.
    func after(_ position: Position) -> Position {
        if position.offset + 1 < chunks[position.chunk].count { return Position(chunk: position.chunk, offset: position.offset + 1) }
        return Position(chunk: position.chunk + 1, offset: 0)
    }

    /// The previous location; nil at the start.
    func before(_ position: Position) -> Position? {
        if position.offset > 0 { return Position(chunk: position.chunk, offset: position.offset - 1) }
        return position.chunk > 0 ? Position(chunk: position.chunk - 1, offset: chunks[position.chunk - 1].count - 1) : nil
    }

    /// The location of the first element that is not before the given one. O(log n)
    func position(of place: ChildPlace) -> Position { position { order($0, place) >= 0 } }

    /// The location of the first element that is after the given one. O(log n)
    func position(behind place: ChildPlace) -> Position { position { order($0, place) > 0 } }

    /// The first location where `condition` holds. It must hold for all later elements too.
    @inline(__always)
    private func position(_ condition: (ChildPlace) -> Bool) -> Position {
        var (low, high) = (0, chunks.count)
        while low < high {
            let middle = (low + high) / 2
            if condition(chunks[middle][chunks[middle].count - 1]) { high = middle } else { low = middle + 1 }
        }
        guard low < chunks.count else { return end }
        let chunk = low
        (low, high) = (0, chunks[chunk].count - 1)
        while low < high {
            let middle = (low + high) / 2
            if condition(chunks[chunk][middle]) { high = middle } else { low = middle + 1 }
        }
        return Position(chunk: chunk, offset: low)
    }

    /// The location at an index; `end` beyond the last element. O(chunks)
    func position(at index: Int) -> Position {
        var left = index
        for i in chunks.indices {
            if left < chunks[i].count { return Position(chunk: i, offset: left) }
            left -= chunks[i].count
        }
        return end
    }

    /// Precondition: the element is missing.
    mutating func insert(_ place: ChildPlace) {
        count += 1
        guard !chunks.isEmpty else { return chunks.append([place]) }
        var at = position(of: place)
        if at.chunk == chunks.count { at = Position(chunk: chunks.count - 1, offset: chunks[chunks.count - 1].count) }
        chunks[at.chunk].insert(place, at: at.offset)
        let full = chunks[at.chunk].count
        guard full > Self.capacity else { return }
        // At the right edge the left chunk stays full, so that elements arriving in order fill their chunks.
        let cut = at.chunk == chunks.count - 1 && at.offset == full - 1 ? full - 1 : full / 2
        chunks.insert(ContiguousArray(chunks[at.chunk][cut...]), at: at.chunk + 1)
        chunks[at.chunk].removeSubrange(cut...)
    }

    /// Appends elements that are in order and after all others.
    mutating func append(_ sorted: some Sequence<ChildPlace>) {
        for place in sorted {
            if chunks.isEmpty || chunks[chunks.count - 1].count >= Self.capacity { chunks.append([]) }
            chunks[chunks.count - 1].append(place)
            count += 1
        }
    }

    /// - Returns: false if it was missing.
    @discardableResult
    mutating func remove(_ place: ChildPlace) -> Bool {
        let at = position(of: place)
        guard at != end, order(self[at], place) == 0 else { return false }
        count -= 1
        chunks[at.chunk].remove(at: at.offset)
        if chunks[at.chunk].isEmpty { chunks.remove(at: at.chunk) }
        return true
    }

    /// Replaces an element in place, if its neighbours stay before and after it.
    /// - Returns: false, with nothing changed, if it has to move.
    mutating func replace(_ old: ChildPlace, with new: ChildPlace) -> Bool {
        let at = position(of: old)
        guard at != end, order(self[at], old) == 0 else { return false }
        if let previous = before(at), order(self[previous], new) >= 0 { return false }
        let next = after(at)
        if next != end, order(new, self[next]) >= 0 { return false }
        chunks[at.chunk][at.offset] = new
        return true
    }

    /// Keeps only the elements before an index.
    mutating func removeAll(from index: Int) {
        let at = position(at: index)
        guard at != end else { return }
        chunks[at.chunk].removeSubrange(at.offset...)
        chunks.removeSubrange((at.chunk + 1)...)
        if chunks[at.chunk].isEmpty { chunks.removeLast() }
        count = index
    }

    /// Calls `body` in order until it returns false.
    func forEach(_ body: (ChildPlace) -> Bool) {
        for chunk in chunks { for place in chunk where !body(place) { return } }
    }
}
