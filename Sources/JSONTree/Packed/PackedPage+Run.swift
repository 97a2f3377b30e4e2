/// Pages of a long array: the keys are consecutive, so they are computed and not stored. `[1,1,…]` takes a third of the bytes that it would
/// with keys.
///
///     run    10 size (2) index of the first child (4), members whose entries are values without keys
///
/// Only pages below an inner page can be runs, and only without slots. Changing a run converts it to a page with keys.
extension PackedPage {
    @inline(__always)
    var isRun: Bool { value.tag == PackedTag.run }

    /// The index that is the first child's key in a run.
    private var firstIndex: Int { (UnsafeRawPointer(bytes) + PackedTag.objectHead).index }

    /// The child's value at an index.
    @inline(__always)
    func value(_ i: Int) -> PackedValue { isRun ? PackedValue(members.start + members.offset(i)) : members.entry(i).value }

    /// The child's key at an index, in place.
    @inline(__always)
    func keyCursor(_ i: Int) -> TextCursor { isRun ? TextCursor(index: firstIndex + i) : TextCursor(members.entry(i).key) }

    @inline(__always)
    func key(_ i: Int) -> Key { isRun ? Key(index: firstIndex + i) : Key(members.entry(i).key) }

    /// The value of a key.
    @inline(__always)
    func value(_ probe: Key.Probe) -> PackedValue? {
        if !isRun { return members.value(probe) }
        let (i, found) = runPosition(probe)
        return found ? value(i) : nil
    }

    /// The index of a key, or its insertion index.
    @inline(__always)
    func position(_ probe: Key.Probe) -> (index: Int, found: Bool) { isRun ? runPosition(probe) : members.position(probe) }

    private func runPosition(_ probe: Key.Probe) -> (index: Int, found: Bool) {
        let count = count
        guard let number = probe.integer else { return (count, false) }
        let i = Int(number) - firstIndex
        if i < 0 || i >= count { return (i < 0 ? 0 : count, false) }
        // Other spellings of a number sort after the plain one.
        return Key.isIndex(probe.bytes) ? (i, true) : (i + 1, false)
    }

    /// Calls `body` for each child in order until it returns false; returns true if it never did.
    @inline(__always)
    func all(_ body: (TextCursor, NodeCursor) -> Bool) -> Bool {
        let own = Unmanaged.passUnretained(self)
        if !isRun { return members.all { body(TextCursor($0.key), NodeCursor($0.value, in: own)) } }
        for i in 0..<count { if !body(keyCursor(i), NodeCursor(value(i))) { return false } }
        return true
    }

    /// The number of children whose key is not an array index. O(1), or O(n) if keys are numbers.
    var named: Int {
        if isRun { return 0 }
        let members = members
        // Numbers sort first.
        if Key.integer(members.entry(0).key) == nil { return members.count }
        var named = 0
        for i in 0..<members.count where !Key.isIndex(members.entry(i).key) { named += 1 }
        return named
    }

    /// The page itself if its children have keys, otherwise a page with keys and the same children.
    var keyed: PackedPage {
        guard isRun else { return self }
        let (members, end) = (members, end)
        var bytes = end - members.offset(0)
        for i in 0..<count { Key.withBytes(ofIndex: firstIndex + i) { bytes += PackedEntry.keyBytes($0.count) } }
        var writer = PageWriter(entries: count, entryBytes: bytes, slots: 0)
        for i in 0..<count {
            let size = members.bound(i + 1, end: end) - members.offset(i)
            Key.withBytes(ofIndex: firstIndex + i) { writer.add($0, UnsafeRawBufferPointer(start: value(i).start, count: size)) }
        }
        return writer.page
    }
}

extension ObjectBuilder {
    /// Takes the first entries of the innermost object as a run; nil unless they are one. There are as many as fill a page.
    func takeRun(upTo last: Int, end: Int) -> PackedPage? {
        let base = UnsafeRawPointer(bytes.base)
        let count = last - level.firstEntry
        let first = PackedEntry(base + Int(entries[level.firstEntry])).key
        let highest = Key.integer(PackedEntry(base + Int(entries[last - 1])).key)
        // The entries are in key order, so the first and last key nearly always decide.
        guard let index = Key.integer(first).map(Int.init), let highest, index >= 0, Int(highest) - index == count - 1 else { return nil }
        var valueBytes = end - level.firstByte
        for i in 0..<count {
            let key = PackedEntry(base + Int(entries[level.firstEntry + i])).key
            guard Key.integer(key).map(Int.init) == index + i, Key.isIndex(key) else { return nil }
            valueBytes -= PackedEntry.keyBytes(key.count)
        }
        let table = 2 + 2 * count
        let size = PackedTag.runHead + table + valueBytes
        let page = PackedPage.make(byteCount: size, slotCount: 0)
        let start = page.bytes
        start.storeBytes(of: PackedTag.run, as: UInt8.self)
        start.setShort(size, at: 1)
        start.storeBytes(of: UInt32(truncatingIfNeeded: index).littleEndian, toByteOffset: PackedTag.objectHead, as: UInt32.self)
        let members = start + PackedTag.runHead
        members.setShort(count, at: 0)
        var next = table
        for i in 0..<count {
            let place = level.firstEntry + i
            let value = PackedEntry(base + Int(entries[place])).value.start
            let size = base + (place + 1 < last ? Int(entries[place + 1]) : end) - value
            members.setShort(next, at: 2 + 2 * i)
            (members + next).copyMemory(from: value, byteCount: size)
            next += size
        }
        return page
    }
}

extension UnsafeRawPointer {
    fileprivate var index: Int { Int(UInt32(littleEndian: loadUnaligned(as: UInt32.self))) }
}
