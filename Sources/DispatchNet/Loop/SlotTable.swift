/// The owner of a descriptor that is registered with a loop's poller.
enum Occupant {
    case connection(Connection)
    case listener(Listener)
    case connector(Connector)
}

/// Finds the owner of an event. The tag given to the kernel is a slot number with the slot's generation above it;
/// freeing a slot raises the generation, so an event that was fetched in the same batch as the end of its connection
/// finds no owner, even if the slot or the descriptor number is already reused. The poller's own tags have no slot.
struct SlotTable {
    private struct Slot {
        var generation: UInt32 = 0
        var occupant: Occupant?
    }

    private var slots: ContiguousArray<Slot> = []
    private var freeSlots: [UInt32] = []

    var occupied: Int { slots.count - freeSlots.count }

    var occupants: [Occupant] { slots.compactMap(\.occupant) }

    /// The tag for the next occupant; follow with `occupy`.
    mutating func reserve() -> UInt64 {
        let index: UInt32
        if let free = freeSlots.popLast() {
            index = free
        } else {
            index = UInt32(slots.count)
            slots.append(Slot())
        }
        return UInt64(slots[Int(index)].generation) << 32 | UInt64(index)
    }

    mutating func occupy(_ tag: UInt64, _ occupant: Occupant) {
        slots[Self.index(tag)].occupant = occupant
    }

    mutating func free(_ tag: UInt64) {
        let index = Self.index(tag)
        slots[index].occupant = nil
        slots[index].generation &+= 1
        freeSlots.append(UInt32(index))
    }

    subscript(tag: UInt64) -> Occupant? {
        let index = Self.index(tag)
        guard index < slots.count, slots[index].generation == UInt32(truncatingIfNeeded: tag >> 32) else { return nil }
        return slots[index].occupant
    }

    private static func index(_ tag: UInt64) -> Int { Int(tag & 0xffff_ffff) }
}
