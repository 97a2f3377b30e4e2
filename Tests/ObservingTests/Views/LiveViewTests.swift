import Commits
import JSONTree
import Observing
import Testing
import TestSupport

/// Live views and the changes that they send, compared with a selection computed from scratch for each commit.
@Suite(.timeLimit(.minutes(30))) struct LiveViewTests {
    /// The children that a query shows, found by filtering and sorting all of them.
    private static func shown(_ query: TreeQuery?, of node: Node) -> [Key] {
        guard let query else { return node.children.map(\.key) }
        let all = node.children.map { query.orderedBy.place($0.key, $0.node) }
        let range = all.filter { query.admits($0) }.sorted { $0.order($1) < 0 }.map(\.key)
        guard let limit = query.limit else { return range }
        return query.keeps == .first ? Array(range.prefix(limit)) : Array(range.suffix(limit))
    }

    private static func value(_ query: TreeQuery?, of node: Node) -> Node {
        if query == nil { return node }
        return .object(shown(query, of: node).map { ($0, node.child($0)) })
    }

    /// The events that lead from one list of children to another: removed, placed, changed. The last two are in the order of the list.
    private static func events(
        _ before: [Key], _ after: [Key], _ old: Node, _ new: Node, by ordering: TreeQuery.Index = .key
    ) -> [[ChildEvent]] {
        func previous(_ key: Key) -> Key? { after.firstIndex(of: key).flatMap { $0 > 0 ? after[$0 - 1] : nil } }
        func value(_ key: Key, _ node: Node) -> Node { ordering.place(key, node.child(key)).value }
        let changed = after.filter { before.contains($0) && old.child($0) != new.child($0) }
        let placed = after.compactMap { key -> ChildEvent? in
            if !before.contains(key) { return ChildEvent(kind: .added, key: key, value: new.child(key), previous: previous(key)) }
            guard value(key, old).valueOrder(value(key, new)) != 0 else { return nil }
            return ChildEvent(kind: .moved, key: key, value: .null, previous: previous(key))
        }
        let removed = before.filter { !after.contains($0) }.map { ChildEvent(kind: .removed, key: $0, value: old.child($0), previous: nil) }
        return [
            removed.sorted { $0.key < $1.key }, placed,
            changed.map { ChildEvent(kind: .changed, key: $0, value: new.child($0), previous: previous($0)) },
        ]
    }

    private static let wanted: ObservedParts = [.patches, .events, .value]

    /// Splits events into the same three parts.
    private static func parts(_ events: [ChildEvent]) -> [[ChildEvent]] {
        [
            events.filter { $0.kind == .removed }.sorted { $0.key < $1.key }, events.filter { $0.kind == .added || $0.kind == .moved },
            events.filter { $0.kind == .changed },
        ]
    }

    /// Applies events to a list, as a client does that knows nothing else.
    private static func replay(_ list: [Key], _ events: [ChildEvent]) throws -> [Key] {
        var list = list
        for event in events {
            if event.kind != .added { try #require(list.contains(event.key), "\(event)") }
            if event.kind == .changed { continue }
            list.removeAll { $0 == event.key }
            if event.kind == .removed { continue }
            let before = try event.previous.map { try #require(list.firstIndex(of: $0), "\(event)") + 1 } ?? 0
            list.insert(event.key, at: before)
        }
        return list
    }

    private static let queries: [TreeQuery?] = [
        nil,
        TreeQuery(index: .key, limit: 3, viewFrom: .first),
        TreeQuery(index: .key, start: .init(value: "k3"), end: .init(value: "k7", inclusive: false)),
        TreeQuery(index: .value, limit: 4, viewFrom: .last),
        TreeQuery(index: .value, start: .init(value: 2), limit: 2, viewFrom: .last),
        TreeQuery(index: .child("v"), limit: 1, viewFrom: .first),
        TreeQuery(index: .child("v"), start: .init(value: 2), end: .init(value: 2)),
        TreeQuery(index: .child("v"), start: .init(value: 1), end: .init(value: 2, key: "k5"), limit: 3, viewFrom: .first),
        TreeQuery(index: .priority, start: .init(value: 1)),
        TreeQuery(index: .priority, limit: 5),
    ]

    /// One place with a view of each query, the indexes they need, and commits that are applied in the same way as by the publisher.
    private struct Place {
        let trie = PlaceTrie()
        let place: TrieNode
        var views: [View] = []
        var root: Node

        init(_ node: Node) {
            root = ["q": node]
            place = trie.place(at: "q")
            for query in LiveViewTests.queries {
                if let query, query.orderedBy != .key, place.existingIndex(query.orderedBy) == nil {
                    let kept = ChildIndex("q", query.orderedBy, isDeclared: true, over: node)
                    kept.index = OrderedIndex(query.orderedBy, of: node)
                    place.add(kept)
                }
                let view = place.view(query, lanes: 1, window: query.flatMap { query in
                    place.children(of: node, by: query.orderedBy).map { QueryWindow(query, over: $0) }
                })
                view.add(.make(), style: .events(id: 1, kinds: .children))
                views.append(view)
            }
        }

        /// The writes as the publisher passes them to the views; nil if nothing has changed.
        private mutating func change(_ writes: [TreeWrite]) throws -> Change? {
            let old = root
            root = try Candidate(writes, on: root, now: 0).tree
            let paths = writes.map(\.path).filter { old.node(at: $0) != root.node(at: $0) }.outermost
            var found: Change?
            trie.visit(touchedBy: paths, old: old, new: root) { _, below, before, after in
                found = Change(at: "q", from: before, to: after, by: paths, below: below)
            }
            return found
        }

        /// Applies writes below the place by the method for many changes.
        /// - Returns: the difference of each affected view.
        mutating func commit(many writes: [TreeWrite]) throws -> [(view: View, difference: Difference)] {
            guard let change = try change(writes) else { return [] }
            for kept in place.indexes { kept.follow(try #require(change.children(atMost: 10))) }
            return views.compactMap { view in
                let part = view.shown.part(of: change)
                return part.count == 0 ? nil : view.shown.move(along: part, at: place).map { (view, $0) }
            }
        }

        /// Applies writes below the place.
        /// - Returns: the difference of each affected view.
        mutating func commit(_ writes: [TreeWrite]) throws -> [(view: View, difference: Difference, change: Change)] {
            guard let change = try change(writes) else { return [] }
            let children = change.children() ?? []
            for kept in place.indexes {
                if change.isOverwritten { kept.index = OrderedIndex(kept.ordering, of: change.new) } else { kept.follow(children) }
            }
            if change.isOverwritten { for view in views { view.shown.reset(over: change.new, at: place) } }
            var told: [(View, Difference, Change)] = []
            place.views(concernedBy: change.isOverwritten ? nil : children) { view, placed in
                if let difference = view.shown.apply(change, children, placed, at: place) { told.append((view, difference, change)) }
            }
            return told
        }
    }

    private static func child(_ random: inout SeededRandom) -> Node {
        let number = Node.int(Int64(random.below(4)))
        let value: Node = random.chance(50) ? number : ["v": number, "w": .int(Int64(random.below(3)))]
        return random.chance(30) ? value.with(priority: .int(Int64(random.below(3)))) : value
    }

    private static func write(_ random: inout SeededRandom) -> TreeWrite {
        let key = "q/k\(random.below(10))"
        switch random.below(8) {
        case 0: return TreeWrite(key, .null)
        case 1: return TreeWrite("\(key)/v", .int(Int64(random.below(4))))
        case 2: return TreeWrite("\(key)/w", random.pick([.null, 1, 2]))
        case 3: return TreeWrite(TreeWrite(key, .null).path, part: .priority, WriteValue(random.pick([.null, 1, 2])))
        default: return TreeWrite(key, child(&random))
        }
    }

    /// The writes of one merge: none is at, above or below another.
    private static func merge(_ writes: [TreeWrite]) -> [TreeWrite] {
        writes.reduce(into: []) { kept, write in
            if !kept.contains(where: { $0.path.contains(write.path) || write.path.contains($0.path) }) { kept.append(write) }
        }
    }

    @Test(arguments: Array(1...15) as [UInt64])
    func views_tellWhatASelectionMadeAnewShows(seed: UInt64) throws {
        var random = SeededRandom(seed)
        var it = Place(.object((0..<6).map { (Key("k\($0)"), Self.child(&random)) }))
        for step in 0..<100 {
            let before = it.root.child("q")
            let isWhole = random.chance(5)
            let writes = isWhole
                ? [TreeWrite("q", .object((0..<random.below(9)).map { (Key("k\($0)"), Self.child(&random)) }))]
                : Self.merge((0...random.below(4)).map { _ in Self.write(&random) })
            let told = try it.commit(writes)
            let after = it.root.child("q")
            for view in it.views {
                let (old, new) = (Self.shown(view.window, of: before), Self.shown(view.window, of: after))
                let expected = Self.events(old, new, before, after, by: view.window?.orderedBy ?? .key)
                let note = "seed \(seed) step \(step) \(view.window as TreeQuery?)" as Comment
                guard let (_, difference, commit) = told.first(where: { $0.view === view }) else {
                    #expect(expected.joined().isEmpty, note)
                    continue
                }
                var limits = ChangeLimits(children: 1_000, room: 1_000)
                let change = ViewChange(difference, at: "q", for: Self.wanted, sequence: 1, within: &limits)
                // Patches: they turn the previously shown value into the current one.
                var cache: Node = ["q": Self.value(view.window, of: before)]
                if change.patches.isEmpty { cache = ["q": change.new] }
                for patch in change.patches { cache.set(patch.value, at: patch.path) }
                #expect(cache.child("q") == Self.value(view.window, of: after), note)
                #expect(change.new == Self.value(view.window, of: after), note)
                // Events: removed, then added and moved, then changed, each with its previous sibling in the order of the query.
                #expect(Self.parts(change.events) == expected, note)
                #expect(change.events.drop { $0.kind == .removed } == ArraySlice(expected[1] + expected[2]), note)
                #expect(try Self.replay(old, change.events) == new, note)
                guard case .children(let children, let order, _) = difference else {
                    #expect(commit.isOverwritten && change.patches.isEmpty, note)
                    continue
                }
                #expect(Set(children.map(\.key)).count == children.count, note)
                let siblings: [Key?] = new.indices.map { $0 > 0 ? new[$0 - 1] : nil }
                #expect(new.map { order.sibling(before: $0) } == siblings, note)
            }
        }
    }

    @Test(arguments: Array(1...15) as [UInt64])
    func manyWrites_areToldAsFewAre(seed: UInt64) throws {
        var random = SeededRandom(seed)
        var it = Place(.object((0..<6).map { (Key("k\($0)"), Self.child(&random)) }))
        for step in 0..<100 {
            let before = it.root.child("q")
            var writes: [TreeWrite] = []
            for _ in 0...random.below(9) {
                let write = Self.write(&random)
                if !writes.contains(where: { $0.path.contains(write.path) || write.path.contains($0.path) }) { writes.append(write) }
            }
            let told = try it.commit(many: writes)
            let after = it.root.child("q")
            for view in it.views {
                let (old, new) = (Self.shown(view.window, of: before), Self.shown(view.window, of: after))
                let expected = Self.events(old, new, before, after, by: view.window?.orderedBy ?? .key)
                let note = "seed \(seed) step \(step) \(view.window as TreeQuery?)" as Comment
                guard let (_, difference) = told.first(where: { $0.view === view }) else {
                    #expect(expected.joined().isEmpty, note)
                    continue
                }
                var limits = ChangeLimits(children: 1_000, room: 1_000)
                var change = ViewChange(difference, at: "q", for: Self.wanted, sequence: 1, within: &limits)
                #expect(change.patches.isEmpty && change.events.isEmpty && limits.room == 1_000, "nothing is found out at once")
                change.finish()
                if change.isNothing {
                    #expect(expected.joined().isEmpty, note)
                    continue
                }
                var cache: Node = ["q": Self.value(view.window, of: before)]
                for patch in change.patches { cache.set(patch.value, at: patch.path) }
                #expect(cache.child("q") == Self.value(view.window, of: after), note)
                #expect(change.new == Self.value(view.window, of: after), note)
                #expect(Self.parts(change.events) == expected, note)
                #expect(try Self.replay(old, change.events) == new, note)
            }
        }
    }

    @Test func window_findsWhatConcernsIt_amongManyWrites() throws {
        let node = Node.object((0..<2_000).map { (Key("k\(10_000 + $0)"), .int(1)) })
        let paths = (0..<2_000).map { Path(["q", Key("k\(10_000 + $0)"), "x"]) }
        let writes = Change(at: "q", from: node, to: node, by: paths, below: paths.indices)
        func concerned(_ query: TreeQuery) -> Range<Int> {
            ShownWindow(query, QueryWindow(query, over: .byKey(node.children))).part(of: writes).range
        }
        #expect(concerned(TreeQuery(index: .key, limit: 3, viewFrom: .last)) == 1_997..<2_000)
        #expect(concerned(TreeQuery(index: .key, limit: 3, viewFrom: .first)) == 0..<3)
        #expect(concerned(TreeQuery(index: .key, limit: 3_000)) == 0..<2_000)
        #expect(concerned(TreeQuery(index: .key, start: .init(value: "k10500"), end: .init(value: "k10502"))) == 500..<503)
        #expect(concerned(TreeQuery(index: .key, start: .init(value: "k10500"), limit: 2)) == 500..<502)
        #expect(concerned(TreeQuery(index: .key, start: .init(value: "z"))).isEmpty)
        #expect(writes.children(atMost: 1_999) == nil)
        #expect(writes.part(5..<8).children(atMost: 3)?.map(\.key) == ["k10005", "k10006", "k10007"])
    }

    @Test func wholePlace_tellsEventsOfAnOverwrite() throws {
        var it = Place(["a": 1, "b": 2, "c": 3])
        let told = try it.commit([TreeWrite("q", ["b": 2, "c": 4, "d": 5])])
        let (_, difference, commit) = try #require(told.first { $0.view.window == nil })
        var limits = ChangeLimits(children: 3, room: 0)
        let change = ViewChange(difference, at: "q", for: Self.wanted, sequence: 1, within: &limits)
        let expected = Self.events(["a", "b", "c"], ["b", "c", "d"], commit.old, commit.new).joined()
        #expect(change.events == Array(expected))
        // One child more than may be compared here: computed later, with the same result.
        limits = ChangeLimits(children: 2, room: 0)
        var later = ViewChange(difference, at: "q", for: Self.wanted, sequence: 1, within: &limits)
        #expect(later.events.isEmpty && !later.isComplete)
        later.finish()
        #expect(later.events == change.events && later.isComplete)
    }

    @Test func window_collectsAsMuchAsThereIsRoomFor() throws {
        let it = Place(.object((0..<10).map { (Key("k\($0)"), .int(1)) }))
        let view = try #require(it.views.first { $0.window?.limit == 3 && $0.window?.orderedBy == .key })
        let all = try #require(view.shown.all(of: it.root.child("q"), at: it.place))
        var limits = ChangeLimits(children: 5, room: 3)
        let now = ViewChange(all, at: "q", for: [.patches, .value], sequence: 1, within: &limits)
        #expect(now.new == ["k0": 1, "k1": 1, "k2": 1] && now.isComplete && limits.room == 0)
        limits.room = 2
        var later = ViewChange(all, at: "q", for: [.patches, .value], sequence: 1, within: &limits)
        #expect(later.new == .null && !later.isComplete && limits.room == 0)
        later.finish()
        #expect(later.new == now.new && later.isComplete)
    }

    @Test func window_showsNothing_whileItsIndexIsBuilt() throws {
        var it = Place(["a": 1, "b": 2])
        let view = try #require(it.views.first { $0.window?.orderedBy == .value })
        it.place.existingIndex(.value)?.index = nil
        view.shown.reset(over: it.root.child("q"), at: it.place)
        #expect(view.shown.all(of: it.root.child("q"), at: it.place) == nil)
        #expect(try it.commit([TreeWrite("q/c", 9)]).allSatisfy { $0.view.window?.orderedBy != .value })
        it.place.existingIndex(.value)?.index = OrderedIndex(.value, of: it.root.child("q"))
        view.shown.reset(over: it.root.child("q"), at: it.place)
        #expect(view.shown.all(of: it.root.child("q"), at: it.place) != nil)
        #expect(try it.commit([TreeWrite("q/d", 10)]).contains { $0.view === view })
    }
}
