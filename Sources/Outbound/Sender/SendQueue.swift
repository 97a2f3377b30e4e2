import DequeModule

/// Decides which request is sent next. A value type; callers pass the time (ms of the steady clock).
///
///     added ─► waits behind its host's others ─► started ─► finished
///                  └── not started in time: expired
///
/// Hosts take turns. A host is proven while its last exchange was prompt; all others together have only a part of the places, so endpoints
/// that hang cannot keep the places of services that answer, however many hosts they have.
struct SendQueue {
    /// A place that a started request has.
    struct Place: Equatable {
        let id: Int
        let host: String
        /// Whether the host was proven when it started: the place is returned to the same part.
        let isProven: Bool
    }

    private struct Host {
        var waiting: Deque<(id: Int, since: Int64)> = []
        var active = 0
        var isProven = false
        /// Whether the host is in a queue of `turns`.
        var hasTurn = false

        var isUnused: Bool { waiting.isEmpty && active == 0 }
    }

    private let limits: SenderLimits
    /// Those with requests, and proven ones.
    private var hosts: [String: Host] = [:]
    /// Hosts that wait for a place: unproven ones, proven ones.
    private var turns: [Deque<String>] = [[], []]
    /// Which of the two is next.
    private var nextTurn = 1
    private(set) var waiting = 0
    private(set) var active = 0
    private var activeUnproven = 0
    /// Proven hosts without requests.
    private var kept = 0

    init(_ limits: SenderLimits) { self.limits = limits }

    /// Queues a request; false if too many wait, in total or for the host.
    mutating func add(_ id: Int, host name: String, now: Int64) -> Bool {
        guard waiting < limits.waiting, hosts[name]?.waiting.count ?? 0 < limits.waitingPerHost else { return false }
        if let host = hosts[name], host.isUnused { kept -= 1 }
        hosts[name, default: Host()].waiting.append((id, now))
        waiting += 1
        queueTurn(of: name)
        return true
    }

    /// The requests to send now. O(hosts in the queues that have nothing to send, and the result)
    mutating func start() -> [Place] {
        var started: [Place] = []
        while active < limits.atOnce, let name = takeTurn(), var host = hosts[name], let next = host.waiting.popFirst() {
            waiting -= 1
            active += 1
            host.active += 1
            if !host.isProven { activeUnproven += 1 }
            started.append(Place(id: next.id, host: name, isProven: host.isProven))
            hosts[name] = host
            queueTurn(of: name)
        }
        return started
    }

    /// A host whose request can be sent, which has no turn any more.
    private mutating func takeTurn() -> String? {
        let first = nextTurn
        nextTurn = 1 - first
        // The first queue again, as hosts may have moved to it from the second.
        for kind in [first, 1 - first, first] {
            while kind == 1 || activeUnproven < limits.atOnceToUnproven, let name = turns[kind].popFirst() {
                hosts[name]?.hasTurn = false
                guard let host = hosts[name], !host.waiting.isEmpty, host.active < limits.atOncePerHost else { continue }
                guard host.isProven == (kind == 1) else {
                    queueTurn(of: name)
                    continue
                }
                return name
            }
        }
        return nil
    }

    private mutating func queueTurn(of name: String) {
        guard var host = hosts[name], !host.hasTurn, !host.waiting.isEmpty, host.active < limits.atOncePerHost else { return }
        host.hasTurn = true
        hosts[name] = host
        turns[host.isProven ? 1 : 0].append(name)
    }

    /// Returns a place.
    /// - Parameter isPrompt: whether the host has answered in time.
    mutating func finished(_ place: Place, isPrompt: Bool) {
        active -= 1
        if !place.isProven { activeUnproven -= 1 }
        hosts[place.host]?.active -= 1
        hosts[place.host]?.isProven = isPrompt
        queueTurn(of: place.host)
        forget(place.host)
    }

    /// Removes the requests that have waited for too long. O(hosts)
    mutating func expired(now: Int64) -> [Int] {
        var expired: [Int] = []
        for name in hosts.keys.filter({ hosts[$0]?.waiting.first.map { now - $0.since > limits.waitMs } ?? false }) {
            while let first = hosts[name]?.waiting.first, now - first.since > limits.waitMs {
                expired.append(first.id)
                hosts[name]?.waiting.removeFirst()
                waiting -= 1
            }
            forget(name)
        }
        return expired
    }

    /// Keeps a host that has no requests any more only if it is proven, and a bounded number of them.
    private mutating func forget(_ name: String) {
        guard let host = hosts[name], host.isUnused else { return }
        guard host.isProven else { return hosts[name] = nil }
        kept += 1
        guard kept > limits.names else { return }
        hosts = hosts.filter { !$0.value.isUnused }
        kept = 0
    }
}
