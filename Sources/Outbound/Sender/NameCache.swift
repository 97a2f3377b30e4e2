import DequeModule

/// The addresses of names, and the lookups under way. A value type; callers pass the time (ms of the steady clock).
///
/// A name that was found before is used for a while, although it is being looked up again, and half of the lookups are reserved for such
/// names: so names whose servers do not answer delay only other new names.
struct NameCache {
    /// What is known of a name.
    enum Answer: Equatable {
        case addresses([IPAddress])
        /// The request waits for a lookup.
        case wait
        /// Too many names are being looked up.
        case full
    }

    private struct Name {
        var addresses: [IPAddress] = []
        /// When `addresses` were found; nil: never.
        var foundAt: Int64?
        /// Requests that wait, and since when, in this order.
        var waiting: Deque<(id: Int, since: Int64)> = []
        var isLookedUp = false
    }

    private let limits: SenderLimits
    private var names: [String: Name] = [:]
    /// Names to look up: new ones, and those to refresh.
    private var new: Deque<String> = []
    private var old: Deque<String> = []
    private(set) var lookups = 0
    private var newLookups = 0
    private var purgeAt = Int64.min

    init(_ limits: SenderLimits) { self.limits = limits }

    /// The addresses for a request, or a place among those that wait for them.
    mutating func find(_ host: String, for id: Int, now: Int64) -> Answer {
        guard var name = names[host] else {
            guard hasRoom(now: now) else { return .full }
            names[host] = Name(waiting: [(id, now)], isLookedUp: true)
            new.append(host)
            return .wait
        }
        defer { names[host] = name }
        let age = name.foundAt.map { now - $0 }
        if !name.isLookedUp, age ?? .max >= limits.namesFreshMs {
            name.isLookedUp = true
            if age == nil { new.append(host) } else { old.append(host) }
        }
        if let age, age < limits.namesStaleMs { return .addresses(name.addresses) }
        name.waiting.append((id, now))
        return .wait
    }

    /// Drops the names without a lookup if there are too many.
    private mutating func hasRoom(now: Int64) -> Bool {
        guard names.count >= limits.names else { return true }
        // Not for each request, as it checks all names.
        guard now >= purgeAt else { return false }
        purgeAt = now + 1_000
        names = names.filter { $0.value.isLookedUp || !$0.value.waiting.isEmpty }
        return names.count < limits.names
    }

    /// A lookup to start.
    struct Lookup: Equatable {
        let host: String
        let isNew: Bool
    }

    /// The lookups to start now.
    mutating func start() -> [Lookup] {
        var started: [Lookup] = []
        while lookups < limits.lookupsAtOnce {
            if let host = old.popFirst() {
                started.append(Lookup(host: host, isNew: false))
            } else if newLookups < max(1, limits.lookupsAtOnce / 2), let host = new.popFirst() {
                started.append(Lookup(host: host, isNew: true))
                newLookups += 1
            } else {
                break
            }
            lookups += 1
        }
        return started
    }

    /// Stores the result of a lookup; nil if it failed.
    /// - Returns: the requests that waited for it.
    mutating func finished(_ lookup: Lookup, _ addresses: [IPAddress]?, now: Int64) -> [Int] {
        lookups -= 1
        if lookup.isNew { newLookups -= 1 }
        guard var name = names[lookup.host] else { return [] }
        let waiting = name.waiting.map(\.id)
        name.isLookedUp = false
        name.waiting = []
        if let addresses { (name.addresses, name.foundAt) = (addresses, now) }
        // Failures are not kept: the next request tries again.
        names[lookup.host] = name.foundAt == nil ? nil : name
        return waiting
    }

    /// Removes the requests that have waited for too long. O(names)
    mutating func expired(now: Int64) -> [Int] {
        var expired: [Int] = []
        for host in names.keys {
            while let first = names[host]?.waiting.first, now - first.since > Int64(limits.lookupMs) {
                expired.append(first.id)
                names[host]?.waiting.removeFirst()
            }
        }
        return expired
    }
}
