/// Members that came in another order than that of their keys.
extension ObjectBuilder {
    /// An entry of the innermost object while they are sorted.
    private struct Place {
        let start: Int
        let end: Int
        /// The index of what lies in its slot; -1 without one.
        let slot: Int
    }

    /// Brings the entries of the innermost object into key order; of one name the last stays, and removed ones go.
    mutating func sort() {
        let count = entries.count - level.firstEntry
        let size = bytes.count - level.firstByte
        // Sorted behind the entries, and moved to their place.
        bytes.reserve(size)
        level.isAscending = true
        if count == 0 { return }
        withUnsafeTemporaryAllocation(of: Place.self, capacity: count) { places in
            fill(places)
            arrange(places)
        }
    }

    private func fill(_ places: UnsafeMutableBufferPointer<Place>) {
        let base = UnsafeRawPointer(bytes.base)
        let hasSlots = slots.count > level.firstSlot
        var slot = level.firstSlot
        for i in 0..<places.count {
            let start = Int(entries[level.firstEntry + i])
            let end = i + 1 < places.count ? Int(entries[level.firstEntry + i + 1]) : bytes.count
            let isSlot = hasSlots && PackedPage.isSlot(PackedEntry(base + start).value.tag)
            (places.baseAddress.unsafelyUnwrapped + i).initialize(to: Place(start: start, end: end, slot: isSlot ? slot : -1))
            if isSlot { slot += 1 }
        }
        if places.count > 24 {
            var places = places
            places.sort { a, b in
                let order = Key.order(PackedEntry(base + a.start).key, PackedEntry(base + b.start).key)
                return order != 0 ? order < 0 : a.start < b.start
            }
            return
        }
        for i in 1..<max(1, places.count) {
            let place = places[i]
            let key = PackedEntry(base + place.start).key
            var j = i
            while j > 0, Key.order(PackedEntry(base + places[j &- 1].start).key, key) > 0 {
                places[j] = places[j &- 1]
                j &-= 1
            }
            places[j] = place
        }
    }

    /// Writes the entries in the order of `places`.
    private mutating func arrange(_ places: UnsafeMutableBufferPointer<Place>) {
        let base = UnsafeRawPointer(bytes.base)
        var target = bytes.base + bytes.count
        var kept = ContiguousArray<Unmanaged<AnyObject>>()
        var written = level.firstEntry
        var next = level.firstByte
        for i in 0..<places.count {
            let place = places[i]
            let entry = PackedEntry(base + place.start)
            let isLast = i + 1 == places.count || Key.order(entry.key, PackedEntry(base + places[i + 1].start).key) != 0
            let isKept = isLast && entry.value.tag != PackedTag.removed
            if isKept {
                let size = place.end - place.start
                target.copyMemory(from: entry.start, byteCount: size)
                entries[written] = UInt32(truncatingIfNeeded: next)
                written &+= 1
                target += size
                next &+= size
            }
            if place.slot >= 0 { if isKept { kept.append(slots[place.slot]) } else { slots[place.slot].release() } }
        }
        (bytes.base + level.firstByte).copyMemory(from: bytes.base + bytes.count, byteCount: next - level.firstByte)
        bytes.count = next
        entries.removeLast(entries.count - written)
        if slots.count > level.firstSlot { slots.replaceSubrange(level.firstSlot..., with: kept) }
    }
}
