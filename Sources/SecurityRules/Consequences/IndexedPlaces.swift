import JSONTree

/// Places that `CopyIndex` finds by some of their keys: possible copies of a node, and members of a set.
///
///     copies   timeline/$f/$p           bound: $p         free: $f
///     sets     subscriptions/$u/{tag}   bound: {tag}      free: $u
struct IndexedPlaces: Sendable {
    enum Segment: Sendable {
        case key(Key)
        /// A lookup key.
        case bound
        /// A key that the lookup yields.
        case free
    }

    let segments: [Segment]

    /// The places of a copy: the lookup keys are those that it shares with the node's place.
    init(_ copy: CopyRule) {
        segments = copy.to.segments.map { segment in
            switch segment {
            case .key(let key): .key(key)
            case .capture(let depth) where depth <= copy.nodeDepth: .bound
            case .generated: .bound
            case .capture, .value, .every: .free
            }
        }
    }

    /// The members of an inbox's sets: the lookup keys are the member's key, and the keys of the sets' place that come from the node.
    init(_ inbox: InboxRule) {
        segments = inbox.each.segments.map { segment -> Segment in
            switch segment {
            case .key(let key): .key(key)
            case .capture, .value: .bound
            // `each` has no generated keys.
            case .every, .generated: .free
            }
        } + [.bound]
    }
}
