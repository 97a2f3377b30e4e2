/// Why an operation failed: then the whole rule is not true (rules contract §5.2).
public enum FaultReason: UInt8, Error, Sendable, Hashable {
    /// `< <= > >=` over null, a boolean, an object, or a number and a string.
    case notComparable
    /// `+` over null, a boolean or an object.
    case notAddable
    /// Arithmetic on a value that is not a number.
    case notNumber
    /// A string member of a value that is not a string.
    case notString
    /// An argument or child name that is not a string.
    case argumentNotString
    /// `parent()` of the root.
    case beyondRoot
    /// A computed string longer than 10 MB.
    case stringTooLong
    /// A text that alone exceeds the work limit of a simulated regular expression.
    case textTooLong
    /// A time whose day has no text: outside the years 0 to 9999, or not a number.
    case notDay
    /// The name of a time zone that this machine does not know.
    case notZone
    /// The operation needs more text work than `RulesLimits.textWork`.
    case tooMuchWork
}

extension FaultReason: CustomStringConvertible {
    public var description: String {
        switch self {
        case .notComparable: "only two numbers or two strings can be ordered"
        case .notAddable: "only numbers and strings can be added"
        case .notNumber: "operand is not a number"
        case .notString: "value is not a string"
        case .argumentNotString: "argument is not a string"
        case .beyondRoot: "the root has no parent"
        case .stringTooLong: "computed string is too long"
        case .textTooLong: "text is too long for so large a regular expression"
        case .notDay: "this time is outside the years 0 to 9999"
        case .notZone: "this machine knows no such time zone"
        case .tooMuchWork: "too much text is to be searched and matched for one request"
        }
    }
}

/// A fault and its position.
struct Fault: Error {
    let reason: FaultReason
    /// UTF-8 offset in the rule's text; for a fault inside a function, the offset of the call.
    let offset: Int32

    init(reason: FaultReason, at span: Span) { (self.reason, offset) = (reason, span.function < 0 ? span.offset : 0) }

    /// The same fault, located at a call.
    func moved(to call: Span) -> Fault { Fault(reason: reason, at: call) }
}
