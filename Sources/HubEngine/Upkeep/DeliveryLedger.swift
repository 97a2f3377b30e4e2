import Commits
import JSONTree
import SecurityRules

/// What a turn of the scheduler changes: deliveries, rows of devices that are gone, and counts by place.
struct DeliveryTurn {
    struct Change {
        enum Kind {
            case add(StoredDelivery)
            /// With another state.
            case keep(StoredDelivery)
            case remove
        }
        let id: Key
        let kind: Kind
    }

    private(set) var changes: [Change] = []
    var goneDevices: [Path] = []
    private(set) var counts: [Path: Int64] = [:]

    /// The dead letters that it makes.
    var deadLetters: [(id: Key, delivery: StoredDelivery)] {
        changes.compactMap { change in
            if case .keep(let delivery) = change.kind, delivery.state.dead != nil { (change.id, delivery) } else { nil }
        }
    }

    mutating func add(_ id: Key, _ delivery: StoredDelivery) { changes.append(Change(id: id, kind: .add(delivery))) }
    mutating func keep(_ id: Key, _ delivery: StoredDelivery) { changes.append(Change(id: id, kind: .keep(delivery))) }
    mutating func remove(_ id: Key) { changes.append(Change(id: id, kind: .remove)) }

    /// Adds a delivery that is a dead letter from the start.
    mutating func addDead(_ id: Key, _ delivery: StoredDelivery) {
        add(id, delivery)
        keep(id, delivery)
    }

    mutating func count(_ notice: RuleDelivery.Notice?, _ name: Key, _ number: Int64 = 1) {
        if let funnel = notice?.funnel { counts[funnel.appending(name), default: 0] += number }
    }
}

/// The number and bytes of the deliveries that are stored, in total and for each recipient, and the dead letters. A value.
struct DeliveryLedger {
    private struct Entry {
        let bytes: Int
        /// The place of the recipient's devices, or the webhook.
        let owner: String
        var isDead = false
    }

    private var entries: [Key: Entry] = [:]
    private var bytes = 0
    /// Deliveries that are no dead letters, by owner.
    private var waiting: [String: Int] = [:]
    /// Ascending.
    private(set) var deadLetters: [Key] = []
    private var deadByOwner: [String: Int] = [:]

    var count: Int { entries.count }

    /// - Returns: false if it has the delivery already.
    mutating func add(_ id: Key, _ delivery: StoredDelivery, bytes size: Int) -> Bool {
        guard entries[id] == nil else { return false }
        entries[id] = Entry(bytes: size, owner: Self.owner(of: delivery.content))
        bytes += size
        waiting[Self.owner(of: delivery.content), default: 0] += 1
        update(id, delivery)
        return true
    }

    /// Follows a delivery that has become a dead letter, or no longer is one.
    mutating func update(_ id: Key, _ delivery: StoredDelivery) {
        guard let entry = entries[id], entry.isDead != (delivery.state.dead != nil) else { return }
        entries[id]?.isDead.toggle()
        move(id, entry.owner, isDead: !entry.isDead)
    }

    mutating func remove(_ id: Key) {
        guard let entry = entries.removeValue(forKey: id) else { return }
        bytes -= entry.bytes
        if entry.isDead { move(id, entry.owner, isDead: false) }
        decrease(&waiting, entry.owner)
    }

    private mutating func move(_ id: Key, _ owner: String, isDead: Bool) {
        let at = deadLetters.partition(id)
        if isDead {
            deadLetters.insert(id, at: at)
            deadByOwner[owner, default: 0] += 1
            decrease(&waiting, owner)
        } else {
            deadLetters.remove(at: at)
            decrease(&deadByOwner, owner)
            waiting[owner, default: 0] += 1
        }
    }

    private func decrease(_ counts: inout [String: Int], _ owner: String) {
        guard let count = counts[owner] else { return }
        counts[owner] = count > 1 ? count - 1 : nil
    }

    static func owner(of delivery: RuleDelivery) -> String {
        switch delivery.content {
        case .notification(let notice): notice.devices.description
        case .event(let webhook, _, _): webhook
        }
    }

    // MARK: Bounds

    /// What may still be added.
    struct Room {
        fileprivate let limits: EngineLimits
        fileprivate var count: Int
        fileprivate var bytes: Int
        fileprivate let waiting: [String: Int]
        fileprivate var added: [String: Int] = [:]

        /// - Returns: false if the delivery exceeds a limit.
        mutating func take(_ delivery: RuleDelivery, bytes size: Int) -> Bool {
            let owner = DeliveryLedger.owner(of: delivery)
            if case .notification = delivery.content {
                guard (waiting[owner] ?? 0) + (added[owner] ?? 0) < limits.deliveriesOfRecipient else { return false }
            }
            guard count > 0, takeBytes(size) else { return false }
            count -= 1
            added[owner, default: 0] += 1
            return true
        }

        mutating func takeBytes(_ size: Int) -> Bool {
            guard size <= bytes else { return false }
            bytes -= size
            return true
        }
    }

    func room(_ limits: EngineLimits) -> Room {
        Room(limits: limits, count: limits.deliveries - entries.count, bytes: limits.deliveryBytes - bytes, waiting: waiting)
    }

    /// The dead letters that make room for new ones: the oldest of a recipient with too many, and the oldest of all.
    func deadLettersToDrop(adding new: [(id: Key, delivery: StoredDelivery)], _ limits: EngineLimits) -> [Key] {
        if new.isEmpty { return [] }
        var dropped: Set<Key> = []
        var counts: [String: Int] = [:]
        for (_, delivery) in new where delivery.notice != nil { counts[Self.owner(of: delivery.content), default: 0] += 1 }
        for (owner, count) in counts {
            let excess = (deadByOwner[owner] ?? 0) + count - limits.deadLettersOfRecipient
            if excess > 0 { dropped.formUnion(deadLetters.filter { entries[$0]?.owner == owner }.prefix(excess)) }
        }
        let excess = deadLetters.count - dropped.count + new.count - limits.deadLetters
        let oldest = excess > 0 ? Array(deadLetters.lazy.filter { !dropped.contains($0) }.prefix(excess)) : []
        return (dropped + oldest).sorted()
    }
}

extension [Key] {
    /// The index of the first key that does not precede a key, in ascending keys. O(log n)
    fileprivate func partition(_ key: Key) -> Int {
        var (low, high) = (startIndex, endIndex)
        while low < high {
            let middle = (low + high) / 2
            if self[middle] < key { low = middle + 1 } else { high = middle }
        }
        return low
    }
}
