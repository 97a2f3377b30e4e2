/// What is known of an expression before it runs (rules contract §4).
enum StaticType: Equatable {
    case boolean, number, string, null, regex, array, snapshot
    /// A method that was mentioned; it can only be called.
    case method
    /// `val()` and `getPriority()`: any leaf, or the token of a node with children.
    case value
    /// `auth` and whatever is reached from it.
    case auth
    case query
    /// A field of `query` that is no flag.
    case queryValue
    /// A conditional whose branches differ.
    case mixed

    /// May stand beside `==` and `!=`.
    var isEquatable: Bool {
        switch self {
        case .boolean, .number, .string, .null, .value, .auth, .queryValue, .mixed: true
        default: false
        }
    }

    /// May be ordered and added; what it really is shows at run time.
    var isOrderable: Bool {
        switch self {
        case .number, .string, .value, .auth, .queryValue, .mixed: true
        default: false
        }
    }

    var isNumeric: Bool { isOrderable && self != .string }

    /// May be an argument where a string is wanted.
    var isTextual: Bool {
        switch self {
        case .string, .value, .auth, .mixed: true
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
