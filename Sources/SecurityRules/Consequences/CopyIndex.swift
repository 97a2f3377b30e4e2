public import JSONTree

/// Where copies with an `each` may be, so that those of a node are found without looking at every place where one could be. It has every
/// place of the tree that a `to` can name, grouped by the node that it would be a copy of.
///
/// ```
/// to: timeline/$f/$p      timeline ┬ ana ┬ p1            (timeline/$f/$p, p1) ─► /timeline/ana/p1, /timeline/ben/p1
///                                  │     └ p2     ═►     (timeline/$f/$p, p2) ─► /timeline/ana/p2
///                                  └ ben ─ p1
/// ```
/// Used by one queue at a time, which tells it what each commit has written.
public final class CopyIndex: @unchecked Sendable {
    // Sendable: built on one queue and handed over.
    private struct Group: Hashable {
        let rule: Int
        /// The keys for the wildcards of the node's place, in the order of `to`.
        let keys: [Key]
    }

    private let rules: [CopyRule]
    private var places: [Group: Set<Path>] = [:]
    /// Places that it has.
    public private(set) var count = 0

    /// Of nothing.
    init(_ program: Program) { rules = program.indexedCopies }

    /// Of a whole tree. O(places that copies may be at)
    public convenience init(_ rules: RuleSet, root: Node) {
        self.init(rules.program)
        note([.root], old: .null, new: root)
    }

    /// Follows what was written at some places. O(what differs there)
    public func note(_ paths: [Path], old: Node, new: Node) {
        for rule in rules.indices {
            for path in paths { note(rule, 0, path, old, new, .root, []) }
        }
    }

    /// - Parameter i: the segment of `to` that names children of the two nodes.
    private func note(_ rule: Int, _ i: Int, _ location: Path, _ old: Node, _ new: Node, _ path: Path, _ keys: [Key]) {
        guard old.exists || new.exists else { return }
        let segments = rules[rule].to.segments
        guard i < segments.count else { return set(Group(rule: rule, keys: keys), path, isThere: new.exists) }
        func isOfNode(_ segment: PathTemplate.Segment) -> Bool {
            if case .capture(let depth) = segment { depth <= rules[rule].nodeDepth } else { false }
        }
        func go(_ key: Key) {
            let inner = isOfNode(segments[i]) ? keys + [key] : keys
            note(rule, i + 1, location, old.child(key), new.child(key), path.appending(key), inner)
        }
        let written = i < location.depth ? location.keys[i] : nil
        if case .key(let key) = segments[i] {
            if written == nil || written == key { go(key) }
        } else if let written {
            go(written)
        } else if !old.isIdentical(to: new) {
            for (key, child) in old.children where !child.isIdentical(to: new.child(key)) { go(key) }
            for (key, _) in new.children where old.child(key).isNull { go(key) }
        }
    }

    private func set(_ group: Group, _ path: Path, isThere: Bool) {
        if isThere {
            if places[group, default: []].insert(path).inserted { count += 1 }
        } else if places[group]?.remove(path) != nil {
            count -= 1
            if places[group]?.isEmpty == true { places[group] = nil }
        }
    }

    /// The places at which a node may have copies by a rule.
    /// - Parameter keys: those down to the node's place.
    func places(of rule: Int, _ keys: ContiguousArray<Key>) -> Set<Path> {
        let copy = rules[rule]
        let bound = copy.to.segments.compactMap { segment -> Key? in
            if case .capture(let depth) = segment, depth <= copy.nodeDepth { keys[depth - 1] } else { nil }
        }
        return places[Group(rule: rule, keys: bound)] ?? []
    }
}

extension RuleSet {
    /// Whether copies are to be known by an index.
    public var hasIndexedCopies: Bool { !program.indexedCopies.isEmpty }
}
