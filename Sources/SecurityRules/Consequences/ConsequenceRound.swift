import JSONTree

/// Which consequences of a commit's removals a round computes.
enum RemovalScope {
    case all
    /// Skips the consequences of removals at, below, or emptied above these places, and their counters. They follow in later commits.
    case without(Set<Path>)
    /// Only the consequences of removals.
    case only
}

/// Computes the direct consequences of some writes.
struct ConsequenceRound {
    let program: Program
    /// The trees before and after the writes.
    let before: Node
    var after: Node
    /// The consequences of all rounds so far.
    var result: Consequences
    let limits: ConsequenceLimits
    /// The tree before the commit, and the one with its writes, without consequences.
    let base: Node
    let candidate: Node
    /// The commit's time, for conditions. Ms since the epoch.
    let now: Int64
    /// The index of the copies in `base`.
    let index: CopyIndex?
    private let scope: RemovalScope
    /// The author of the commit's own writes; nil when the writes are themselves consequences.
    private let firstAuthor: ConsequenceAuthor?
    /// The text work that conditions of counters may still use.
    var textWork: Int
    /// The keys from the root to the current place.
    var keys: ContiguousArray<Key> = []
    /// Removed places already processed: several writes may lead to one.
    private var seen: Set<Path> = []
    /// Set members already processed.
    var seenMembers: Set<SetMember> = []
    /// The changes of counters, and their places in the order they were found.
    var countings: [Path: Counting] = [:]
    var order: [Path] = []
    /// The nodes that counters create, among those processed, with their rule nodes.
    var created: [Path: Int32] = [:]

    /// Nodes whose copies were already processed.
    var seenSources: Set<Path> = []
    /// The last written value and its cost: the copies of a node all have the same value.
    private var priced: (value: Node, bytes: Int)?

    /// Whether this round processes the commit's own writes.
    var isFirst: Bool { firstAuthor != nil }
    var author: ConsequenceAuthor { firstAuthor ?? .hub }
    var tables: ProgramTables { program.tables }

    init(
        _ program: Program, before: Node, after: Node, _ result: Consequences, _ limits: ConsequenceLimits, first: ConsequenceAuthor?,
        textWork: Int, base: Node, candidate: Node, now: Int64, index: CopyIndex?, scope: RemovalScope = .all
    ) {
        (self.base, self.candidate, self.now, self.index, self.scope) = (base, candidate, now, index, scope)
        firstAuthor = first
        self.textWork = textWork
        self.program = program
        self.before = before
        self.after = after
        self.result = result
        self.limits = limits
    }

    mutating func run(_ locations: [Path]) throws(ConsequenceFault) {
        if isFirst { try chargeSteps(locations.count, 0, program.counters.isEmpty ? program.copies ? .copy : .removes : .counts) }
        if tables.places[0].createsNodes, !processesRemovalsOnly, !isFirst || author != .hub {
            try restoreCounters(locations.filter { !isLater($0) })
        }
        for location in locations { try removals(at: location) }
        if !program.counters.isEmpty, !processesRemovalsOnly { try count(locations.filter { !isLater($0) }) }
        if program.copies { try copy(locations) }
    }

    /// Whether the consequences of removing a place follow in later commits.
    func isLater(_ location: Path) -> Bool { if case .without(let places) = scope { places.contains(location) } else { false } }

    /// Whether the round computes only the consequences of removals.
    var processesRemovalsOnly: Bool { if case .only = scope { true } else { false } }

    // MARK: Removals

    /// Processes the `.removes` of the nodes at the location, above it and below it.
    private mutating func removals(at location: Path) throws(ConsequenceFault) {
        keys = []
        let isLater = isLater(location)
        var place: Int32 = 0
        var (was, isNow) = (before, after)
        for (level, key) in location.keys.enumerated() {
            guard mayRemove(place, was, isNow) else { return }
            if level > 0, isNow.exists || !isLater { try removals(of: place, was, isNow) }
            keys.append(key)
            place = child(of: place, key)
            if place < 0 { return }
            (was, isNow) = (was.child(key), isNow.child(key))
        }
        if !isLater { try removals(place, was, isNow) }
    }

    /// Whether nodes at a place or below it may have a `.removes` that applies.
    private func mayRemove(_ place: Int32, _ was: Node, _ isNow: Node) -> Bool {
        let rules = tables.places[Int(place)]
        return rules.removes && was.exists || rules.removesOnChange && isNow.exists && !processesRemovalsOnly
    }

    /// Processes the nodes at a place and below it.
    private mutating func removals(_ place: Int32, _ was: Node, _ isNow: Node) throws(ConsequenceFault) {
        guard mayRemove(place, was, isNow), !was.isIdentical(to: isNow) else { return }
        if !keys.isEmpty { try removals(of: place, was, isNow) }
        guard was.hasChildren || isNow.hasChildren else { return }
        let rules = tables.places[Int(place)]
        guard rules.wildcard >= 0, tables.places[Int(rules.wildcard)].removes else {
            for i in Int(rules.firstLiteral)..<Int(rules.firstLiteral + rules.literalCount) {
                let literal = tables.literals[i]
                let key = tables.keys[Int(literal.key)]
                try descend(key, literal.place, was.child(key), isNow.child(key))
            }
            return
        }
        try chargeKeys(was.childCount, place, .removes)
        for (key, node) in was.children { try descend(key, child(of: place, key), node, isNow.child(key)) }
        guard rules.removesOnChange, !processesRemovalsOnly else { return }
        try chargeKeys(isNow.childCount, place, .removes)
        for (key, node) in isNow.children where was.child(key).isNull { try descend(key, child(of: place, key), .null, node) }
    }

    private mutating func descend(_ key: Key, _ place: Int32, _ was: Node, _ isNow: Node) throws(ConsequenceFault) {
        guard place >= 0 else { return }
        keys.append(key)
        defer { keys.removeLast() }
        try removals(place, was, isNow)
    }

    /// Writes the targets of the current node's `.removes` that apply.
    private mutating func removals(of place: Int32, _ was: Node, _ isNow: Node) throws(ConsequenceFault) {
        let event: RemovalRule.Event = isNow.isNull ? .removal : .change
        let rules = program.details[Int(place)].removes
        guard rules.contains(where: { $0.event == event }), was.exists || isNow.exists, !was.isIdentical(to: isNow),
            !(processesRemovalsOnly && event == .change), seen.insert(Path(keys)).inserted
        else { return }
        try chargeSteps(rules.reduce(0) { $0 + $1.to.count }, place, .removes)
        // What is removed was stored before, so former values name its place.
        let named = was.exists ? was : isNow
        for rule in rules where rule.event == event {
            guard try applies(rule, place) else { continue }
            // A value that is not a legal key names no place, and must not prevent the removal of its node.
            for template in rule.to where isNamed(template, by: named, place, .removes) {
                if event == .change, limits.defersAll {
                    if let target = try pattern(template, named, place) { result.deferredTargets.append(target) }
                    continue
                }
                var targets: [Path] = []
                try expand(template, 0, of: named, place, .removes, result.tree, .root, &targets)
                for target in targets { try write(.null, at: target, place, .removes) }
            }
        }
    }

    /// The template with a node's values filled in, and `$` for every key; nil if a value is missing.
    private func pattern(_ template: PathTemplate, _ node: Node, _ place: Int32) throws(ConsequenceFault) -> Path? {
        var found = ContiguousArray<Key>()
        for segment in template.segments {
            switch segment {
            case .key(let key): found.append(key)
            case .capture(let depth): found.append(keys[depth - 1])
            case .every: found.append(ContinuedRemovals.wildcard)
            case .generated(let name): found.append(GeneratedKey.of(keys, name))
            case .value(let field):
                guard let key = try key(node.node(at: field), place, .removes) else { return nil }
                found.append(key)
            }
        }
        return Path(found)
    }

    /// Whether the `if` of a `.removes` holds for the current node. One that fails, or needs too much work by itself, does not.
    private mutating func applies(_ rule: RemovalRule, _ place: Int32) throws(ConsequenceFault) -> Bool {
        guard rule.condition >= 0 else { return true }
        result.evaluated += 1
        let most = RulesLimits.rowTextWork
        var work = 0
        let holds = Evaluator.run(program, old: base, new: after, auth: RuleSet.hubAuth, now: now, query: nil) { evaluator in
            evaluator.textWork = most
            defer { work = most - evaluator.textWork }
            return keys.withUnsafeBufferPointer { keys in
                evaluator.descend(keys)
                do throws(Fault) { return try evaluator.boolean(rule.condition) } catch { return false }
            }
        }
        // What follows in later commits has no common bound: it must not be lost.
        if !processesRemovalsOnly { textWork -= work }
        if textWork <= 0 { throw fault(.tooMuchWork, place, .removes) }
        return holds
    }

    // MARK: Writes

    mutating func write(_ value: Node, at path: Path, _ place: Int32, _ kind: ConsequenceKind) throws(ConsequenceFault) {
        if try record(value, at: path, place, kind) { result.tree.set(value, at: path) }
    }

    /// Writes one value at several distinct places of the same depth.
    mutating func write(_ value: Node, atEach paths: [Path], _ place: Int32, _ kind: ConsequenceKind) throws(ConsequenceFault) {
        // Most places are new. If all fit within the bounds, writing them finds the new ones; otherwise the bounds are checked one by one.
        if let first = paths.first, !result.tree.exists(at: first), hasRoom(for: value, at: paths) {
            for path in result.tree.set(value, atEach: paths) { try add(value, at: path, place, kind) }
        } else {
            var changed: [Path] = []
            for path in paths where try record(value, at: path, place, kind) { changed.append(path) }
            result.tree.set(value, atEach: changed)
        }
    }

    /// Adds a write to the result, without applying it to the tree.
    /// - Returns: false if the place already has the value.
    private mutating func record(_ value: Node, at path: Path, _ place: Int32, _ kind: ConsequenceKind) throws(ConsequenceFault) -> Bool {
        // An earlier target may lie above this one. Most targets are new.
        guard result.tree.exists(at: path) ? result.tree.node(at: path) != value : value.exists else { return false }
        try add(value, at: path, place, kind)
        return true
    }

    private mutating func add(_ value: Node, at path: Path, _ place: Int32, _ kind: ConsequenceKind) throws(ConsequenceFault) {
        guard result.writes.count < limits.writes else { throw fault(.tooManyWrites(limits.writes), place, kind) }
        try pay(for: value, at: path, place, kind)
        result.writes.append(SystemWrite(path: path, value: value, kind: kind, pattern: program.details[Int(place)].pattern))
    }

    /// Whether writing the value at all places stays within the bounds.
    private func hasRoom(for value: Node, at paths: [Path]) -> Bool {
        guard result.writes.count + paths.count <= limits.writes else { return false }
        let room = paths.reduce(limits.bytes - result.bytes) { $0 - $1.memoryBytes }
        return Self.bytes(of: value, atMost: room).map { $0 * paths.count <= room } ?? false
    }

    mutating func pay(for value: Node, at path: Path, _ place: Int32, _ kind: ConsequenceKind) throws(ConsequenceFault) {
        let room = limits.bytes - result.bytes - path.memoryBytes
        let known = priced.flatMap { $0.value.isSameObject(as: value) ? $0.bytes : nil }
        guard let bytes = known ?? Self.bytes(of: value, atMost: room), bytes <= room else {
            throw fault(.tooManyBytes(limits.bytes), place, kind)
        }
        if known == nil { priced = (value, bytes) }
        result.bytes = limits.bytes - room + bytes
    }

    /// The cost of a value in bytes; nil if more than `most`.
    private static func bytes(of value: Node, atMost most: Int) -> Int? {
        var left = most
        let mostNodes = most / bytesOfNode
        var nodes = mostNodes
        guard value.isWithin(&left), value.hasNodes(within: &nodes) else { return nil }
        return most - left + (mostNodes - nodes) * bytesOfNode
    }

    /// The cost of each node in addition to its bytes.
    private static let bytesOfNode = 32

    /// Finds the existing places that match a template.
    /// - Parameter around: restricts the search to places at, above or below this one.
    mutating func expand(
        _ template: PathTemplate, _ i: Int, of node: Node, _ place: Int32, _ kind: ConsequenceKind, _ tree: Node, _ path: Path,
        around: Path = .root, _ found: inout [Path]
    ) throws(ConsequenceFault) {
        guard tree.exists else { return }
        guard i < template.segments.count else { return found.append(path) }
        let only = i < around.depth ? around.keys[i] : nil
        var named: Key?
        switch template.segments[i] {
        case .every: named = only
        case .key(let key): named = key
        // A wildcard of `each` ranges over every key: there may be a copy at each.
        case .capture(let depth): named = depth <= keys.count ? keys[depth - 1] : only
        case .value(let field):
            guard let key = try self.key(node.node(at: field), place, kind) else { return }
            named = key
        case .generated(let name): named = GeneratedKey.of(keys, name)
        }
        if let named {
            guard only == nil || only == named else { return }
            return try expand(template, i + 1, of: node, place, kind, tree.child(named), path.appending(named), around: around, &found)
        }
        guard tree.hasChildren else { return }
        try chargeKeys(tree.childCount, place, kind)
        for (key, child) in tree.children {
            try expand(template, i + 1, of: node, place, kind, child, path.appending(key), around: around, &found)
        }
    }

    /// The key that a value names; nil if the value is absent.
    func key(_ value: Node, _ place: Int32, _ kind: ConsequenceKind) throws(ConsequenceFault) -> Key? {
        let key: Key
        switch value.leaf {
        case .string(let text): key = Key(text.string)
        case .int(let number): key = Key(String(number))
        case .null where !value.hasChildren: return nil
        default: throw fault(.illegalKey(value.hasChildren ? "{…}" : value.json), place, kind)
        }
        guard key.isValid else { throw fault(.illegalKey(key.string), place, kind) }
        return key
    }

    // MARK: Bounds

    mutating func chargeKeys(_ count: Int, _ place: Int32, _ kind: ConsequenceKind) throws(ConsequenceFault) {
        result.keysScanned += count
        guard result.keysScanned <= limits.keys else { throw fault(.tooManyKeys(limits.keys), place, kind) }
    }

    mutating func chargeSteps(_ count: Int, _ place: Int32, _ kind: ConsequenceKind) throws(ConsequenceFault) {
        result.stepCount += count
        guard result.stepCount <= limits.stepCount else { throw fault(.tooManyProcessed(limits.stepCount), place, kind) }
    }

    func fault(_ reason: ConsequenceFault.Reason, _ place: Int32, _ kind: ConsequenceKind) -> ConsequenceFault {
        ConsequenceFault(reason: reason, rule: "\(program.details[Int(place)].pattern)\(kind.rawValue)", path: Path(keys))
    }

    func child(of place: Int32, _ key: Key) -> Int32 { withUnsafePointer(to: key) { tables.child(of: place, TextCursor($0)) } }
}
