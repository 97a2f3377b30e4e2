import Testing

@testable import SQLiteJournal

/// Work that is deferred to later transactions.
@Suite(.timeLimit(.minutes(30))) struct PendingItemsTests {
    private static func item(_ namespace: String, _ name: Int, bytes: Int = 10) -> Waiting.Item {
        Waiting.Item(namespace: namespace, work: .put(name: "\(name)", value: [UInt8](repeating: 0, count: bytes))) { _ in }
    }

    private static func label(_ item: Waiting.Item) -> String {
        guard case .put(let name, _) = item.work else { return "?" }
        return item.namespace + name
    }

    @Test func items_thatFitTogether_areTakenInTheOrderInWhichTheyCame() {
        var pendingItems = PendingItems()
        pendingItems.add([Self.item("a", 1), Self.item("b", 1)])
        pendingItems.add([Self.item("a", 2)])
        #expect(pendingItems.takeAll(within: 29) == nil && pendingItems.count == 3)
        #expect(pendingItems.takeAll(within: 30)?.map(Self.label) == ["a1", "b1", "a2"])
        #expect(pendingItems.isEmpty && pendingItems.takeAll(within: 0)?.isEmpty == true)
    }

    @Test func lanes_keepTheirOrder_andThoseThatWereServedComeLast() {
        var pendingItems = PendingItems()
        pendingItems.add([Self.item("a", 1), Self.item("a", 2), Self.item("b", 1), Self.item("a", 3)])
        var seen: [String] = []
        pendingItems.serve { item, lane, _ in
            guard lane == "a" else { return .leave }
            seen.append(Self.label(item))
            return .takeLast
        }
        #expect(seen == ["a1"] && pendingItems.count == 3 && pendingItems.takeAll(within: .max) == nil, "what is in lanes goes lane by lane")
        pendingItems.add([Self.item("c", 1), Self.item("b", 2)])
        pendingItems.serve { item, _, isServed in
            seen.append(Self.label(item) + (isServed ? "+" : ""))
            return .take
        }
        #expect(seen == ["a1", "b1", "b2+", "a2", "a3+", "c1"])
        #expect(pendingItems.isEmpty && pendingItems.takeAll(within: .max)?.isEmpty == true)
    }

    /// A transaction that takes one item checks only the first of each lane, however many wait behind.
    @Test func serving_looksAtTheFirstOfEachLane() {
        var pendingItems = PendingItems()
        pendingItems.add((0..<9_000).map { Self.item("n\($0 % 3)", $0) })
        for round in 1...3 {
            var looked = 0
            pendingItems.serve { _, _, _ in
                looked += 1
                return .takeLast
            }
            #expect(looked == 3 && pendingItems.count == 9_000 - 3 * round)
        }
        #expect(pendingItems.items.prefix(2).map(Self.label) == ["n09", "n012"])
    }
}
