public import JSONTree

/// How the search for a query's children starts, for callers that request `explain`.
public struct QueryExplanation: Sendable, Equatable {
    public enum Start: String, Sendable {
        /// No query: the place itself.
        case place
        /// An index of the rules, by a condition.
        case index
        /// The order of the query.
        case order
        /// The points of the children: `.geoIndex`.
        case points
        /// Every child.
        case children
    }

    /// Nil for callers that may not read the whole place: the choice of a start reveals children that the query need not show.
    public var start: Start?
    /// The name of the index or the order, such as `a/b`, `.key` or `.geoIndex`.
    public var index: String?
    /// True if the rules declare it. Without a start, true if they declare the query's order or one of its conditions.
    public var isDeclared = true
    /// Estimated number of visited children; nil if not yet known.
    public var visits: Int?
    /// Number of children of the place.
    public var children: Int?
    /// Number of children held for an observer.
    public var held: Int?

    package init(
        start: Start? = nil, index: String? = nil, isDeclared: Bool = true, visits: Int? = nil, children: Int? = nil, held: Int? = nil
    ) {
        self.start = start
        self.index = index
        self.isDeclared = isDeclared
        self.visits = visits
        self.children = children
        self.held = held
    }

    /// As sent to the client. Without a start, contains nothing that depends on the data.
    public var node: Node {
        guard let start else { return .object([(Key("declared"), Node.bool(isDeclared))]) }
        var members: [(Key, Node)] = [("start", .string(Text(start.rawValue)))]
        if let index { members.append(("index", .string(Text(index)))) }
        if !isDeclared { members.append(("declared", .bool(false))) }
        for (name, number) in [("looks", visits), ("children", children), ("held", held)] as [(Key, Int?)] {
            if let number { members.append((name, .int(Int64(number)))) }
        }
        return .object(members)
    }
}
