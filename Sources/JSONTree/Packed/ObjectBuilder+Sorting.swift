/// Members that came in another order than that of their keys.
extension ObjectBuilder {
    /// An entry of the innermost object while they are sorted.
    private struct Place {
        let start: Int
        let end: Int
        /// The index of what lies in its slot; -1 without one.
        let slot: Int
        /// The first eight bytes of the key as a number, for keys whose order is that of these; else 0.
        let prefix: UInt64

        /// Negative, zero or positive as its key comes before, is, or comes after the other's.
        @inline(__always)
        func order(_ other: Place, _ base: UnsafeRawPointer) -> Int {
            if prefix != other.prefix, prefix != 0, other.prefix != 0 { return prefix < other.prefix ? -1 : 1 }
            return Key.order(PackedEntry(base + start).key, PackedEntry(base + other.start).key)
        }
    }

    /// Letters, and what else of ASCII comes behind the digits: neither integers nor bytes that order otherwise. Reads eight bytes.
    @inline(__always)
    private static func prefix(_ key: UnsafeBufferPointer<UInt8>) -> UInt64 {
        guard let start = UnsafeRawPointer(key.baseAddress), key.count > 0, start.byte() > UInt8(ascii: "9") else { return 0 }
        var word = UInt64(bigEndian: start.loadUnaligned(as: UInt64.self))
        if key.count < 8 { word &= ~(.max &>> UInt64(truncatingIfNeeded: 8 &* key.count)) }
        return word & 0x8080_8080_8080_8080 == 0 ? word : 0
    }

    /// Brings the entries of the innermost object into key order; of one name the last stays, and removed ones go.
    mutating func sort() {
        let count = entries.count - level.firstEntry
        let size = bytes.count - level.firstByte
        // Sorted behind the entries, and moved to their place; `prefix` reads on behind a key.
        bytes.reserve(size + 8)
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
            let entry = PackedEntry(base + start)
            let isSlot = hasSlots && PackedPage.isSlot(entry.value.tag)
            (places.baseAddress.unsafelyUnwrapped + i).initialize(
                to: Place(start: start, end: end, slot: isSlot ? slot : -1, prefix: Self.prefix(entry.key)))
            if isSlot { slot += 1 }
        }
        if places.count > 24 {
            var places = places
            places.sort { a, b in
                let order = a.order(b, base)
                return order != 0 ? order < 0 : a.start < b.start
            }
            return
        }
        for i in 1..<max(1, places.count) {
            let place = places[i]
            var j = i
            while j > 0, places[j &- 1].order(place, base) > 0 {
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
            let isLast = i + 1 == places.count || place.order(places[i + 1], base) != 0
            let isKept = isLast && entry.value.tag != PackedTag.removed
            if isKept {
                let size = place.end - place.start
                target.copyFew(entry.start, size)
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
