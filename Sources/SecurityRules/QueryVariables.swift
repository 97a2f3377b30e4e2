public import JSONTree

/// The `query` variable of a rule: the parameters of the read it decides (rules contract §11).
public struct QueryVariables: Sendable {
    public var orderByKey: Bool
    public var orderByValue: Bool
    public var orderByPriority: Bool
    /// The child path as the client sent it, such as `address/zip`.
    public var orderByChild: String?
    public var startAt: Node?
    public var endAt: Node?
    /// Set when the read selects one value, which the wire protocol sends as equal start and end.
    public var equalTo: Node?
    public var limitToFirst: Int?
    public var limitToLast: Int?
    /// Whether the read selects a circle, or the nearest children.
    public var near: Bool
    /// The radius of the circle in metres; nil for the nearest at any distance. Of a region, that of a circle around it.
    public var radius: Double?
    /// The kind of the region that the read selects: `box`, `polygon` or `circle`; nil without one.
    public var within: String?
    /// The limit of a search for the nearest.
    public var nearest: Int?
    /// The `==` conditions of `where`: a boolean, number, text or null for a path below each child.
    public var conditions: [Path: Node]
    /// The paths of conditions other than `==`. Rules do not see them, but `.count` requires them to be declared.
    public var otherConditions: Set<Path> = []

    public init(
        orderByKey: Bool = false, orderByValue: Bool = false, orderByPriority: Bool = false, orderByChild: String? = nil,
        startAt: Node? = nil, endAt: Node? = nil, equalTo: Node? = nil, limitToFirst: Int? = nil, limitToLast: Int? = nil,
        near: Bool = false, radius: Double? = nil, within: String? = nil, nearest: Int? = nil, conditions: [Path: Node] = [:]
    ) {
        self.orderByKey = orderByKey
        self.orderByValue = orderByValue
        self.orderByPriority = orderByPriority
        self.orderByChild = orderByChild
        self.startAt = startAt
        self.endAt = endAt
        self.equalTo = equalTo
        self.limitToFirst = limitToFirst
        self.limitToLast = limitToLast
        self.near = near
        self.radius = radius
        self.within = within
        self.nearest = nearest
        self.conditions = conditions
    }

    /// The variables as rules see them: equal start and end are one value, because the wire protocol cannot distinguish these.
    public var asSeen: QueryVariables {
        guard let startAt, startAt == endAt else { return self }
        var seen = self
        (seen.startAt, seen.endAt, seen.equalTo) = (nil, nil, startAt)
        return seen
    }

    /// The kinds of regions.
    public static let kinds = ["box", "polygon", "circle"]

    /// The variables of a plain read and of every write.
    public static let none = QueryVariables()
    /// `none` at a fixed address, for evaluations.
    // unsafe: written only here, before it is shared.
    nonisolated(unsafe) static let plain: UnsafePointer<QueryVariables> = {
        let plain = UnsafeMutablePointer<QueryVariables>.allocate(capacity: 1)
        plain.initialize(to: .none)
        return UnsafePointer(plain)
    }()

    /// The field's value; null where the read does not set it.
    func value(_ field: QueryField) -> Node {
        switch field {
        case .orderByKey: .bool(orderByKey)
        case .orderByValue: .bool(orderByValue)
        case .orderByPriority: .bool(orderByPriority)
        case .orderByChild: orderByChild.map { .string($0) } ?? .null
        case .startAt: startAt ?? .null
        case .endAt: endAt ?? .null
        case .equalTo: equalTo ?? .null
        case .limitToFirst: limitToFirst.map { .int(Int64($0)) } ?? .null
        case .limitToLast: limitToLast.map { .int(Int64($0)) } ?? .null
        case .near: .bool(near)
        case .radius: radius.map { .number($0) } ?? .null
        case .within: within.map { .string($0) } ?? .null
        case .limit: (limitToFirst ?? limitToLast ?? nearest).map { .int(Int64($0)) } ?? .null
        }
    }
}
