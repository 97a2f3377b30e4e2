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

    public init(
        orderByKey: Bool = false, orderByValue: Bool = false, orderByPriority: Bool = false, orderByChild: String? = nil,
        startAt: Node? = nil, endAt: Node? = nil, equalTo: Node? = nil, limitToFirst: Int? = nil, limitToLast: Int? = nil
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
    }

    /// A plain read, and every write.
    public static let none = QueryVariables()

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
        }
    }
}
