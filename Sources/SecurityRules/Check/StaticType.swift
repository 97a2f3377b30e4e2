/// The static type of an expression (rules contract §4).
enum StaticType: Equatable {
    case boolean, number, string, null, regex, array, snapshot
    /// A method that is not called yet; calling it is the only valid use.
    case method
    /// `val()` and `getPriority()`: any leaf, or the token of a node with children.
    case value
    /// `auth` and its members.
    case auth
    case query
    /// A field of `query` other than a flag: a leaf of unknown type.
    case queryValue
    /// A conditional whose branches differ.
    case mixed

    /// Whether it may be an operand of `==` and `!=`.
    var isEquatable: Bool {
        switch self {
        case .boolean, .number, .string, .null, .value, .auth, .queryValue, .mixed: true
        default: false
        }
    }

    /// Whether it may be ordered and added; the run-time type may still make it fail.
    var isOrderable: Bool {
        switch self {
        case .number, .string, .value, .auth, .queryValue, .mixed: true
        default: false
        }
    }

    var isNumeric: Bool { isOrderable && self != .string }

    /// Whether it may be a string argument.
    var isTextual: Bool {
        switch self {
        case .string, .value, .auth, .queryValue, .mixed: true
        default: false
        }
    }

    /// The type of `c ? a : b`.
    static func joined(_ a: StaticType, _ b: StaticType) -> StaticType {
        if a == b { return a }
        for type in [a, b] where type == .string || type == .value || type == .auth { return .value }
        return .mixed
    }
}
