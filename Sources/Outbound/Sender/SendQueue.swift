import DequeModule

/// Decides which request is sent next. A value type; callers pass the time (ms of the steady clock).
///
///     added ─► waits behind its host's others ─► started ─► finished
///                  └── not started in time: expired
///
/// Hosts take turns within three parts. New hosts, and hosts that failed, have a limited number of places each, so endpoints that hang
/// leave the rest to services that answer, however many hosts they have. A proven host that begins to hang keeps its places until its
/// exchanges time out: at most `atOncePerHost`. After several failures in a row it is no longer proven.
struct SendQueue {
    /// A place that a started request has.
    struct Place: Equatable {
        let id: Int
        let host: String
        /// The host's part when the request started: the place is returned to it.
        let part: Part
    }

    /// Which places a host may use.
    enum Part: Int, CaseIterable {
        /// It has never answered, and not failed.
        case new
        /// It has answered promptly, and has not failed `failuresInARow` times since then.
        case proven
        /// Its last exchange was slow or failed, and it is not proven.
        case failed
    }

    private struct Host {
        var waiting: Deque<(id: Int, since: Int64)> = []
        var active = 0
        var part = Part.new
        /// Exchanges since the last prompt one.
        var failures = 0
        /// Whether the host is in a queue of `turns`.
        var hasTurn = false

        var isUnused: Bool { waiting.isEmpty && active == 0 }
    }

    private let limits: SenderLimits
    /// Those with requests, and others that are not new.
    private var hosts: [String: Host] = [:]
    /// Hosts that wait for a place, by their part.
    private var turns: [Deque<String>] = [[], [], []]
    /// The part that is next.
    private var nextTurn = Part.proven.rawValue
    private(set) var waiting = 0
    private(set) var active = 0
    private var activeOf = [0, 0, 0]
    /// Hosts without requests.
    private var kept = 0

    init(_ limits: SenderLimits) { self.limits = limits }

    /// Queues a request; false if there are too many in total, or too many wait for the host.
    mutating func add(_ id: Int, host name: String, now: Int64) -> Bool {
        guard waiting + active < limits.waiting + limits.atOnce, hosts[name]?.waiting.count ?? 0 < limits.waitingPerHost else {
            return false
        }
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
            activeOf[host.part.rawValue] += 1
            started.append(Place(id: next.id, host: name, part: host.part))
            hosts[name] = host
            queueTurn(of: name)
        }
        return started
    }

    /// A host whose request can be sent, which has no turn any more.
    private mutating func takeTurn() -> String? {
        let first = nextTurn
        // All parts again, as hosts may have moved to an earlier one.
        for kind in (0..<2 * turns.count).map({ (first + $0) % turns.count }) {
            while activeOf[kind] < most(of: kind), let name = turns[kind].popFirst() {
                hosts[name]?.hasTurn = false
                guard let host = hosts[name], !host.waiting.isEmpty, host.active < limits.atOncePerHost else { continue }
                guard host.part.rawValue == kind else {
                    queueTurn(of: name)
                    continue
                }
                nextTurn = (kind + 1) % turns.count
                return name
            }
        }
        return nil
    }

    private func most(of kind: Int) -> Int {
        switch Part(rawValue: kind) {
        case .new: limits.atOnceToNew
        case .failed: limits.atOnceToFailed
        default: limits.atOnce
        }
    }

    private mutating func queueTurn(of name: String) {
        guard var host = hosts[name], !host.hasTurn, !host.waiting.isEmpty, host.active < limits.atOncePerHost else { return }
        host.hasTurn = true
        hosts[name] = host
        turns[host.part.rawValue].append(name)
    }

    /// Returns a place.
    /// - Parameter isPrompt: whether the host has answered in time.
    mutating func finished(_ place: Place, isPrompt: Bool) {
        active -= 1
        activeOf[place.part.rawValue] -= 1
        if var host = hosts[place.host] {
            host.active -= 1
            host.failures = isPrompt ? 0 : host.failures + 1
            if isPrompt { host.part = .proven } else if host.part == .new || host.failures >= limits.failuresInARow { host.part = .failed }
            hosts[place.host] = host
        }
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

    /// Keeps a bounded number of hosts without requests: those that have answered, or failed. Failed ones are dropped first.
    private mutating func forget(_ name: String) {
        guard let host = hosts[name], host.isUnused else { return }
        guard host.part != .new else { return hosts[name] = nil }
        kept += 1
        guard kept > limits.names else { return }
        hosts = hosts.filter { !$0.value.isUnused || $0.value.part == .proven }
        kept = hosts.values.count(where: \.isUnused)
        guard kept > limits.names / 2 else { return }
        hosts = hosts.filter { !$0.value.isUnused }
        kept = 0
    }
}
