public import JSONTree

/// An index of places where copies with an `each` may be, so that a node's copies are found without scanning. It also indexes the members
/// of sets, for `.inbox`. It holds every existing place that matches a `to`, grouped by the node it would copy, and every member of a set,
/// grouped by its key.
///
/// ```
/// to: timeline/$f/$p      timeline ┬ ana ┬ p1            (timeline/$f/$p, p1) ─► /timeline/ana/p1, /timeline/ben/p1
///                                  │     └ p2     ═►     (timeline/$f/$p, p2) ─► /timeline/ana/p2
///                                  └ ben ─ p1
/// ```
/// A commit that changes too many such places is not indexed completely. Its place stays `open`: there, copies are found by scanning the
/// tree, until the background scan of that place has been added, one part at a time.
///
/// Used by one queue at a time, which reports the writes of each commit to it.
public final class CopyIndex: @unchecked Sendable {
    // Sendable: built on one queue and handed over.
    /// A place where a copy may be. Several keys join into one text, as keys contain no slashes.
    public struct Place: Sendable {
        fileprivate let group: Group
        /// The keys for the wildcards of `each` and for values, joined.
        fileprivate let rest: Key

        fileprivate init(_ rule: Int, _ bound: Key?, _ rest: Key?) {
            group = Group(rule: rule, bound: bound ?? Key(""))
            self.rest = rest ?? Key("")
        }
    }

    /// The copies of one node by one rule, or the sets with one member.
    fileprivate struct Group: Hashable {
        let rule: Int
        /// The lookup keys, in the order of the place.
        let bound: Key
    }

    /// A single key needs no set: sets for one element would use most of the memory.
    private enum FreeKeys {
        case one(Key)
        case many(Shards<Key, Void>)

        var count: Int { if case .many(let all) = self { all.count } else { 1 } }
    }

    private let rules: [IndexedPlaces]
    private var groups = Shards<Group, FreeKeys>()
    /// The number of indexed places: about 150 bytes each.
    public private(set) var count = 0
    /// Places below which the index may be incomplete.
    public private(set) var open: [Path] = []

    /// Most places and keys scanned for one commit; what exceeds it stays open. Default 1,000: about a millisecond.
    public static let maxIndexed = 1_000

    /// An empty index.
    init(_ program: Program) { rules = program.indexed }

    /// Indexes a whole tree. O(places that may hold copies)
    public convenience init(_ rules: RuleSet, root: Node) {
        self.init(rules.program)
        update([.root], old: .null, new: root, atMost: .max)
    }

    /// Indexes a whole tree; nil if it would hold more than `most` places.
    public convenience init?(_ rules: RuleSet, root: Node, most: Int) {
        self.init(rules.program)
        var left = Int.max
        for rule in self.rules.indices {
            let isAll = visit(rule, 0, .root, .null, root, nil, nil, &left) { place, isThere in
                set(place, isThere: isThere)
                return count <= most
            }
            if !isAll { return nil }
        }
    }

    /// Updates the index after writes. O(differences), up to the bound
    /// - Parameters:
    ///   - exist: whether each written place is known to exist.
    ///   - most: the most places to scan.
    /// - Returns: the place that is open from now on; nil if the index is complete.
    @discardableResult
    public func update(_ paths: [Path], exist: Bool = false, old: Node, new: Node, atMost most: Int = maxIndexed) -> Path? {
        var (left, run) = (most, Run())
        defer { set(&run) }
        for (i, path) in paths.enumerated() {
            let isKnown = rules.indices.allSatisfy { rule in
                if let isAt = updateOne(rule, path, exists: exist, new, &left, &run) { return isAt }
                set(&run)
                return visit(rule, 0, path, old, new, nil, nil, &left) { place, isThere in
                    set(place, isThere: isThere)
                    return true
                }
            }
            guard isKnown else {
                let common = paths[i...].reduce(path) { $0.common(with: $1) }
                open.append(common)
                return common
            }
        }
        return nil
    }

    /// Consecutive places of one group: those of a node's copies are updated together.
    private struct Run {
        var group = Group(rule: -1, bound: Key(""))
        var freeKeys: [(rest: Key, isThere: Bool)] = []
    }

    /// Updates a location that lies at or below one place of a rule; nil for a location above such places.
    /// - Returns: false if the scan budget is spent.
    private func updateOne(
        _ rule: Int, _ location: Path, exists: Bool, _ new: Node, _ left: inout Int, _ run: inout Run
    ) -> Bool? {
        let segments = rules[rule].segments
        guard location.depth >= segments.count else { return nil }
        var (bound, rest): (Key?, Key?) = (nil, nil)
        for (segment, key) in zip(segments, location.keys) {
            switch segment {
            case .key(let known): if key != known { return true }
            case .bound: bound = bound.with(key)
            case .free: rest = rest.with(key)
            }
        }
        left -= 1
        guard left >= 0 else { return false }
        let place = Place(rule, bound, rest)
        if run.group != place.group {
            set(&run)
            run.group = place.group
        }
        assert(!exists || new.exists(at: location), "nothing is at \(location)")
        run.freeKeys.append((place.rest, exists || new.exists(at: location, depth: segments.count)))
        return true
    }

    /// Visits the places of a rule that differ between two trees, at, above and below a location.
    /// - Parameters:
    ///   - i: the segment of `to` that names children of the two nodes.
    ///   - bound: the keys so far that are lookup keys; `rest`: the other keys that the rule does not spell out.
    ///   - left: the number of places that may still be scanned.
    ///   - found: called with each place and whether it exists; false ends the visit.
    /// - Returns: false if `found` ended the visit or the budget is spent.
    private func visit(
        _ rule: Int, _ i: Int, _ location: Path, _ old: Node, _ new: Node, _ bound: Key?, _ rest: Key?, _ left: inout Int,
        _ found: (Place, Bool) -> Bool
    ) -> Bool {
        guard old.exists || new.exists else { return true }
        let segments = rules[rule].segments
        guard i < segments.count else {
            left -= 1
            return left >= 0 && found(Place(rule, bound, rest), new.exists)
        }
        let segment = segments[i]
        func go(_ key: Key) -> Bool {
            var (bound, rest) = (bound, rest)
            switch segment {
            case .key: break
            case .bound: bound = bound.with(key)
            case .free: rest = rest.with(key)
            }
            return visit(rule, i + 1, location, old.child(key), new.child(key), bound, rest, &left, found)
        }
        let written = i < location.depth ? location.keys[i] : nil
        if case .key(let key) = segment { return written == nil || written == key ? go(key) : true }
        if let written { return go(written) }
        if old.isIdentical(to: new) { return true }
        for (key, child) in old.children {
            left -= 1
            if left < 0 || !child.isIdentical(to: new.child(key)) && !go(key) { return false }
        }
        for (key, _) in new.children {
            left -= 1
            if left < 0 || old.child(key).isNull && !go(key) { return false }
        }
        return true
    }

    // MARK: Updates in bulk

    /// The places at which a copy may have appeared or gone between two trees; nil for more than `most`. O(differences)
    public static func places(_ rules: RuleSet, below path: Path, old: Node, new: Node, atMost most: Int = .max) -> [Place]? {
        let index = CopyIndex(rules.program)
        var (all, left) = ([Place](), Int.max)
        for rule in index.rules.indices {
            let isAll = index.visit(rule, 0, path, old, new, nil, nil, &left) { place, _ in
                all.append(place)
                return all.count <= most
            }
            if !isAll { return nil }
        }
        return all
    }

    /// Updates these places to their state in a later tree.
    public func refresh(_ places: some Sequence<Place>, in tree: Node) {
        for place in places { set(place, isThere: tree.node(at: path(of: place.group, place.rest)).exists) }
    }

    /// Marks an open place as complete: all its places were taken.
    public func close(_ path: Path) { if let i = open.firstIndex(of: path) { open.remove(at: i) } }

    private func set(_ run: inout Run) {
        if run.freeKeys.isEmpty { return }
        var difference = 0
        groups.change(run.group) { difference = Self.change(&$0, run.freeKeys) }
        count += difference
        run.freeKeys.removeAll(keepingCapacity: true)
    }

    private func set(_ place: Place, isThere: Bool) {
        var difference = 0
        groups.change(place.group) { difference = Self.change(&$0, place.rest, isThere: isThere) }
        count += difference
    }

    /// - Returns: the change in the number of places.
    private static func change(_ freeKeys: inout FreeKeys?, _ run: [(rest: Key, isThere: Bool)]) -> Int {
        guard run.count > 1 else { return run.reduce(0) { $0 + change(&freeKeys, $1.rest, isThere: $1.isThere) } }
        let before = freeKeys?.count ?? 0
        var all = Shards<Key, Void>()
        switch freeKeys {
        case .many(let known): all = known
        case .one(let known): all.change(known) { $0 = () }
        case nil: break
        }
        // Drop this reference, so that the change below does not copy the set.
        freeKeys = nil
        all.reserve(run.count)
        for (rest, isThere) in run { all.change(rest) { $0 = isThere ? () : nil } }
        let count = all.count
        if count > 1 { freeKeys = .many(all) } else if let only = all.keys.first { freeKeys = .one(only) }
        return count - before
    }

    /// - Returns: the change in the number of places.
    private static func change(_ freeKeys: inout FreeKeys?, _ rest: Key, isThere: Bool) -> Int {
        if case .many(var all)? = freeKeys {
            // Drop this reference, so that the change below does not copy the set.
            freeKeys = nil
            let before = all.count
            all.change(rest) { $0 = isThere ? () : nil }
            if all.count > 0 { freeKeys = .many(all) }
            return all.count - before
        }
        guard case .one(let known)? = freeKeys else {
            if isThere { freeKeys = .one(rest) }
            return isThere ? 1 : 0
        }
        switch (known == rest, isThere) {
        case (true, true), (false, false): return 0
        case (true, false):
            freeKeys = nil
            return -1
        case (false, true):
            var all = Shards<Key, Void>()
            all.change(known) { $0 = () }
            all.change(rest) { $0 = () }
            freeKeys = .many(all)
            return 1
        }
    }

    /// How many entries the index has moved so far, for tests.
    var moved: Int { groups.values.reduce(groups.moved) { if case .many(let all) = $1 { $0 + all.moved } else { $0 } } }

    // MARK: Looking up

    /// The number of places indexed by a rule.
    /// - Parameter bound: the lookup keys, in the order of the place.
    func count(of rule: Int, _ bound: [Key]) -> Int { groups[group(of: rule, bound)]?.count ?? 0 }

    /// These places, in no particular order.
    func places(of rule: Int, _ bound: [Key]) -> [Path] {
        let group = group(of: rule, bound)
        return freeKeys(of: group).map { path(of: group, $0) }
    }

    /// The free keys of the places with these lookup keys, in no particular order.
    func keys(of rule: Int, _ bound: [Key]) -> [Key] { freeKeys(of: group(of: rule, bound)) }

    private func freeKeys(of group: Group) -> [Key] {
        switch groups[group] {
        case .one(let rest): [rest]
        case .many(let all): all.keys
        case nil: []
        }
    }

    private func group(of rule: Int, _ keys: [Key]) -> Group {
        var bound: Key?
        for key in keys { bound = bound.with(key) }
        return Group(rule: rule, bound: bound ?? Key(""))
    }

    private func path(of group: Group, _ rest: Key) -> Path {
        var (bound, free) = (group.bound.string.split(separator: "/")[...], rest.string.split(separator: "/")[...])
        var keys = ContiguousArray<Key>()
        for segment in rules[group.rule].segments {
            switch segment {
            case .key(let key): keys.append(key)
            case .bound: if let key = bound.popFirst() { keys.append(Key(String(key))) }
            case .free: if let key = free.popFirst() { keys.append(Key(String(key))) }
            }
        }
        return Path(keys)
    }
}

extension Key? {
    /// The joined keys with one more.
    fileprivate func with(_ key: Key) -> Key { map { Key($0.string + "/" + key.string) } ?? key }
}

extension RuleSet {
    /// Whether the rules need an index of copies or of set members.
    public var hasIndexedCopies: Bool { !program.indexed.isEmpty }
}
