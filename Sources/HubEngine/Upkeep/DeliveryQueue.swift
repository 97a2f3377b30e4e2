import DequeModule
import HeapModule
import JSONTree

/// Which delivery is next. A value without a clock.
///
/// ```
/// notices: their devices are not looked up yet ──► by time
/// routes: of each device, and of each node of a webhook ──► the first one of each, by time; urgent ones come first
/// ```
/// A delivery that is being sent stays the first of its route, so that no other overtakes it.
struct DeliveryQueue {
    /// The deliveries of a route that are sent together: one, or those that a mail combines.
    struct Head {
        let route: String
        let ids: [Key]
    }

    private struct Entry: Comparable {
        let due: Int64
        let id: Key
        /// Empty for a notice.
        var route = ""

        static func < (a: Entry, b: Entry) -> Bool { a.due != b.due ? a.due < b.due : a.id < b.id }
    }

    private struct Waiting {
        let id: Key
        var due: Int64
        let isUrgent: Bool
    }

    private struct Route {
        var waiting: Deque<Waiting> = []
        var isSending = false
    }

    /// An entry is out of date if its notice has another time, or its delivery is not the first of its route with this time.
    private var notices = Heap<Entry>()
    private var heads = Heap<Entry>()
    private var noticeTimes: [Key: Int64] = [:]
    private var routes: [String: Route] = [:]
    /// Notices that may be combined, by recipient and group.
    private var groups: [String: Set<Key>] = [:]
    private(set) var sendingCount = 0

    // MARK: Notices

    /// - Parameter group: the recipient and the group; nil for a notice of its own.
    mutating func addNotice(_ id: Key, due: Int64, group: String?) {
        noticeTimes[id] = due
        notices.insert(Entry(due: due, id: id))
        if let group { groups[group, default: []].insert(id) }
    }

    /// Takes the next notice that is due.
    mutating func takeNotice(by now: Int64) -> Key? {
        while let first = notices.min, first.due <= now {
            notices.removeMin()
            if noticeTimes[first.id] == first.due {
                noticeTimes[first.id] = nil
                return first.id
            }
        }
        return nil
    }

    /// Takes the notices of a group that are due by a time, ascending.
    mutating func takeGroup(_ group: String, by time: Int64) -> [Key] {
        let all = groups[group] ?? []
        let taken = all.filter { (noticeTimes[$0] ?? .min) <= time }
        for id in taken { noticeTimes[id] = nil }
        let rest = all.subtracting(taken)
        groups[group] = rest.isEmpty ? nil : rest
        return taken.sorted()
    }

    // MARK: Routes

    /// Adds a delivery behind those of its route that precede it: by the time of their first attempt, and urgent ones before all others.
    /// O(1) for the usual last one.
    mutating func add(_ id: Key, route: String, due: Int64, isUrgent: Bool) {
        let first = routes[route]?.waiting.first?.id
        var at = routes[route]?.waiting.count ?? 0
        let least = routes[route]?.isSending == true ? 1 : 0
        while at > least, let last = routes[route]?.waiting[at - 1], isUrgent ? !last.isUrgent : !last.isUrgent && last.id > id { at -= 1 }
        routes[route, default: Route()].waiting.insert(Waiting(id: id, due: due, isUrgent: isUrgent), at: at)
        if routes[route]?.waiting.first?.id != first { schedule(route) }
    }

    private mutating func schedule(_ route: String) {
        guard let next = routes[route], !next.isSending, let first = next.waiting.first else { return }
        heads.insert(Entry(due: first.due, id: first.id, route: route))
    }

    /// Takes the first delivery of a route that is due. It counts as being sent until `settle`.
    /// - Parameter isDurable: whether it may leave.
    mutating func takeHead(by now: Int64) -> Head? {
        while let first = heads.min, first.due <= now {
            heads.removeMin()
            guard let route = routes[first.route], !route.isSending, let head = route.waiting.first, head.id == first.id,
                head.due == first.due
            else { continue }
            routes[first.route]?.isSending = true
            sendingCount += 1
            return Head(route: first.route, ids: [first.id])
        }
        return nil
    }

    /// A head with the deliveries behind it that are due as well.
    func extended(_ head: Head, by now: Int64, atMost most: Int) -> Head {
        let due = routes[head.route]?.waiting.prefix(most).prefix { $0.due <= now || $0.id == head.ids[0] } ?? []
        return Head(route: head.route, ids: due.map(\.id))
    }

    /// Ends the sending of a head. Those of its deliveries that are not over are sent again at a time.
    mutating func settle(_ head: Head, over: Set<Key>, due: Int64) {
        guard routes[head.route]?.isSending == true else { return }
        sendingCount -= 1
        routes[head.route]?.isSending = false
        if head.ids.count == 1 {
            // A delivery that is being sent is the first.
            if over.isEmpty { routes[head.route]?.waiting[0].due = due } else { routes[head.route]?.waiting.removeFirst() }
        } else {
            let ids = Set(head.ids)
            let kept = (routes[head.route]?.waiting ?? []).filter { !over.contains($0.id) }
            routes[head.route]?.waiting = Deque(
                kept.map { Waiting(id: $0.id, due: ids.contains($0.id) ? due : $0.due, isUrgent: $0.isUrgent) })
        }
        if routes[head.route]?.waiting.isEmpty == true { routes[head.route] = nil } else { schedule(head.route) }
    }

    // MARK: Times

    /// When something is due next.
    /// - Parameter includesHeads: whether deliveries can be sent now.
    mutating func nextDue(includesHeads: Bool) -> Int64? {
        while let first = notices.min, noticeTimes[first.id] != first.due { notices.removeMin() }
        while let first = heads.min {
            if let route = routes[first.route], !route.isSending, let head = route.waiting.first, head.id == first.id, head.due == first.due { break }
            heads.removeMin()
        }
        return [notices.min?.due, includesHeads ? heads.min?.due : nil].compactMap { $0 }.min()
    }
}
