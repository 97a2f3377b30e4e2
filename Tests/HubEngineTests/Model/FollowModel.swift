import JSONTree
import SecurityRules

/// The consequences of writes, recomputed from whole trees: each copy, counter, removal, default, drop and expiry.
struct FollowModel {
    private(set) var rules: FollowRules
    private(set) var root = Node.null
    /// Write times of nodes whose kind has an expiry relative to them.
    private(set) var written: [Path: Int64] = [:]
    /// How often each row of the log occurs, whatever its key.
    private(set) var rows: [String: Int] = [:]
    /// The number of expired nodes.
    private(set) var ended = 0

    typealias Write = (path: Path, value: Node)
    typealias Keys = [String: Key]

    /// Children of a set that are evaluated when the node of a counter is created. A larger set counts as 0 until the next commit.
    let countedAtOnce: Int

    init(_ rules: FollowRules, root: Node, countedAtOnce: Int) {
        (self.rules, self.root, self.countedAtOnce) = (rules, root, countedAtOnce)
    }

    enum Author { case client, hub }

    /// A commit, all or nothing.
    /// - Returns: false if it is refused because it writes a counter.
    mutating func commit(_ writes: [Write], by author: Author, now: Int64) -> Bool {
        let before = root
        var (made, candidate) = (writes, root)
        for write in writes { candidate.set(write.value, at: write.path) }
        if author == .client { (made, candidate) = shaped(writes, now) }
        if author == .client {
            for (path, value, _) in counters(in: candidate, before) {
                let (sent, isOld) = (candidate.node(at: path), before.node(at: path.parent).hasChildren)
                if sent.exists, sent != value, !(isOld && sent == before.node(at: path)) { return false }
            }
        }
        finish(candidate, made.map(\.path), before, now)
        correct(now)
        return true
    }

    /// Applies the consequences of a candidate, and the write times. Each further rule key adds a step here and a property of `Kind`.
    private mutating func finish(_ candidate: Node, _ paths: [Path], _ before: Node, _ now: Int64) {
        var (tree, changed) = (candidate, Set<Path>())
        while true {
            // Counters change nodes, too. One that is changed and changed back was written. Counters that keep the node they create let it
            // stay as it was.
            let next = counting(removing(tree, before), before, paths)
            if next == tree { break }
            for kind in rules.kinds {
                for (path, _, node) in nodes(kind.pattern, in: next) where node != tree.node(at: path) {
                    if tree.node(at: path).exists || before.node(at: path) != node { changed.insert(path) }
                }
            }
            tree = next
        }
        // Rows are counted, too, and what counts them is copied: a node that nothing keeps but the rows of this commit stays.
        let creating = rules.kinds.filter { $0.counters.contains(where: \.creates) }
        let others = rules.kinds.filter { !$0.counters.contains(where: \.creates) }
        let withCopies = copied(tree, before, others)
        let after = copied(counting(sent(withCopies, before, now), before, paths), before, creating)
        for kind in rules.kinds where kind.readsWritten {
            for (path, _, node) in nodes(kind.pattern, in: after) {
                let isTouched = changed.contains(path) || paths.contains { $0.contains(path) || path.contains($0) }
                if isTouched || node != candidate.node(at: path) { written[path] = now }
            }
        }
        root = after
        written = written.filter { root.node(at: $0.key).exists }
    }

    /// The hub corrects wrong counters.
    private mutating func correct(_ now: Int64) { finish(root, [], root, now) }

    // MARK: Drops and defaults

    private func shaped(_ writes: [Write], _ now: Int64) -> ([Write], Node) {
        func drops(_ tree: Node) -> [Path] {
            var found: [Path] = []
            for kind in rules.kinds {
                for (path, keys, node) in nodes(kind.pattern, in: tree) {
                    for case (let name, .sameAsNumber) in kind.defaults where node.child(Key(name)).exists {
                        found.append(path.appending(Key(name)))
                    }
                    for (name, test) in kind.drops where node.child(Key(name)).exists && test.holds(node.child(Key(name)), keys) {
                        found.append(path.appending(Key(name)))
                    }
                }
            }
            return found
        }
        var all = root
        for write in writes { all.set(write.value, at: write.path) }
        let dropped = drops(all)
        // A value at or below a dropped place counts as not sent; in other values the dropped place is left out.
        let made = writes.filter { write in
            !isKept(write.path) && (!write.value.exists || !dropped.contains { $0.contains(write.path) })
        }
        var tree = root
        for write in made { tree.set(write.value, at: write.path) }
        for path in dropped where made.contains(where: { $0.path.depth < path.depth && $0.path.contains(path) }) {
            tree.set(.null, at: path)
        }
        for kind in rules.kinds {
            for (path, _, node) in nodes(kind.pattern, in: tree) where node.hasChildren {
                let isNew = root.node(at: path).isNull
                guard made.contains(where: { write in
                    write.path.contains(path) || path.contains(write.path) && (write.path.depth == path.depth + 1 || isNew)
                }) else { continue }
                for (name, value) in kind.defaults where node.child(Key(name)).isNull {
                    let place = path.appending(Key(name))
                    switch value {
                    case .sameAsNumber: break
                    case .value(let value): tree.set(value, at: place)
                    case .now: tree.set(.int(now), at: place)
                    case .firstTime: tree.set(root.node(at: place).exists ? root.node(at: place) : .int(now), at: place)
                    }
                }
            }
            for case (let name, .sameAsNumber) in kind.defaults {
                for (path, _, node) in nodes(kind.pattern, in: tree) where node.hasChildren {
                    guard made.contains(where: { $0.path.contains(path) || path.contains($0.path) }) else { continue }
                    let (number, isAlone) = (node.child("number"), node.children.allSatisfy { key, _ in key == Key(name) })
                    tree.set(number.hasChildren || isAlone ? .null : number.leaf, at: path.appending(Key(name)))
                }
            }
        }
        return (made, tree)
    }

    /// Whether a place is that of a kept default.
    private func isKept(_ path: Path) -> Bool {
        rules.kinds.contains { kind in
            kind.defaults.contains { name, value in
                guard case .sameAsNumber = value else { return false }
                return path.depth == kind.pattern.count + 1 && path.keys.last == Key(name)
                    && zip(kind.pattern, path.keys).allSatisfy { $0.hasPrefix("$") || Key($0) == $1 }
            }
        }
    }

    // MARK: Consequences

    /// Removes what removed nodes cause to be removed, until nothing changes.
    private func removing(_ candidate: Node, _ before: Node) -> Node {
        var tree = candidate
        while true {
            var next = tree
            for kind in rules.kinds {
                for (path, keys, node) in nodes(kind.pattern, in: before) where tree.node(at: path).isNull {
                    for removal in kind.removes where !removal.isOnChange && removal.test.holds(node, keys) {
                        for place in places(removal.to, keys, node, path, in: tree, mustExist: true) { next.set(.null, at: place) }
                    }
                }
                for (path, keys, node) in nodes(kind.pattern, in: tree) where before.node(at: path) != node {
                    for removal in kind.removes where removal.isOnChange && removal.test.holds(node, keys) {
                        for place in places(removal.to, keys, node, path, in: tree, mustExist: true) { next.set(.null, at: place) }
                    }
                }
            }
            if next == tree { return tree }
            tree = next
        }
    }

    /// The places of all counters in a tree, with their values in it right after a commit on another tree. Counters that create their nodes
    /// have places without them.
    private func counters(in tree: Node, _ before: Node) -> [(path: Path, value: Node, isEmpty: Bool)] {
        var found: [(path: Path, value: Node, isEmpty: Bool)] = []
        for kind in rules.kinds where !kind.counters.isEmpty {
            var all = nodes(kind.pattern, in: tree).filter { $0.node.hasChildren }
            if kind.counters.contains(where: \.creates) {
                let known = Set(all.map(\.path))
                for key in people(tree) {
                    let path = Path([Key(kind.pattern[0]), key])
                    if !known.contains(path) { all.append((path, [kind.pattern[1]: key], .null)) }
                }
            }
            for (path, keys, node) in all {
                for counter in kind.counters {
                    // Of a flag the first member tells.
                    var isAsked = !["count", "any"].contains(counter.operation)
                    if case .always = counter.test {} else { isAsked = true }
                    let sets = places(counter.set, keys, node, path, in: tree, mustExist: true).map { tree.node(at: $0) }
                    let isLater = isAsked && !counter.creates && !before.node(at: path).hasChildren
                        && sets.reduce(0) { $0 + $1.childCount } > countedAtOnce
                    let members = sets.flatMap { $0.children.map(\.1) }.filter { counter.test.holds($0, keys) }
                    let total = counter.total(isLater ? [] : members)
                    found.append((path.appending(Key(counter.name)), total, total == counter.total([])))
                }
            }
        }
        return found
    }

    /// The keys of all nodes that a tally may have.
    private func people(_ tree: Node) -> Set<Key> {
        var keys: Set<Key> = []
        for name in ["inbox", "friends"] as [Key] { keys.formUnion(tree.child(name).children.map(\.0)) }
        for (_, comments) in tree.child("comments").children {
            for (_, comment) in comments.children { if case .string(let text) = comment.child("by").leaf { keys.insert(Key(text.string)) } }
        }
        return keys
    }

    private func counting(_ tree: Node, _ before: Node, _ paths: [Path]) -> Node {
        var result = tree
        let all = counters(in: tree, before)
        let created = Set(all.filter { !$0.isEmpty }.map(\.path.parent))
        for (path, value, _) in all where tree.node(at: path.parent).hasChildren || created.contains(path.parent) { result.set(value, at: path) }
        // A node of which nothing but empty counters is left goes, when it is written.
        for kind in rules.kinds where kind.counters.contains(where: \.creates) {
            let empty = Dictionary(uniqueKeysWithValues: kind.counters.map { (Key($0.name), $0.total([])) })
            for (path, _, node) in nodes(kind.pattern, in: result) where node.hasChildren {
                let isWritten = node != before.node(at: path) || paths.contains { $0.contains(path) || path.contains($0) }
                if isWritten, node.children.allSatisfy({ empty[$0] == $1 }) { result.set(.null, at: path) }
            }
        }
        return result
    }

    private func copied(_ tree: Node, _ before: Node, _ kinds: [FollowRules.Kind]) -> Node {
        var result = tree
        for kind in kinds {
            let paths = Set(nodes(kind.pattern, in: before).map(\.path) + nodes(kind.pattern, in: tree).map(\.path))
            for path in paths {
                let (was, isNow) = (before.node(at: path), tree.node(at: path))
                if was == isNow { continue }
                let keys = Self.keys(kind.pattern, path)
                for copy in kind.copies {
                    let (left, places) = moved(copy, keys, path, was, isNow, tree) ?? ([], targets(of: copy, keys, path, was, isNow, tree))
                    for place in left { result.set(.null, at: place) }
                    for place in places { result.set(isNow, at: place) }
                }
            }
        }
        return result
    }

    /// The places that a copy without an `each` leaves and enters; nil if it does not move.
    private func moved(_ copy: FollowRules.Copy, _ keys: Keys, _ path: Path, _ was: Node, _ isNow: Node, _ tree: Node) -> ([Path], Set<Path>)? {
        guard copy.each == nil, was.exists, isNow.exists else { return nil }
        let (from, to) = (places(copy.to, keys, was, path, in: tree, mustExist: false), places(copy.to, keys, isNow, path, in: tree, mustExist: false))
        if from == to { return nil }
        let isThere = from.isEmpty || from.contains { tree.node(at: $0).exists }
        return (from, Set(isThere ? to : to.filter { tree.node(at: $0).exists }))
    }

    private func targets(of copy: FollowRules.Copy, _ keys: Keys, _ path: Path, _ was: Node, _ isNow: Node, _ tree: Node) -> Set<Path> {
        guard was.isNull else {
            let ofFormer = places(copy.to, keys, was, path, in: tree, mustExist: true)
            return Set(isNow.exists ? ofFormer + places(copy.to, keys, isNow, path, in: tree, mustExist: true) : ofFormer)
        }
        guard let each = copy.each else { return Set(places(copy.to, keys, isNow, path, in: tree, mustExist: false)) }
        var found: Set<Path> = []
        for place in places(each, keys, isNow, path, in: tree, mustExist: true) {
            var bound = keys
            for (name, key) in zip(each.split(separator: "/"), place.keys) where name.hasPrefix("$") { bound[String(name)] = key }
            if copy.test.holds(tree.node(at: place), bound) {
                found.formUnion(places(copy.to, bound, isNow, path, in: tree, mustExist: false))
            }
        }
        return found
    }

    /// The tree with the inbox rows of new and changed nodes.
    private func sent(_ tree: Node, _ before: Node, _ now: Int64) -> Node {
        var result = tree
        for kind in rules.kinds where !kind.inboxes.isEmpty {
            for (path, keys, node) in nodes(kind.pattern, in: tree) {
                let was = before.node(at: path)
                for inbox in kind.inboxes {
                    if was.exists {
                        guard let name = inbox.changes, was.child(Key(name)).leaf != node.child(Key(name)).leaf else { continue }
                    }
                    var row: Node = ["at": .int(now + FollowRules.Inbox.lasts)]
                    row.set(node.child("number"), at: "number")
                    for (key, set) in tree.child("subs").children where inbox.reaches(key, set, of: node, keys) {
                        let bound = keys.merging(["$s": key]) { $1 }
                        for place in places(inbox.to, bound, node, path, in: tree, mustExist: false) { result.set(row, at: place) }
                    }
                }
            }
        }
        return result
    }

    /// The places that a template of a node matches.
    private func places(_ template: String, _ keys: Keys, _ node: Node, _ source: Path, in tree: Node, mustExist: Bool) -> [Path] {
        var found: [Path] = [.root]
        for part in template.split(separator: "/").map(String.init) {
            if part.hasPrefix("{") {
                guard case .string(let text) = node.child(Key(String(part.dropFirst().dropLast()))).leaf else { return [] }
                found = found.map { $0.appending(Key(text.string)) }
            } else if part.hasPrefix("+") {
                let key = GeneratedKey.of(source.keys, String(part.dropFirst()))
                found = found.map { $0.appending(key) }
            } else if part == "*" || part.hasPrefix("$") && keys[part] == nil {
                found = found.flatMap { path in tree.node(at: path).children.map { path.appending($0.key) } }
            } else {
                found = found.map { $0.appending(keys[part] ?? Key(part)) }
            }
        }
        return mustExist ? found.filter { tree.node(at: $0).exists } : found
    }

    /// The nodes of a kind.
    private func nodes(_ pattern: [String], in tree: Node) -> [(path: Path, keys: Keys, node: Node)] {
        var found: [(path: Path, keys: Keys, node: Node)] = [(.root, [:], tree)]
        for part in pattern {
            found = found.flatMap { path, keys, node -> [(path: Path, keys: Keys, node: Node)] in
                guard part.hasPrefix("$") else { return [(path.appending(Key(part)), keys, node.child(Key(part)))] }
                return node.children.map { key, child in (path.appending(key), keys.merging([part: key]) { $1 }, child) }
            }
        }
        return found.filter { $0.node.exists }
    }

    private static func keys(_ pattern: [String], _ path: Path) -> Keys {
        Dictionary(uniqueKeysWithValues: zip(pattern, path.keys).filter { $0.0.hasPrefix("$") })
    }

    // MARK: Time

    private func due(_ end: FollowRules.End, _ node: Node, _ path: Path) -> Int64? {
        if let state = end.state, node.child("state").leaf != .string(Text(state)) { return nil }
        if end.isWithoutTime, node.child("at").exists { return nil }
        if let patch = end.patch, node.child("state") == .string(Text(patch)) { return nil }
        if let ms = end.written { return written[path].map { $0 + ms } }
        guard case .int(let time) = node.child("at").leaf else { return nil }
        return time
    }

    /// The node that expires first.
    var next: (due: Int64, path: Path, end: FollowRules.End)? {
        var first: (due: Int64, path: Path, end: FollowRules.End)?
        for kind in rules.kinds where !kind.ends.isEmpty {
            for (path, _, node) in nodes(kind.pattern, in: root) {
                for end in kind.ends {
                    guard let due = due(end, node, path), first.map({ (due, path) < ($0.due, $0.path) }) ?? true else { continue }
                    first = (due, path, end)
                }
            }
        }
        return first
    }

    /// Expires all nodes that are due, the earliest first.
    mutating func pass(now: Int64) {
        while let (due, path, end) = next, due <= now {
            if let log = end.log {
                var row: Node = ["name": .string(Text(log)), "at": .int(now)]
                if end.written != nil { row.set(.int(written[path] ?? -1), at: "written") }
                rows[row.json, default: 0] += 1
            }
            ended += 1
            let write: Write = end.patch.map { (path.appending(Key("state")), .string(Text($0))) } ?? (path, .null)
            _ = commit([write], by: .hub, now: now)
        }
    }

    // MARK: Accounts and deploys

    mutating func deleteAccount(_ uid: String, now: Int64) {
        var writes: [Write] = []
        for kind in rules.kinds {
            for (path, keys, node) in nodes(kind.pattern, in: root) {
                for account in kind.accounts {
                    switch account {
                    case .key(let names): if names.contains(where: { keys[$0] == Key(uid) }) { writes.append((path, .null)) }
                    case .child(let name, let text):
                        if node.child(Key(name)).leaf == .string(Text(uid)) {
                            writes.append((path.appending(Key(name)), text.map { .string(Text($0)) } ?? .null))
                        }
                    case .by(let name): if node.child(Key(name)).leaf == .string(Text(uid)) { writes.append((path, .null)) }
                    }
                }
            }
        }
        // No writes below a removal.
        let removed = writes.filter { $0.value.isNull }.map(\.path)
        writes = writes.filter { write in !removed.contains { $0 != write.path && $0.contains(write.path) } }
        if !writes.isEmpty { _ = commit(writes, by: .hub, now: now) }
    }

    /// Deploys other rules. Counters are corrected; nodes that first get an expiry relative to their write count as written now; nothing is copied.
    mutating func deploy(_ rules: FollowRules, now: Int64) {
        self.rules = rules
        correct(now)
        var times: [Path: Int64] = [:]
        for kind in rules.kinds where kind.readsWritten {
            for (path, _, _) in nodes(kind.pattern, in: root) { times[path] = written[path] ?? now }
        }
        written = times
    }
}
