import JSONTree
import LiveQueries

/// A watching node of one rule.
struct WatchNode: Hashable {
    /// The index of the rule in `Program.watches`.
    let rule: Int
    let path: Path
}

/// Reads where watches look, in one tree.
struct WatchReader {
    let program: Program
    let tree: Node

    /// The region of a watching node; nil if a part of it is missing or out of range, or the node itself.
    /// - Parameters:
    ///   - work: the text work that the radius may do; reduced by what it does.
    ///   - dependencies: receives the places that the radius reads.
    func region(_ watch: WatchRule, _ path: Path, work: inout Int, dependencies: DependencyRecorder? = nil) -> Region? {
        let node = tree.node(at: path)
        guard node.exists else { return nil }
        switch watch.area {
        case .within(let place):
            guard let source = self.path(place, path, node) else { return nil }
            var visits = 0
            return try? Region(stored: tree.node(at: source), visits: &visits)
        case .circle(let at, let fields, let radius):
            var centre = node
            if let at {
                guard let source = self.path(at, path, node) else { return nil }
                centre = tree.node(at: source)
            }
            guard case .point(let point) = fields.position(of: centre),
                let metres = number(radius, path, work: &work, dependencies: dependencies), metres > 0,
                metres <= RulesLimits.watchMetres
            else { return nil }
            return .circle(GeoCircle(centre: point, metres: metres))
        }
    }

    /// The place of the centre or the stored region, where that is not in the node itself.
    func source(_ watch: WatchRule, _ path: Path) -> Path? {
        watch.area.source.flatMap { self.path($0, path, tree.node(at: path)) }
    }

    private func path(_ template: PathTemplate, _ path: Path, _ node: Node) -> Path? {
        var keys = ContiguousArray<Key>()
        for segment in template.segments {
            switch segment {
            case .key(let key): keys.append(key)
            case .capture(let depth): keys.append(path.keys[depth - 1])
            case .value(let field):
                guard let key = Self.key(node.node(at: field)) else { return nil }
                keys.append(key)
            case .every, .generated: return nil
            }
        }
        return Path(keys)
    }

    private func number(_ instruction: Int32, _ path: Path, work: inout Int, dependencies: DependencyRecorder?) -> Double? {
        let most = min(work, RulesLimits.rowTextWork)
        var left = most
        defer { work -= most - left }
        return Evaluator.run(
            program, old: tree, new: tree, auth: RuleSet.hubAuth, now: 0, query: nil, dependencies: dependencies
        ) { evaluator in
            evaluator.textWork = most
            defer { left = evaluator.textWork }
            return path.keys.withUnsafeBufferPointer { keys in
                evaluator.descend(keys)
                guard case .number(let number)? = try? evaluator.value(instruction) else { return nil }
                return number
            }
        }
    }
}

extension WatchRule.Place {
    /// The place whose children a watching node finds.
    func path(of watch: Path) -> Path {
        Path(template.segments.lazy.map { segment in
            switch segment {
            case .key(let key): key
            case .capture(let depth): watch.keys[depth - 1]
            // The check refuses these.
            case .every, .value, .generated: Key("")
            }
        })
    }
}

extension WatchRule {
    /// Calls `body` with each place of a pattern that differs between two trees, at, above or below a written location.
    /// - Parameters:
    ///   - removed: whether places that are gone count.
    ///   - left: the number of nodes that may still be visited.
    /// - Returns: false when that is exceeded.
    static func visit(
        _ pattern: [Key?], _ location: Path, _ old: Node, _ new: Node, removed: Bool, left: inout Int, _ body: (Path, Node, Node) -> Void
    ) -> Bool {
        visit(pattern, [], location, old, new, removed, &left, body)
    }

    private static func visit(
        _ pattern: [Key?], _ path: ContiguousArray<Key>, _ location: Path, _ old: Node, _ new: Node, _ removed: Bool,
        _ left: inout Int, _ body: (Path, Node, Node) -> Void
    ) -> Bool {
        let level = path.count
        guard new.exists || removed && old.exists else { return true }
        if level >= location.depth, old.isIdentical(to: new) { return true }
        guard level < pattern.count else {
            // A write of what is there already is no change.
            if old == new { return true }
            left -= 1
            guard left >= 0 else { return false }
            body(Path(path), old, new)
            return true
        }
        func descend(_ key: Key, _ old: Node, _ new: Node) -> Bool {
            visit(pattern, path + [key], location, old, new, removed, &left, body)
        }
        if level < location.depth {
            let key = location.keys[level]
            guard pattern[level] == nil || pattern[level] == key else { return true }
            return descend(key, old.child(key), new.child(key))
        }
        if let key = pattern[level] { return descend(key, old.child(key), new.child(key)) }
        if old.hasChildren, new.hasChildren {
            guard let changes = new.children.changes(since: old.children, atMost: left) else { return false }
            return changes.allSatisfy { descend($0.key, $0.old ?? .null, $0.new ?? .null) }
        }
        if removed { for (key, child) in old.children where !descend(key, child, .null) { return false } }
        for (key, child) in new.children where !descend(key, .null, child) { return false }
        return true
    }

    /// Calls `body` with each existing place of a pattern; false when more than `left` nodes would be visited.
    /// - Parameter bound: the known keys of wildcards, by depth.
    static func all(
        _ pattern: [Key?], bound: [Int: Key], in tree: Node, left: inout Int, _ body: (Path) -> Void
    ) -> Bool {
        all(pattern, bound, [], tree, &left, body)
    }

    private static func all(
        _ pattern: [Key?], _ bound: [Int: Key], _ path: ContiguousArray<Key>, _ node: Node, _ left: inout Int, _ body: (Path) -> Void
    ) -> Bool {
        guard node.exists else { return true }
        let level = path.count
        guard level < pattern.count else {
            body(Path(path))
            return true
        }
        if let key = pattern[level] ?? bound[level + 1] { return all(pattern, bound, path + [key], node.child(key), &left, body) }
        guard node.childCount <= left else { return false }
        left -= node.childCount
        for (key, child) in node.children where !all(pattern, bound, path + [key], child, &left, body) { return false }
        return true
    }

    /// Whether a written location is at, above or below a place of a pattern.
    static func touches(_ pattern: [Key?], _ location: Path) -> Bool {
        zip(pattern, location.keys).allSatisfy { $0 == nil || $0 == $1 }
    }

    /// The keys of wildcards that a location at or above a template's place binds; nil if the location is elsewhere.
    static func bound(_ template: PathTemplate, _ location: Path) -> [Int: Key]? {
        var bound: [Int: Key] = [:]
        for (segment, key) in zip(template.segments, location.keys) {
            switch segment {
            case .key(let known): if known != key { return nil }
            case .capture(let depth): if bound.updateValue(key, forKey: depth).map({ $0 != key }) ?? false { return nil }
            case .value, .every, .generated: break
            }
        }
        return bound
    }
}

/// Finds what watches may have found: pairs of a watching node and a child that lies in its region, where one of them has changed.
///
/// ```
/// changed children ─► index: regions that contain each, or a scan of the watching nodes ─┐
///                                                                                        ├─► pairs, ordered
/// changed nodes and regions ─► positions in each, or a scan of the children ─────────────┘
/// ```
struct WatchSearch {
    struct Pair {
        let rule: Int
        let watch: Path
        /// The index of the place in `on`.
        let on: Int
        let item: Path
        /// Metres from the centre; nil for a region without one.
        let distance: Double?
    }

    private struct Item {
        let key: Key
        let point: GeoPoint
    }

    private let program: Program
    /// The trees before and after.
    private let (old, new): (WatchReader, WatchReader)
    private let state: WatchState
    /// ms since the epoch.
    private let now: Int64
    private var index: WatchIndex? { state.index }
    /// The nodes that may still be visited, and the text work that may still be done.
    private(set) var left: Int
    private(set) var work: Int
    /// The rule being searched for; where the search was when it gave up.
    private(set) var rule = 0
    /// Whether no watching node of the rule can have gone.
    private var areAllThere = true
    private var pairs: [Pair] = []

    /// More nodes than the limit.
    struct TooMany: Error {}

    init(_ program: Program, before: Node, after: Node, _ state: WatchState, now: Int64, keys: Int, textWork: Int) {
        (self.program, self.state, self.now, left, work) = (program, state, now, keys, textWork)
        (old, new) = (WatchReader(program: program, tree: before), WatchReader(program: program, tree: after))
    }

    /// - Parameter locations: where the trees may differ.
    /// - Returns: the pairs that are not silent, ordered by rule, watch and child.
    mutating func run(_ locations: [Path]) throws(TooMany) -> [Pair] {
        var items: [[Path: [Item]]] = []
        for place in program.watchedPlaces { items.append(try changedItems(place, locations)) }
        for (number, watch) in program.watches.enumerated() {
            rule = number
            let changed = try changedRegions(watch, locations)
            areAllThere = !locations.contains { WatchRule.touches(watch.pattern, $0) }
            for (on, place) in watch.on.enumerated() {
                for (path, all) in items[place.shared] { try find(watch, on, path, all, besides: changed) }
                for (node, region) in changed {
                    if let region { try find(watch, on, node, region, items[place.shared]) }
                }
            }
        }
        return pairs.sorted { ($0.rule, $0.watch, $0.item) < ($1.rule, $1.watch, $1.item) }
    }

    private mutating func changedItems(_ place: WatchedPlace, _ locations: [Path]) throws(TooMany) -> [Path: [Item]] {
        var found: [Path: [Item]] = [:]
        for location in locations {
            let isAll = WatchRule.visit(place.pattern + [nil], location, old.tree, new.tree, removed: false, left: &left) { path, _, node in
                guard let key = path.last, case .point(let point) = place.fields.position(of: node) else { return }
                found[path.parent, default: []].append(Item(key: key, point: point))
            }
            if !isAll { throw TooMany() }
        }
        return found
    }

    /// The watching nodes that have changed, and those whose region has; nil for one that has none now.
    private mutating func changedRegions(_ watch: WatchRule, _ locations: [Path]) throws(TooMany) -> [Path: Region?] {
        var (nodes, others): (Set<Path>, Set<Path>) = ([], [])
        for location in locations {
            let isAll = WatchRule.visit(watch.pattern, location, old.tree, new.tree, removed: false, left: &left) { path, _, _ in
                nodes.insert(path)
            }
            if !isAll { throw TooMany() }
            if let index {
                guard index.dependents(on: location, old: old.tree, new: new.tree, left: &left, {
                    if $0.rule == rule { others.insert($0.path) }
                }) else { throw TooMany() }
                continue
            }
            var bound: [Int: Key]?
            if watch.reads.contains(where: { WatchRule.touches($0, location) }) {
                bound = [:]
            } else if let source = watch.area.source {
                bound = WatchRule.bound(source, location)
            }
            guard let bound else { continue }
            guard WatchRule.all(watch.pattern, bound: bound, in: new.tree, left: &left, { others.insert($0) }) else { throw TooMany() }
        }
        var found: [Path: Region?] = [:]
        for path in nodes { found.updateValue(region(watch, path), forKey: path) }
        for path in others where !nodes.contains(path) {
            let region = region(watch, path)
            let former = if let index { index.region(WatchNode(rule: rule, path: path)) } else { old.region(watch, path, work: &work) }
            if region != former { found.updateValue(region, forKey: path) }
        }
        return found
    }

    private mutating func region(_ watch: WatchRule, _ path: Path) -> Region? { new.region(watch, path, work: &work) }

    /// The watches, other than the changed ones, that contain changed children of a place.
    private mutating func find(
        _ watch: WatchRule, _ on: Int, _ place: Path, _ items: [Item], besides changed: [Path: Region?]
    ) throws(TooMany) {
        if let index {
            for item in items {
                index.forEach(rule, on, place, containing: item.point) { path, region in
                    left -= 1
                    if !changed.isEmpty, changed.keys.contains(path) { return }
                    if areAllThere || new.tree.exists(at: path) { add(path, on, place, item, region) }
                }
                if left < 0 { throw TooMany() }
            }
            return
        }
        guard let bound = WatchRule.bound(watch.on[on].template, place), place.depth == watch.on[on].template.segments.count else { return }
        var nodes: [Path] = []
        guard WatchRule.all(watch.pattern, bound: bound, in: new.tree, left: &left, { nodes.append($0) }) else { throw TooMany() }
        for node in nodes where !changed.keys.contains(node) {
            guard let region = region(watch, node) else { continue }
            for item in items where region.contains(item.point) { add(node, on, place, item, region) }
            try charge(items.count)
        }
    }

    /// The children in a changed region.
    private mutating func find(
        _ watch: WatchRule, _ on: Int, _ node: Path, _ region: Region, _ changed: [Path: [Item]]
    ) throws(TooMany) {
        let place = watch.on[on].path(of: node)
        let children = new.tree.node(at: place)
        let fields = program.watchedPlaces[watch.on[on].shared].fields
        if let keys = index?.keys(in: region, of: place, fields, atMost: max(0, left)) {
            // Of the tree before: those that have changed since are tested besides.
            left -= keys.count
            if left < 0 { throw TooMany() }
            let items = changed[place] ?? []
            try charge(items.count)
            for item in items where region.contains(item.point) { add(node, on, place, item, region) }
            let known = Set(items.map(\.key))
            for key in keys where !known.contains(key) {
                guard case .point(let point) = fields.position(of: children.child(key)), region.contains(point) else { continue }
                add(node, on, place, Item(key: key, point: point), region)
            }
            return
        }
        guard children.childCount <= left else { throw TooMany() }
        left -= children.childCount
        for (key, child) in children.children {
            guard case .point(let point) = fields.position(of: child), region.contains(point) else { continue }
            add(node, on, place, Item(key: key, point: point), region)
        }
    }

    /// Tests of points are cheap, but there may be many: of each changed region with each changed child.
    private mutating func charge(_ tests: Int) throws(TooMany) {
        left -= tests / Self.testsOfKey
        if left < 0 { throw TooMany() }
    }
    private static let testsOfKey = 64

    private mutating func add(_ node: Path, _ on: Int, _ place: Path, _ item: Item, _ region: Region) {
        let (watch, path) = (program.watches[rule], place.appending(item.key))
        // Most of what is in an area was found before.
        if let until = state.mutedUntil(WatchPair(watch: node, number: watch.number, item: path)), until > now { return }
        pairs.append(Pair(rule: rule, watch: node, on: on, item: path, distance: watch.distance(of: item.point, in: region)))
    }
}
