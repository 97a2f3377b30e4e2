public import JSONTree

/// The `query` variable of a rule: the parameters of the read it decides (rules contract §11).
public struct QueryVariables: Sendable {
    public var orderByKey: Bool
    public var orderByValue: Bool
    public var orderByPriority: Bool
    /// The child path as it was given, such as `address/zip`.
    public var orderByChild: String?
    public var startAt: Node?
    public var endAt: Node?
    /// Set when the read asks for one value, which on the wire is a start equal to its end.
    public var equalTo: Node?
    public var limitToFirst: Int?
    public var limitToLast: Int?
    /// Whether the read asks for a circle, or for what is nearest.
    public var near: Bool
    /// The metres of the circle; nil for the nearest anywhere.
    public var radius: Double?
    /// How many of the nearest.
    public var nearest: Int?
    /// The `==` conditions of `where`: a boolean, number, text or null for a path below each child.
    public var conditions: [Path: Node]
    /// The paths of the conditions that ask something else; rules do not see them, `.count` has them declared.
    public var otherConditions: Set<Path> = []

    public init(
        orderByKey: Bool = false, orderByValue: Bool = false, orderByPriority: Bool = false, orderByChild: String? = nil,
        startAt: Node? = nil, endAt: Node? = nil, equalTo: Node? = nil, limitToFirst: Int? = nil, limitToLast: Int? = nil,
        near: Bool = false, radius: Double? = nil, nearest: Int? = nil, conditions: [Path: Node] = [:]
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
        self.nearest = nearest
        self.conditions = conditions
    }

    /// A plain read, and every write.
    public static let none = QueryVariables()
    /// The same at a fixed address, for evaluations.
    // unsafe: written here only, before anyone has it.
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
        case .limit: (limitToFirst ?? limitToLast ?? nearest).map { .int(Int64($0)) } ?? .null
        }
    }
}
