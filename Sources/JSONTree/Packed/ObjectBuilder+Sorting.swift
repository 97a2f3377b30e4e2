/// Sorts members that arrived out of key order.
extension ObjectBuilder {
    /// An entry of the innermost object during sorting. Kept to two words, as sorting moves each several times.
    private struct Place {
        /// The first eight bytes of the key as a number, for keys that this number orders; otherwise 0.
        let prefix: UInt64
        /// The entry's offset (32 bits), size (16) and slot (16).
        private let place: UInt64

        /// - Parameters:
        ///   - size: below 2^16, as page offsets have two bytes.
        ///   - slot: the index of its slot among those of the object; -1 without one.
        @inline(__always)
        init(prefix: UInt64, start: UInt32, size: UInt16, slot: Int16) {
            self.prefix = prefix
            place = UInt64(start) | UInt64(size) &<< 32 | UInt64(UInt16(bitPattern: slot)) &<< 48
        }

        var start: Int { Int(UInt32(truncatingIfNeeded: place)) }
        var size: Int { Int(UInt16(truncatingIfNeeded: place &>> 32)) }
        var slot: Int { Int(Int16(truncatingIfNeeded: place &>> 48)) }

        /// Negative, zero or positive if its key comes before, equals, or comes after the other's.
        @inline(__always)
        func order(_ other: Place, _ base: UnsafeRawPointer) -> Int {
            if prefix != other.prefix, prefix != 0, other.prefix != 0 { return prefix < other.prefix ? -1 : 1 }
            return orderOfKeys(other, base)
        }

        @inline(never)
        private func orderOfKeys(_ other: Place, _ base: UnsafeRawPointer) -> Int {
            Key.order(PackedEntry(base + start).key, PackedEntry(base + other.start).key)
        }
    }

    /// Covers keys that begin with an ASCII byte above the digits: no integers, and no bytes whose UTF-16 order differs. Reads eight bytes.
    @inline(__always)
    private static func prefix(_ key: UnsafeBufferPointer<UInt8>) -> UInt64 {
        guard let start = UnsafeRawPointer(key.baseAddress), key.count > 0, start.byte() > UInt8(ascii: "9") else { return 0 }
        var word = UInt64(bigEndian: start.loadUnaligned(as: UInt64.self))
        if key.count < 8 { word &= ~(.max &>> UInt64(truncatingIfNeeded: 8 &* key.count)) }
        return word & 0x8080_8080_8080_8080 == 0 ? word : 0
    }

    /// Sorts the entries of the innermost object by key. Keeps the last of equal names, and drops removed ones.
    mutating func sort() {
        let count = entries.count - level.firstEntry
        let size = bytes.count - level.firstByte
        // Sorted copies are written behind the entries, then moved into place. `prefix` may read past the end of a key.
        bytes.reserve(size + 8)
        level.isAscending = true
        if count == 0 { return }
        withUnsafeTemporaryAllocation(of: Place.self, capacity: count) { places in
            fill(places)
            arrange(places)
        }
    }

    private func fill(_ places: UnsafeMutableBufferPointer<Place>) {
        guard let first = places.baseAddress else { return }
        let (base, count) = (UnsafeRawPointer(bytes.base), places.count)
        let hasSlots = slots.count > level.firstSlot
        var slot: Int16 = 0
        entries.withUnsafeBufferPointer { entries in
            for i in 0..<count {
                let start = entries[level.firstEntry &+ i]
                let end = i &+ 1 < count ? entries[level.firstEntry &+ i &+ 1] : UInt32(truncatingIfNeeded: bytes.count)
                let entry = PackedEntry(base + Int(start))
                let isSlot = hasSlots && PackedPage.isSlot(entry.value.tag)
                let size = UInt16(truncatingIfNeeded: end &- start)
                (first + i).initialize(to: Place(prefix: Self.prefix(entry.key), start: start, size: size, slot: isSlot ? slot : -1))
                if isSlot { slot += 1 }
            }
        }
        if count > 24 {
            var places = places
            places.sort { a, b in
                let order = a.order(b, base)
                return order != 0 ? order < 0 : a.start < b.start
            }
            return
        }
        for i in 1..<max(1, count) {
            let place = first[i]
            var j = i
            while j > 0, first[j &- 1].order(place, base) > 0 {
                first[j] = first[j &- 1]
                j &-= 1
            }
            first[j] = place
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
                let size = place.size
                target.copyFew(entry.start, size)
                entries[written] = UInt32(truncatingIfNeeded: next)
                written &+= 1
                target += size
                next &+= size
            }
            if place.slot >= 0 {
                let slot = slots[level.firstSlot + place.slot]
                if isKept { kept.append(slot) } else { slot.release() }
            }
        }
        (bytes.base + level.firstByte).copyMemory(from: bytes.base + bytes.count, byteCount: next - level.firstByte)
        bytes.count = next
        entries.removeLast(entries.count - written)
        if slots.count > level.firstSlot { slots.replaceSubrange(level.firstSlot..., with: kept) }
    }
}
