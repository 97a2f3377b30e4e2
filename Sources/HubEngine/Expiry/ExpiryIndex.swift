import JSONTree

/// The nodes that are to end by time, by the time at which each is to be looked at: never later than it is due, perhaps earlier. So a node
/// that is written again and again, each time due later, costs nothing here until its first time comes.
///
/// All nodes of a tree are found beside the queue, into an index of their own; what commits change meanwhile is kept here.
///
/// ```
/// beginSearch ─► commits: into a new layer; those of before go on to be looked at ─► adopt ─► that layer, the one that was found
/// ```
/// A value; O(log n) for all but `adopt`.
struct ExpiryIndex: Sendable {
    /// The newest first: one while nothing was ever looked for, or the one that was found behind it; three at most, while all is looked
    /// for again.
    private var layers = [ExpiryLayer()]
    private let most: Int
    /// Nodes that are due from then on may be missing, as there are more than may be kept: they are to be looked for before.
    private(set) var horizon = Int64.max

    /// Nodes that commits have changed during a search, up to which they are put where the others are.
    private static let mergedAtOnce = 500

    /// - Parameter most: nodes that are kept, the earliest.
    init(most: Int) { self.most = most }

    /// How many nodes there are; one that commits have changed while all were looked for may count twice.
    var count: Int { layers.reduce(0) { $0 + $1.count } }

    /// A node is to be looked at by a time; nil: not at all.
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
        // Two, so that it comes down where commits have changed many during a search.
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

    /// Whether a node is to be looked at by a time, or may be missing.
    func waits(_ path: Path, by time: Int64) -> Bool { self.time(of: ExpiryPlace(path)).map { $0 <= time } ?? (horizon <= time) }

    /// When the next node is to be looked at, or those beyond the horizon.
    var next: Int64? {
        mutating get {
            var next = horizon
            for i in layers.indices { if let first = layers[i].first { next = min(next, first.time) } }
            return next == .max ? nil : next
        }
    }

    /// Takes the first node out, if its time has come.
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

    /// All nodes are looked for from now on; what is set from then on stays beside what is found.
    mutating func beginSearch() {
        horizon = .max
        // One that begins again goes on with what was changed since the first.
        if layers.count < 3, layers[0].count > 0 { layers.insert(ExpiryLayer(), at: 0) }
    }

    /// All nodes were found, each as it was at some time since the search began. O(1), and up to `mergedAtOnce` nodes
    /// - Parameter found: afterwards what is not needed any more, to be let go of elsewhere. Nobody else holds it, or it would be copied.
    mutating func adopt(_ found: inout ExpiryIndex) {
        horizon = min(horizon, found.horizon)
        swap(&layers, &found.layers)
        let changed = found.layers.removeFirst()
        guard changed.count <= Self.mergedAtOnce else { return layers.insert(changed, at: 0) }
        for entry in changed.entries { set(entry.place.path, entry.time) }
    }
}

/// The place of a node, with its hash: it is looked up several times.
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
