import JSONTree

/// The expiring nodes, ordered by check time: when to check whether a node is due. The check time is never later than the due time, but may
/// be earlier. So a node that is rewritten often, each time with a later due time, costs nothing here until its first check time.
///
/// A search of the whole tree, in the background, fills an index of its own. Changes by commits during the search are kept here.
///
/// ```
/// beginSearch ─► commits: into a new layer; earlier layers are still checked ─► adopt ─► that layer plus the index found
/// ```
/// A value type; O(log n) for all but `adopt`.
struct ExpiryIndex: Sendable {
    /// The newest first. One before any search; a second one, the found index, after it; at most three while another search runs.
    private var layers = [ExpiryLayer()]
    private let most: Int
    /// Nodes due at or after this time may be missing, because the index was full. They must be searched for before then.
    private(set) var horizon = Int64.max

    /// Above this number of nodes changed during a search, their layer is kept instead of being merged.
    private static let mergedAtOnce = 500

    /// - Parameter most: nodes kept, at most: the earliest ones.
    init(most: Int) { self.most = most }

    /// Number of nodes. A node that a commit changed during a search may count twice.
    var count: Int { layers.reduce(0) { $0 + $1.count } }

    /// Sets when a node must be checked, at the latest; nil for never.
    mutating func set(_ path: Path, _ time: Int64?) {
        let place = ExpiryPlace(path)
        guard let time else { return remove(place) }
        if let known = self.time(of: place) {
            if known <= time { return }
            remove(place)
        } else if time >= horizon {
            return
        }
        layers[0].set(place, time)
        // Two per call, so that the count shrinks after commits have changed many nodes during a search.
        for _ in 0..<2 where count > most { removeLast() }
    }

    private func time(of place: ExpiryPlace) -> Int64? {
        var earliest: Int64?
        for layer in layers { if let time = layer.time(of: place), time < earliest ?? .max { earliest = time } }
        return earliest
    }

    private mutating func remove(_ place: ExpiryPlace) { for i in layers.indices { layers[i].set(place, nil) } }

    private mutating func removeLast() {
        var last: (entry: ExpiryEntry, layer: Int)?
        for i in layers.indices {
            guard let entry = layers[i].last, last.map({ $0.entry < entry }) ?? true else { continue }
            last = (entry, i)
        }
        guard let (entry, i) = last else { return }
        layers[i].set(entry.place, nil)
        horizon = min(horizon, entry.time)
    }

    /// Whether a node is to be checked by this time, or may be missing from the index.
    func waits(_ path: Path, by time: Int64) -> Bool { self.time(of: ExpiryPlace(path)).map { $0 <= time } ?? (horizon <= time) }

    /// When the next node must be checked, or the nodes beyond the horizon.
    var next: Int64? {
        mutating get {
            var next = horizon
            for i in layers.indices { if let first = layers[i].first { next = min(next, first.time) } }
            return next == .max ? nil : next
        }
    }

    /// Removes and returns the first node, if its check time has come.
    mutating func pop(by now: Int64) -> (path: Path, time: Int64)? {
        var first: ExpiryEntry?
        for i in layers.indices {
            if let entry = layers[i].first, entry.time <= now, first.map({ entry < $0 }) ?? true { first = entry }
        }
        guard let first else { return nil }
        remove(first.place)
        return (first.place.path, first.time)
    }

    // MARK: All nodes

    /// Starts a search of all nodes. Later changes stay in a layer in front of its result.
    mutating func beginSearch() {
        horizon = .max
        // A restarted search keeps the layer with the changes since the first start.
        if layers.count < 3, layers[0].count > 0 { layers.insert(ExpiryLayer(), at: 0) }
    }

    /// Adopts the result of a search: every node, in some state since the search began. O(1), and up to `mergedAtOnce` nodes
    /// - Parameter found: receives the layers no longer needed, to be released elsewhere. It must be uniquely referenced, or it is copied.
    mutating func adopt(_ found: inout ExpiryIndex) {
        horizon = min(horizon, found.horizon)
        swap(&layers, &found.layers)
        let changed = found.layers.removeFirst()
        guard changed.count <= Self.mergedAtOnce else { return layers.insert(changed, at: 0) }
        for entry in changed.entries { set(entry.place.path, entry.time) }
    }
}

/// The path of a node with its hash, because it is looked up several times.
struct ExpiryPlace: Hashable, Sendable {
    let path: Path
    let hash: Int

    init(_ path: Path) { (self.path, hash) = (path, path.hashValue) }

    static func == (a: ExpiryPlace, b: ExpiryPlace) -> Bool { a.hash == b.hash && a.path == b.path }
    func hash(into hasher: inout Hasher) { hasher.combine(hash) }
}

struct ExpiryEntry: Comparable, Sendable {
    let time: Int64
    let place: ExpiryPlace

    static func == (a: ExpiryEntry, b: ExpiryEntry) -> Bool { a.time == b.time && a.place == b.place }
    static func < (a: ExpiryEntry, b: ExpiryEntry) -> Bool { a.time != b.time ? a.time < b.time : a.place.path < b.place.path }
}
