import Commits
import JSONTree
import Observing
import Testing
import TestSupport

/// The trie of places, compared with a list of them: which observers and permissions a write affects, and that removals leave no entries.
@Suite(.timeLimit(.minutes(30))) struct PlaceTrieTests {
    /// The expected entries of the trie, as a list.
    private struct Model {
        var observed: [Path: Client] = [:]
        var dependents: [Dependent] = []

        /// The held places, including their ancestors.
        var count: Int {
            var all: Set<Path> = [.root]
            for path in Array(observed.keys) + dependents.flatMap(\.places) {
                for depth in 0...path.depth { all.insert(Path(path.keys.prefix(depth))) }
            }
            return all.count
        }

        func touched(by path: Path, _ old: Node, _ new: Node) -> Set<String> {
            Set(observed.keys.compactMap { place in
                if path.contains(place) { return old.node(at: place).isIdentical(to: new.node(at: place)) ? nil : "\(place) below" }
                return place.contains(path) ? "\(place) above" : nil
            })
        }

        func dependents(touchedBy paths: [Path], _ old: Node, _ new: Node) -> Set<ObjectIdentifier> {
            Set(dependents.filter { dependent in
                dependent.places.contains { place in
                    paths.contains { $0.contains(place) || place.contains($0) }
                        && (!old.node(at: place).hasSameSurface(as: new.node(at: place))
                            || (dependent.subtreeDependencies.contains(place) && !old.node(at: place).isIdentical(to: new.node(at: place))))
                }
            }.map { ObjectIdentifier($0) })
        }

        func hasAny(around path: Path) -> Bool {
            observed.keys.contains { $0.contains(path) || path.contains($0) }
                || dependents.contains { $0.places.contains { path.contains($0) } }
        }
    }

    private static func path(_ random: inout SeededRandom, from least: Int = 0) -> Path {
        Path((0..<least + random.below(5 - least)).map { _ in Key(random.pick(["a", "b", "c"])) })
    }

    private static func value(_ random: inout SeededRandom, _ depth: Int) -> Node {
        if depth == 0 || random.chance(40) { return random.pick([.null, .int(1), .int(2), "s", Node.int(1).with(priority: 5)]) }
        return .object(["a", "b", "c"].map { (Key($0), value(&random, depth - 1)) }, priority: random.pick([.null, .int(3)]))
    }

    @Test(arguments: Array(1...12) as [UInt64])
    func trie_findsWhatAListFinds(seed: UInt64) {
        var random = SeededRandom(seed)
        let trie = PlaceTrie()
        var model = Model()
        var root = Self.value(&random, 4)
        for step in 0..<100 {
            switch random.below(6) {
            case 0, 1:
                let path = Self.path(&random)
                if let client = model.observed.removeValue(forKey: path) {
                    let place = trie.existingPlace(at: path)
                    place?.existingView(nil, for: .patches(tag: nil))?.remove(client, style: .patches(tag: nil))
                    place?.removeView(nil)
                    trie.prune(path)
                } else {
                    let client = Client.make()
                    model.observed[path] = client
                    trie.place(at: path).view(nil, lanes: 1, window: nil).add(client, style: .patches(tag: nil))
                }
            case 2:
                let places = Array(Set((0...random.below(3)).map { _ in Self.path(&random) }))
                let dependent = Dependent(
                    .make(), Observation("x"), places, subtreeDependencies: Set(places.filter { _ in random.chance(30) }))
                model.dependents.append(dependent)
                for place in places { trie.add(dependent, at: place) }
            case 3 where !model.dependents.isEmpty:
                let gone = model.dependents.remove(at: random.below(model.dependents.count))
                for place in gone.places { trie.remove(gone, at: place) }
            default:
                let old = root
                let paths = (0...random.below(3)).map { _ in Self.path(&random, from: 1) }
                for path in paths { root.set(Self.value(&random, 2), at: path) }
                for path in paths {
                    var touched: [String] = []
                    trie.visit(touchedBy: [path], old: old, new: root) { place, range, before, after in
                        touched.append("\(place.path) \(range == nil ? "below" : "above")")
                        #expect(before == old.node(at: place.path) && after == root.node(at: place.path))
                    }
                    #expect(Set(touched) == model.touched(by: path, old, root), "seed \(seed) step \(step)")
                    #expect(Set(touched).count == touched.count, "each place once")
                    #expect(trie.hasAny(around: path) == model.hasAny(around: path))
                }
                let outermost = Set(paths).filter { path in !paths.contains { $0 != path && $0.contains(path) } }.sorted()
                var (above, below, ranges) = (Set<String>(), Set<String>(), [String: Range<Int>]())
                trie.visit(touchedBy: outermost, old: old, new: root) { place, range, _, _ in
                    let isNew = range == nil ? below.insert("\(place.path)").inserted : above.insert("\(place.path)").inserted
                    #expect(isNew, "each place once")
                    ranges["\(place.path)"] = range
                }
                let all = outermost.reduce(into: Set<String>()) { $0.formUnion(model.touched(by: $1, old, root)) }
                #expect(Set(above.map { "\($0) above" } + below.map { "\($0) below" }) == all, "seed \(seed) step \(step)")
                for (place, range) in ranges {
                    let path = Path(place.split(separator: "/").map { Key(String($0)) })
                    #expect(Array(outermost[range]) == outermost.filter { path.contains($0) })
                }
                let dependents = trie.dependents(touchedBy: paths, old: old, new: root)
                #expect(Set(dependents.map { ObjectIdentifier($0) }) == model.dependents(touchedBy: paths, old, root))
                let many = trie.dependents(touchedByMany: outermost, old: old, new: root)
                #expect(Set(many.map { ObjectIdentifier($0) }) == model.dependents(touchedBy: outermost, old, root))
                var differing: Set<Path> = []
                trie.forEach(from: old, to: root) { place, before, after in
                    #expect(before == old.node(at: place.path) && after == root.node(at: place.path))
                    differing.insert(place.path)
                }
                #expect(differing == Set(model.observed.keys.filter { !old.node(at: $0).isIdentical(to: root.node(at: $0)) }))
            }
            #expect(trie.count == model.count, "seed \(seed) step \(step)")
            #expect((trie.dependentCount > 0) == !model.dependents.isEmpty)
        }
        var all: Set<Path> = []
        trie.forEach(over: root) { place, node in
            #expect(node == root.node(at: place.path))
            all.insert(place.path)
        }
        #expect(all == Set(model.observed.keys))
        #expect(Set(trie.clients().map { ObjectIdentifier($0) }) == Set(model.observed.values.map { ObjectIdentifier($0) }))
    }

    @Test func visit_looksOnlyIntoWhatDiffers() {
        let trie = PlaceTrie()
        for i in 0..<100 { _ = trie.place(at: Path([Key("k\(i)"), "x"])).view(nil, lanes: 1, window: nil) }
        let old = Node.object((0..<100).map { (Key("k\($0)"), ["x": 1] as Node) })
        var new = old
        new.set(2, at: "k7/x")
        var touched = 0
        trie.visit(touchedBy: [.root], old: old, new: new) { _, _, _, _ in touched += 1 }
        #expect(touched == 1)
    }

    @Test func place_isTheSame_untilNothingNeedsIt() {
        let trie = PlaceTrie()
        let place = trie.place(at: "a/b")
        #expect(trie.place(at: "a/b") === place && trie.existingPlace(at: "a/b") === place)
        let dependent = Dependent(.make(), Observation("x"), ["a"])
        trie.add(dependent, at: "a")
        trie.prune("a/b")
        #expect(trie.existingPlace(at: "a/b") == nil && trie.existingPlace(at: "a") != nil, "something rests on the place above")
        trie.remove(dependent, at: "a")
        #expect(trie.count == 1)
        trie.prune("a/b/c")
        #expect(trie.count == 1, "what is not there is not counted off")
    }
}
