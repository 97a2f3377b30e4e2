import DequeModule

/// The addresses of names, and the lookups under way. A value type; callers pass the time (ms of the steady clock).
///
/// A name that was found before is used for a while, although it is being looked up again. Known names, new ones and slow ones have a
/// limited number of lookups each, so names whose servers do not answer delay only names of the same class.
struct NameCache {
    /// What is known of a name.
    enum Answer: Equatable {
        case addresses([IPAddress])
        /// The request waits for a lookup.
        case wait
        /// Too many names are being looked up.
        case full
    }

    /// Which lookups a name may use.
    enum Class: Int, CaseIterable {
        /// Its last lookup was prompt.
        case known
        /// It has no addresses.
        case new
        /// It has addresses, but its last lookup was slow or failed.
        case slow
    }

    private struct Name {
        var addresses: [IPAddress] = []
        /// When `addresses` were found; nil: never.
        var foundAt: Int64?
        /// Requests that wait, and since when, in this order.
        var waiting: Deque<(id: Int, since: Int64)> = []
        var isLookedUp = false
        /// Whether the lookup has started.
        var isRunning = false
        /// Whether the last lookup was prompt.
        var isPrompt = false
    }

    private let limits: SenderLimits
    private var names: [String: Name] = [:]
    /// Names to look up, by class.
    private var queues: [Deque<String>] = [[], [], []]
    private var running = [0, 0, 0]
    var lookups: Int { running.reduce(0, +) }
    private var purgeAt = Int64.min

    init(_ limits: SenderLimits) { self.limits = limits }

    /// The addresses for a request, or a place among those that wait for them.
    mutating func find(_ host: String, for id: Int, now: Int64) -> Answer {
        guard var name = names[host] else {
            guard hasRoom(now: now) else { return .full }
            names[host] = Name(waiting: [(id, now)], isLookedUp: true)
            queues[Class.new.rawValue].append(host)
            return .wait
        }
        defer { names[host] = name }
        let age = name.foundAt.map { now - $0 }
        if !name.isLookedUp, age ?? .max >= limits.namesFreshMs {
            name.isLookedUp = true
            queues[(age == nil ? Class.new : name.isPrompt ? .known : .slow).rawValue].append(host)
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
        let kind: Class
        /// ms of the steady clock.
        let startedAt: Int64
    }

    /// The lookups to start now.
    mutating func start(now: Int64) -> [Lookup] {
        var started: [Lookup] = []
        for kind in Class.allCases {
            let most = kind == .slow ? max(1, limits.lookupsAtOnce / 2) : limits.lookupsAtOnce
            while running[kind.rawValue] < most, let host = queues[kind.rawValue].popFirst() {
                running[kind.rawValue] += 1
                names[host]?.isRunning = true
                started.append(Lookup(host: host, kind: kind, startedAt: now))
            }
        }
        return started
    }

    /// Stores the result of a lookup; nil if it failed.
    /// - Returns: the requests that waited for it.
    mutating func finished(_ lookup: Lookup, _ addresses: [IPAddress]?, now: Int64) -> [Int] {
        running[lookup.kind.rawValue] -= 1
        guard var name = names[lookup.host] else { return [] }
        let waiting = name.waiting.map(\.id)
        (name.isLookedUp, name.isRunning) = (false, false)
        name.isPrompt = addresses != nil && now - lookup.startedAt <= limits.promptMs
        name.waiting = []
        if let addresses { (name.addresses, name.foundAt) = (addresses, now) }
        // Failures are not kept: the next request tries again.
        names[lookup.host] = name.foundAt == nil ? nil : name
        return waiting
    }

    /// Removes the requests that have waited for too long; `isRunning`: the name servers were asked. O(names)
    mutating func expired(now: Int64) -> [(id: Int, isRunning: Bool)] {
        var expired: [(id: Int, isRunning: Bool)] = []
        for host in names.keys {
            while let first = names[host]?.waiting.first, now - first.since > Int64(limits.lookupMs) {
                expired.append((first.id, names[host]?.isRunning ?? false))
                names[host]?.waiting.removeFirst()
            }
        }
        return expired
    }
}
