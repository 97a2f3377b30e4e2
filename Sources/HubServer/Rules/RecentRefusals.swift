import HubEngine
import JSONTree
import SecurityRules
import Synchronization

/// The latest requests that the rules refused, for administrators (`GET /.settings/refusals.json`): the operation, the place and the
/// client. Data is not kept, neither written values nor the values that rules compared; `POST /.settings/explain` evaluates a request
/// again.
///
/// Each namespace has its own list and counts, so refusals in one never displace those of another. A refusal costs a lock. A limited number
/// per second also cost a few short strings. No rule is evaluated again.
final class RecentRefusals: Sendable {
    /// Places of one update that are kept; further ones are counted.
    static let places = 3
    /// Bytes of a place that are kept.
    static let pathBytes = 1_000
    /// Characters of an account's id and of its provider that are kept.
    static let nameCharacters = 128

    private struct Entry {
        /// Number of the refusal in its namespace since the start, from 1. Gaps are refusals that were not kept.
        let number: Int
        /// ms since the epoch.
        let at: Int64
        let request: RuledRequest
        let paths: [String]
        /// Places that are not in `paths`.
        let morePaths: Int
        let query: QueryVariables?
        /// Whether the request asked only for the number of children.
        let isCount: Bool
        /// Nil for signed-out clients.
        let uid: String?
        let provider: String?
    }

    /// The refusals of one namespace.
    private final class Ring: Sendable {
        let state = Mutex(State())
    }

    private struct State {
        var second: Int64 = 0
        var keptInSecond = 0
        var number = 0
        /// Numbers already assigned whose entries another thread has yet to add.
        var expected: [Int] = []
        /// A ring; `next` is its oldest entry once it is full.
        var entries: [Entry] = []
        var next = 0
    }

    private let most: Int
    private let perSecond: Int
    private let rings = Mutex<[String: Ring]>([:])

    /// Forgets the refusals of a removed database.
    func forget(_ namespace: String) { rings.withLock { $0[namespace] = nil } }

    /// - Parameters:
    ///   - most: entries kept for each namespace; the oldest are dropped first.
    ///   - perSecond: entries kept for each namespace in one second; further ones are only counted.
    init(most: Int, perSecond: Int) {
        self.most = most
        self.perSecond = perSecond
    }

    private func ring(_ namespace: String) -> Ring {
        rings.withLock { rings in
            if let ring = rings[namespace] { return ring }
            let ring = Ring()
            rings[namespace] = ring
            return ring
        }
    }

    /// The listener of a namespace's refusals, which also forwards them to another listener.
    func listener(_ namespace: String, beside other: (any RefusalListener)?) -> any RefusalListener {
        Listener(refusals: self, ring: ring(namespace), other: other)
    }

    private final class Listener: RefusalListener {
        private let refusals: RecentRefusals
        private let ring: Ring
        private let other: (any RefusalListener)?
        /// Which listeners want the next refusal: bit 0 this one, bit 1 the other one. Used on the database queue only.
        private let wanted = Atomic<UInt8>(0)
        private let number = Atomic<Int>(0)

        init(refusals: RecentRefusals, ring: Ring, other: (any RefusalListener)?) {
            (self.refusals, self.ring, self.other) = (refusals, ring, other)
        }

        func wantsRefusal(now: Int64) -> Bool {
            let number = refusals.admit(to: ring, now: now)
            self.number.store(number ?? 0, ordering: .relaxed)
            let bits: UInt8 = (number == nil ? 0 : 1) | (other?.wantsRefusal(now: now) == true ? 2 : 0)
            wanted.store(bits, ordering: .relaxed)
            return bits != 0
        }

        func refused(_ request: RuledRequest, _ question: RuleQuestion) {
            let bits = wanted.load(ordering: .relaxed)
            if bits & 1 != 0 {
                switch question.operation {
                case .read(let path, let query):
                    refusals.keep(number.load(ordering: .relaxed), request, [path], query, question.auth, ring, now: question.now)
                case .count(let path, let query):
                    refusals.keep(
                        number.load(ordering: .relaxed), request, [path], query, question.auth, ring, now: question.now, isCount: true)
                case .write(let paths):
                    refusals.keep(number.load(ordering: .relaxed), request, paths, nil, question.auth, ring, now: question.now)
                }
            }
            if bits & 2 != 0 { other?.refused(request, question) }
        }
    }

    /// Keeps a write that was refused before its content was read. From any thread.
    func refusedUnread(_ path: Path, _ auth: Node, _ namespace: String, now: Int64) {
        let ring = ring(namespace)
        guard let number = admit(to: ring, now: now) else { return }
        keep(number, .write, [path], nil, auth, ring, now: now)
    }

    /// Counts a refusal.
    /// - Returns: its number if it is to be kept; then `keep` must follow.
    private func admit(to ring: Ring, now: Int64) -> Int? {
        ring.state.withLock { state in
            state.number += 1
            if now / 1000 != state.second { (state.second, state.keptInSecond) = (now / 1000, 0) }
            guard most > 0, state.keptInSecond < perSecond else { return nil }
            state.keptInSecond += 1
            state.expected.append(state.number)
            return state.number
        }
    }

    private func keep(
        _ number: Int, _ request: RuledRequest, _ paths: [Path], _ query: QueryVariables?, _ auth: Node, _ ring: Ring, now: Int64,
        isCount: Bool = false
    ) {
        let entry = Entry(
            number: number, at: now, request: request,
            paths: paths.prefix(Self.places).map { Self.cut($0.description, to: Self.pathBytes) },
            morePaths: max(0, paths.count - Self.places), query: query, isCount: isCount,
            uid: Self.text(auth.child("uid")),
            provider: Self.text(auth.child("provider")))
        ring.state.withLock { state in
            state.expected.removeAll { $0 == number }
            if state.entries.count < most { return state.entries.append(entry) }
            state.entries[state.next] = entry
            state.next = (state.next + 1) % most
        }
    }

    /// `{"latest":812,"refusals":[…]}`, oldest first: a namespace's refusals with higher numbers than `after`. `latest` counts all refusals
    /// since the start, up to the first whose entry is still missing. A client that next asks for those after `latest` therefore misses
    /// none.
    func json(of namespace: String, after: Int) -> [UInt8] {
        let (latest, entries) = ring(namespace).state.withLock { state in
            ((state.expected.min() ?? state.number + 1) - 1, state.entries)
        }
        // Two threads may have added their entries in the wrong order.
        let shown = entries.filter { $0.number > after && $0.number <= latest }.sorted { $0.number < $1.number }
        let answer: JSONValue = ["latest": .int(Int64(latest)), "refusals": .array(shown.map(Self.json))]
        return answer.line
    }

    private static func json(_ entry: Entry) -> JSONValue {
        var members: [JSONValue.Member] = [
            .init("number", .int(Int64(entry.number))), .init("at", .int(entry.at)), .init("operation", .string(entry.request.rawValue)),
            .init("paths", .array(entry.paths.map(JSONValue.string))), .init("morePaths", .int(Int64(entry.morePaths))),
            .init("uid", entry.uid.map(JSONValue.string) ?? .null), .init("provider", entry.provider.map(JSONValue.string) ?? .null),
        ]
        if entry.isCount { members.add("count", true) }
        if let query = entry.query { add(query, to: &members) }
        return .object(members)
    }

    /// Adds the order, radius and limits in the format of `vigla rules test` cases, and the paths of conditions. Bounds and the values that
    /// conditions compare with are data, so they are not shown.
    private static func add(_ query: QueryVariables, to members: inout [JSONValue.Member]) {
        if query.orderByKey { members.add("orderByKey", true) }
        if query.orderByValue { members.add("orderByValue", true) }
        if query.orderByPriority { members.add("orderByPriority", true) }
        members.add("orderByChild", query.orderByChild.map { cut($0, to: pathBytes) })
        for (name, limit) in [("limitToFirst", query.limitToFirst), ("limitToLast", query.limitToLast), ("limit", query.nearest)] {
            members.add(name, limit.map { .int(Int64($0)) })
        }
        if query.near { members.add("near", true) }
        members.add("within", query.within)
        members.add("radius", query.radius.map { radius in Int64(exactly: radius).map(JSONValue.int) ?? .double(radius) })
        guard !query.conditions.isEmpty else { return }
        members.add("where", .array(query.conditions.keys.sorted().prefix(places).map { .string(cut($0.relativeText, to: pathBytes)) }))
    }

    private static func text(_ node: Node) -> String? {
        guard case .string(let text) = node else { return nil }
        return String(text.string.unicodeScalars.prefix(nameCharacters))
    }

    private static func cut(_ text: String, to bytes: Int) -> String {
        guard text.utf8.count > bytes else { return text }
        return String(decoding: text.utf8.prefix(bytes), as: UTF8.self) + "…"
    }
}
