import JSONTree

/// Places of the tree that an index knows by some of their keys: where copies of a node may be, where members of a set are.
///
///     copies   timeline/$f/$p           bound: $p         free: $f
///     sets     subscriptions/$u/{tag}   bound: {tag}      free: $u
struct IndexedPlaces: Sendable {
    enum Segment: Sendable {
        case key(Key)
        /// A key by which the place is looked for.
        case bound
        /// One that is found.
        case free
    }

    let segments: [Segment]

    /// Of a copy: looked for by the keys of the node's place that its own has.
    init(_ copy: CopyRule) {
        segments = copy.to.segments.map { segment in
            switch segment {
            case .key(let key): .key(key)
            case .capture(let depth) where depth <= copy.nodeDepth: .bound
            case .capture, .value, .every: .free
            }
        }
    }

    /// Of the members of an inbox's sets: looked for by the member's key, and those that the sets' place has of the node.
    init(_ inbox: InboxRule) {
        segments = inbox.each.segments.map { segment -> Segment in
            switch segment {
            case .key(let key): .key(key)
            case .capture, .value: .bound
            case .every: .free
            }
        } + [.bound]
    }
}
