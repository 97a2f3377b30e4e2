import JSONTree

/// Finds, among thousands of filters on one place, those that a changed child may affect. Uses the child's values, without evaluating the other
/// filters.
///
/// Each filter is listed under one of its conditions: the one that a written child is least likely to fulfil.
///
/// | condition | found by |
/// |---|---|
/// | `==`, `in` | hash of the value |
/// | `has` | hash of each member's key; if there are fewer `has` conditions than members, each condition is tried |
/// | `prefix` | hash of each beginning of the text whose length some condition has |
/// | `<` `<=` `>` `>=` | `IntervalIndex`: both bounds of a path are one range |
/// | `!=` only, or none | always |
///
/// The caller evaluates each filter found, because different values may have equal hashes.
struct PredicateIndex {
    /// The filters under one constant.
    typealias Bag = ContiguousArray<Int>

    /// The conditions on one path.
    struct PathTable {
        let keys: ContiguousArray<Key>
        /// Number of filters listed here.
        var count = 0
        /// Number of conditions on this path in all filters, wherever those are listed. `constants` counts them by the hash of the constant.
        var conditions = 0
        var constants: [Int: Int] = [:]
        var values: [Int: Bag] = [:]
        var members: [Int: (key: Key, slots: Bag)] = [:]
        var prefixes: [Int: Bag] = [:]
        /// Number of prefixes of each length in bytes.
        var lengths: [Int: Int] = [:]
        var ranges = IntervalIndex()

        init(_ keys: ContiguousArray<Key>) { self.keys = keys }

        mutating func insert(_ slot: Int, _ accessPath: AccessPath) {
            count += 1
            switch accessPath {
            case .always: break
            case .values(let constants): for constant in constants { values[constant.hashValue, default: []].append(slot) }
            case .member(let key): members[PredicateIndex.hash(key.text), default: (key, [])].slots.append(slot)
            case .prefix(let text):
                prefixes[PredicateIndex.hash(text), default: []].append(slot)
                lengths[text.utf8Count, default: 0] += 1
            case .range(let low, let high): ranges.insert(slot, low: low, high: high)
            }
        }

        mutating func remove(_ slot: Int, _ accessPath: AccessPath) {
            count -= 1
            switch accessPath {
            case .always: break
            case .values(let constants): for constant in constants { values.remove(slot, constant.hashValue) }
            case .member(let key):
                let hash = PredicateIndex.hash(key.text)
                members[hash]?.slots.removeFirst(slot)
                if members[hash]?.slots.isEmpty == true { members[hash] = nil }
            case .prefix(let text):
                prefixes.remove(slot, PredicateIndex.hash(text))
                let left = (lengths[text.utf8Count] ?? 1) - 1
                lengths[text.utf8Count] = left == 0 ? nil : left
            case .range(let low, _): ranges.remove(slot, low: low)
            }
        }
    }

    /// The access path under which a filter is listed.
    enum AccessPath {
        case values(ContiguousArray<Constant>)
        case member(Key)
        case prefix(Text)
        case range(low: IntervalIndex.End, high: IntervalIndex.End)
        case always
    }

    private struct Access {
        /// Index in `tables`.
        let path: Int
        let accessPath: AccessPath
    }

    private var tables: ContiguousArray<PathTable> = []
    private var tableOf: [ContiguousArray<Key>: Int] = [:]
    private var always: Bag = []
    private var accesses: ContiguousArray<Access?> = []
    private var asked: ContiguousArray<ContiguousArray<Condition>> = []

    // MARK: Adding and removing

    /// - Parameters:
    ///   - slot: identifies the filter in `concerned`: a small number, unique among the filters.
    ///   - conditions: all must hold.
    mutating func insert(_ slot: Int, _ conditions: some Collection<Condition>) {
        let conditions = ContiguousArray(conditions)
        count(conditions, 1)
        let access = access(of: conditions)
        while asked.count <= slot { asked.append([]) }
        asked[slot] = conditions
        while accesses.count <= slot { accesses.append(nil) }
        accesses[slot] = access
        if case .always = access.accessPath { return always.append(slot) }
        tables[access.path].insert(slot, access.accessPath)
    }

    mutating func remove(_ slot: Int) {
        guard slot < accesses.count, let access = accesses[slot] else { return }
        accesses[slot] = nil
        defer {
            count(asked[slot], -1)
            asked[slot] = []
        }
        if case .always = access.accessPath { return always.removeFirst(slot) }
        tables[access.path].remove(slot, access.accessPath)
    }

    /// Chooses the condition that a written child is least likely to fulfil. The more different values filters name on a path, the rarer each is
    /// assumed to be. So `status == open and uid == me` is found by the user.
    private func access(of conditions: some Collection<Condition>) -> Access {
        var best = Access(path: 0, accessPath: .always)
        var probability = 1.0
        func consider(_ chance: Double, _ path: Int, _ accessPath: AccessPath) {
            if chance < probability { (best, probability) = (Access(path: path, accessPath: accessPath), chance) }
        }
        var ranges: [Int: (low: IntervalIndex.End, high: IntervalIndex.End)] = [:]
        for condition in conditions {
            guard let path = tableOf[condition.path.keys] else { continue }
            let different = Double(1 + tables[path].constants.count)
            switch condition.test {
            case .notEqual: break
            case .equal(let constant): consider(1 / different, path, .values([constant]))
            case .oneOf(let constants): consider(min(0.9, Double(constants.count) / different), path, .values(constants))
            // A child has several members.
            case .has(let key): consider(min(0.8, 4 / different), path, .member(key))
            case .prefix(let text): consider(min(0.7, 2 / different), path, .prefix(text))
            case .above(let constant, let orEqual):
                ranges[path, default: (.init(), .init())].low = IntervalIndex.End(constant: constant, orEqual: orEqual)
            case .below(let constant, let orEqual):
                ranges[path, default: (.init(), .init())].high = IntervalIndex.End(constant: constant, orEqual: orEqual)
            }
        }
        for (path, range) in ranges {
            // The selectivity of a range is unknown; a closed one is assumed to contain fewer values.
            let isClosed = range.low.constant != nil && range.high.constant != nil
            consider(isClosed ? 0.1 : 0.5, path, .range(low: range.low, high: range.high))
        }
        return best
    }

    /// Adds a filter's conditions to the statistics of their paths (sign 1), or removes them (-1).
    private mutating func count(_ conditions: ContiguousArray<Condition>, _ sign: Int) {
        for condition in conditions {
            let path = table(condition.path.keys)
            tables[path].conditions += sign
            for hash in condition.test.constantHashes {
                let count = (tables[path].constants[hash] ?? 0) + sign
                tables[path].constants[hash] = count == 0 ? nil : count
            }
        }
    }

    /// The table of a path; the caller must add a condition to it. Reuses a table without conditions.
    private mutating func table(_ keys: ContiguousArray<Key>) -> Int {
        if let known = tableOf[keys] { return known }
        let at = tables.firstIndex { $0.conditions == 0 } ?? tables.count
        if at == tables.count {
            tables.append(PathTable(keys))
        } else {
            tableOf[tables[at].keys] = nil
            tables[at] = PathTable(keys)
        }
        tableOf[keys] = at
        return at
    }

    static func hash(_ text: Text) -> Int { text.withUTF8Bytes { hash($0) } }

    static func hash(_ bytes: UnsafeBufferPointer<UInt8>) -> Int {
        var hasher = Hasher()
        hasher.combine(bytes: UnsafeRawBufferPointer(bytes))
        return hasher.finalize()
    }

    // MARK: Search

    /// Calls `body` with each filter that may select the child before or after a change; for some more than once. O(paths + filters found), without
    /// allocation. The caller retains roots above both.
    /// - Parameters: nil where the child does not exist.
    func concerned(old: NodeCursor?, new: NodeCursor?, _ body: (Int) -> Void) {
        for slot in always { body(slot) }
        tables.withUnsafeBufferPointer { tables in
            for i in tables.indices where tables[i].count > 0 {
                let before = old?.descendant(tables[i].keys)
                let after = new?.descendant(tables[i].keys)
                tables[i].concerned(old != nil, before, new != nil, after, body)
            }
        }
    }
}

extension Condition.Test {
    /// Hashes of the constants that are found by hash; none for ranges.
    fileprivate var constantHashes: [Int] {
        switch self {
        case .equal(let constant): [constant.hashValue]
        case .oneOf(let constants): constants.map(\.hashValue)
        case .has(let key): [PredicateIndex.hash(key.text)]
        case .prefix(let text): [PredicateIndex.hash(text)]
        case .notEqual, .above, .below: []
        }
    }
}

extension Dictionary where Key == Int, Value == ContiguousArray<Int> {
    fileprivate mutating func remove(_ slot: Int, _ hash: Int) {
        self[hash]?.removeFirst(slot)
        if self[hash]?.isEmpty == true { self[hash] = nil }
    }
}

extension ContiguousArray<Int> {
    /// Removes one occurrence. Changes the order of the others.
    fileprivate mutating func removeFirst(_ slot: Int) {
        guard let at = firstIndex(of: slot) else { return }
        swapAt(at, count - 1)
        removeLast()
    }
}

extension Text {
    fileprivate func withUTF8Bytes<R>(_ body: (UnsafeBufferPointer<UInt8>) -> R) -> R {
        withUnsafePointer(to: self) { TextCursor($0).withBytes(body) }
    }
}
