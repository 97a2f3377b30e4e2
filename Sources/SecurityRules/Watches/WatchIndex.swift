public import JSONTree
import LiveQueries

/// What watches need to find their pairs without scanning: the regions of watching nodes by position, the places that regions depend on,
/// and the positions of the children of large watched places.
///
/// ```
/// a child moves        place of `on` ─► regions at a position ─► watching nodes
/// a centre moves       place of `at`, `within`, or read by a radius ─► watching nodes
/// a region has moved   place of `on` ─► positions in a region ─► children
/// ```
/// Holds one tree; `update` follows each commit. About 1.2 KB for each watching node and place of `on`, and 150 bytes for each child.
///
/// Used by one queue at a time.
public final class WatchIndex: @unchecked Sendable {
    // Sendable: built on one queue and handed over.
    private let program: Program

    /// A watching node that exists.
    private struct Known {
        let node: WatchNode
        /// Nil if it looks nowhere, because a part of the region is missing.
        var region: Region?
        /// The places of `on`.
        var places: [Path]
        /// The places that the region depends on, outside of the node.
        var sources: Set<Path>
    }

    /// The regions that look at one place.
    private struct PlaceID: Hashable {
        let rule: Int
        let on: Int
        let path: Path
    }

    private struct ItemsID: Hashable {
        let path: Path
        let fields: GeoFields
    }

    private var known: [Int: Known] = [:]
    private var ids: [WatchNode: Int] = [:]
    private var nextID = 0
    private var regions: [PlaceID: RegionSet] = [:]
    private let sources = SourceTree()
    /// Of places with many children; few are scanned as fast.
    private var items: [ItemsID: GeoIndex] = [:]

    /// A place with more children gets an index of their positions, and loses it with fewer.
    private static let indexedFrom = 64
    private static let droppedBelow = 16

    /// The most nodes updated for one commit; with more the index is built again. Some tens of milliseconds.
    public static let maxUpdated = 1_000

    /// The number of watching nodes, and of children with a position in an index.
    public var count: Int { known.count + items.values.reduce(0) { $0 + $1.count } }

    /// Indexes a whole tree. O(watching nodes + children of watched places)
    public init(_ rules: RuleSet, root: Node) {
        program = rules.program
        update([.root], old: .null, new: root, atMost: .max)
    }

    // MARK: Updates

    /// Follows the writes of a commit. O(differences · log n)
    /// - Returns: false if more than `most` nodes differ. The index then holds neither tree, and must be built again.
    @discardableResult
    public func update(_ paths: [Path], old: Node, new: Node, atMost most: Int = maxUpdated) -> Bool {
        var left = most
        let written = paths.outermost
        var nodes: Set<WatchNode> = []
        for path in written {
            for (number, watch) in program.watches.enumerated() {
                let isAll = WatchRule.visit(watch.pattern, path, old, new, removed: true, left: &left) { path, _, _ in
                    nodes.insert(WatchNode(rule: number, path: path))
                }
                if !isAll { return false }
            }
            guard dependents(on: path, old: old, new: new, left: &left, { nodes.insert($0) }) else { return false }
        }
        let reader = WatchReader(program: program, tree: new)
        for node in nodes { refresh(node, reader) }
        for place in program.watchedPlaces where !update(place, written, old, new, &left) { return false }
        return true
    }

    private func refresh(_ node: WatchNode, _ reader: WatchReader) {
        let watch = program.watches[node.rule]
        let id = ids[node]
        guard reader.tree.exists(at: node.path) else {
            if let id { remove(id) }
            return
        }
        let (dependencies, path) = (DependencyRecorder(), node.path)
        var work = RulesLimits.rowTextWork
        let region = reader.region(watch, path, work: &work, dependencies: dependencies)
        var sources = Set(dependencies.ordered.filter { !path.contains($0) })
        if let source = reader.source(watch, path) { sources.insert(source) }
        if let id, let former = known[id], former.region == region, former.sources == sources { return }
        if let id { remove(id) }
        add(Known(node: node, region: region, places: watch.on.map { $0.path(of: path) }, sources: sources))
    }

    private func add(_ watching: Known) {
        let id = nextID
        nextID += 1
        (ids[watching.node], known[id]) = (id, watching)
        for source in watching.sources { sources.insert(id, at: source) }
        guard let region = watching.region else { return }
        for (on, path) in watching.places.enumerated() {
            regions[PlaceID(rule: watching.node.rule, on: on, path: path), default: RegionSet()].insert(id, region)
        }
    }

    private func remove(_ id: Int) {
        guard let watching = known.removeValue(forKey: id) else { return }
        ids[watching.node] = nil
        for source in watching.sources { sources.remove(id, at: source) }
        if watching.region == nil { return }
        for (on, path) in watching.places.enumerated() {
            let place = PlaceID(rule: watching.node.rule, on: on, path: path)
            regions[place]?.remove(id)
            if regions[place]?.isEmpty ?? false { regions[place] = nil }
        }
    }

    private func update(_ place: WatchedPlace, _ paths: [Path], _ old: Node, _ new: Node, _ left: inout Int) -> Bool {
        // Indexed from the new tree in this update.
        var made: Set<Path> = []
        for path in paths {
            var begun: [Path] = []
            let isAll = WatchRule.visit(place.pattern + [nil], path, old, new, removed: true, left: &left) { item, was, isNow in
                let at = item.parent
                guard let key = item.last, !made.contains(at) else { return }
                let id = ItemsID(path: at, fields: place.fields)
                if let index = items[id] {
                    index.move(key, old: was, new: isNow)
                } else if was.isNull, begun.last != at {
                    begun.append(at)
                }
            }
            if !isAll { return false }
            for at in begun {
                let children = new.node(at: at)
                guard children.childCount > Self.indexedFrom, made.insert(at).inserted else { continue }
                items[ItemsID(path: at, fields: place.fields)] = GeoIndex(place.fields, of: children)
                left -= children.childCount
            }
            for depth in 0...path.depth {
                let id = ItemsID(path: Path(path.keys.prefix(depth)), fields: place.fields)
                if items[id] != nil, new.node(at: id.path).childCount < Self.droppedBelow { items[id] = nil }
            }
        }
        return left >= 0
    }

    // MARK: Searches

    /// The region of a watching node; nil if it has none.
    func region(_ node: WatchNode) -> Region? { ids[node].flatMap { known[$0]?.region } }

    /// Calls `body` with each watching node of a rule whose region looks at a place and contains a point.
    func forEach(_ rule: Int, _ on: Int, _ place: Path, containing point: GeoPoint, _ body: (Path, Region) -> Void) {
        regions[PlaceID(rule: rule, on: on, path: place)]?.forEach(containing: point) { id in
            guard let watching = known[id], let region = watching.region else { return }
            body(watching.node.path, region)
        }
    }

    /// Calls `body` with the watching nodes whose regions may depend on what a write has changed.
    /// - Returns: false if more than `left` nodes would be visited.
    func dependents(on location: Path, old: Node, new: Node, left: inout Int, _ body: (WatchNode) -> Void) -> Bool {
        sources.visit(location, old, new, &left) { id in if let watching = known[id] { body(watching.node) } }
    }

    /// The children of a place in a region; nil if the place has no index.
    /// - Returns: at most one more than `most`.
    func keys(in region: Region, of place: Path, _ fields: GeoFields, atMost most: Int) -> [Key]? {
        items[ItemsID(path: place, fields: fields)]?.keys(in: region, atMost: most)
    }
}

/// Regions that look at one place: few as a list, many as an index.
private struct RegionSet {
    private var few: [(id: Int, region: Region)] = []
    private var many: RegionIndex?

    private static let mostFew = 16

    var isEmpty: Bool { many.map { $0.count == 0 } ?? few.isEmpty }

    mutating func insert(_ id: Int, _ region: Region) {
        if many != nil {
            many?.insert(id, region)
        } else {
            few.append((id, region))
            guard few.count > Self.mostFew else { return }
            var index = RegionIndex()
            for (id, region) in few { index.insert(id, region) }
            (few, many) = ([], index)
        }
    }

    mutating func remove(_ id: Int) {
        if many != nil { many?.remove(id) } else { few.removeAll { $0.id == id } }
    }

    func forEach(containing point: GeoPoint, _ body: (Int) -> Void) {
        if let many { return _ = many.forEach(containing: point, body) }
        for (id, region) in few where region.contains(point) { body(id) }
    }
}

/// The places that regions depend on, as a tree.
private final class SourceTree {
    private var children: [Key: SourceTree] = [:]
    private var ids: Set<Int> = []

    func insert(_ id: Int, at path: Path) {
        var here = self
        for key in path.keys {
            let next = here.children[key] ?? SourceTree()
            here.children[key] = next
            here = next
        }
        here.ids.insert(id)
    }

    func remove(_ id: Int, at path: Path) { remove(id, path.keys[...]) }

    private func remove(_ id: Int, _ keys: ArraySlice<Key>) {
        guard let key = keys.first else {
            ids.remove(id)
            return
        }
        guard let next = children[key] else { return }
        next.remove(id, keys.dropFirst())
        if next.ids.isEmpty, next.children.isEmpty { children[key] = nil }
    }

    /// Calls `body` for each place above a location, and for those at and below it that differ between two trees.
    /// - Returns: false if more than `left` places would be visited.
    func visit(_ location: Path, _ old: Node, _ new: Node, _ left: inout Int, _ body: (Int) -> Void) -> Bool {
        var (here, old, new) = (self, old, new)
        for key in location.keys {
            guard here.report(&left, body) else { return false }
            guard let next = here.children[key] else { return true }
            (here, old, new) = (next, old.child(key), new.child(key))
        }
        return here.visit(old, new, &left, body)
    }

    private func visit(_ old: Node, _ new: Node, _ left: inout Int, _ body: (Int) -> Void) -> Bool {
        if old.isIdentical(to: new) { return true }
        guard report(&left, body) else { return false }
        // Of the two, the places that differ and those depended on, the fewer are visited.
        if old.hasChildren, new.hasChildren, let changes = new.children.changes(since: old.children, atMost: max(0, children.count)) {
            return changes.allSatisfy { change in
                children[change.key]?.visit(change.old ?? .null, change.new ?? .null, &left, body) ?? true
            }
        }
        left -= children.count
        guard left >= 0 else { return false }
        return children.allSatisfy { $1.visit(old.child($0), new.child($0), &left, body) }
    }

    private func report(_ left: inout Int, _ body: (Int) -> Void) -> Bool {
        left -= ids.count
        guard left >= 0 else { return false }
        for id in ids { body(id) }
        return true
    }
}

extension RuleSet {
    /// Whether the rules have watches.
    public var hasWatches: Bool { !program.watches.isEmpty }

    /// Whether a write at a place may concern the index of watches. False is certain. O(watches · depth)
    public func mayConcernWatches(at path: Path) -> Bool { isWatched(path) }
}
