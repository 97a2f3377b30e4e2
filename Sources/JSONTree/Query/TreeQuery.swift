/// A query as the client sent it (contract §3.1). Absent members stay nil, because a cancel push must repeat the query exactly (contract
/// §2.3). The computed members give the meaning.
public struct TreeQuery: Sendable, Hashable {
    /// `i`: the order of the children.
    public enum Index: Sendable, Hashable {
        case key
        case value
        case priority
        /// The node at this path below each child.
        case child(Path)
    }

    /// One end of the range.
    public struct Bound: Sendable, Hashable {
        /// `sp` / `ep`: a leaf, or null, which is also a valid bound and sorts first.
        public var value: Node
        /// `sn` / `en`: breaks ties among equal values. May be `[MIN_NAME]`, `[MAX_NAME]`, `[MAX_KEY]`, or longer than a valid key: compare it by
        /// key order, but do not validate it.
        public var key: Key?
        /// `sin` / `ein` as sent.
        public var inclusive: Bool?

        /// Absent means inclusive.
        public var isInclusive: Bool { inclusive ?? true }

        public init(value: Node, key: Key? = nil, inclusive: Bool? = nil) {
            self.value = value
            self.key = key
            self.inclusive = inclusive
        }

        public static func == (one: Bound, other: Bound) -> Bool {
            one.value == other.value && one.key == other.key && one.inclusive == other.inclusive
        }

        public func hash(into hasher: inout Hasher) {
            switch value {
            case .bool(let flag): hasher.combine(flag)
            case .int(let number): hasher.combine(number)
            case .double(let number): hasher.combine(number)
            case .string(let text): hasher.combine(text)
            case .null, .object, .packed, .prioritized: break
            }
            hasher.combine(key)
            hasher.combine(inclusive)
        }
    }

    /// `vf`: which side a limit keeps.
    public enum Side: String, Sendable, Hashable {
        case first = "l"
        case last = "r"
    }

    /// `i`; nil means the priority index.
    public var index: Index?
    public var start: Bound?
    public var end: Bound?
    /// `l`: greater than 0.
    public var limit: Int?
    public var viewFrom: Side?

    public init(index: Index? = nil, start: Bound? = nil, end: Bound? = nil, limit: Int? = nil, viewFrom: Side? = nil) {
        self.index = index
        self.start = start
        self.end = end
        self.limit = limit
        self.viewFrom = viewFrom
    }

    /// `i` with its default.
    public var orderedBy: Index { index ?? .priority }
    /// The side a limit keeps: `vf`, or by the legacy default the first children if there is a start bound, otherwise the last.
    public var keeps: Side { viewFrom ?? (start == nil ? .last : .first) }
    /// Whether the query selects everything: no range and no limit, in any order (contract §2.2).
    public var isDefault: Bool { start == nil && end == nil && limit == nil }
}
