/// Why bytes are not the expected JSON. Offsets count bytes from the start of the reader's text.
public enum JSONError: Error, Equatable, Sendable {
    /// Not JSON (RFC 8259).
    case malformed(offset: Int)
    /// JSON of another type than expected.
    case unexpectedType(offset: Int)
    /// Nested deeper than the tree allows.
    case tooDeep(offset: Int)
    /// A member name that is not a valid key (contract §4.1), cut at 64 bytes.
    case invalidKey(String, offset: Int)
    /// A string longer than the limit.
    case stringTooLong(offset: Int)
    /// A priority that is neither null, number nor string.
    case invalidPriority(offset: Int)
    /// `.value` beside children, or with an object or array as its value.
    case invalidValue(offset: Int)
    /// `.sv` that is neither `"timestamp"` nor `{"increment": number}`.
    case unknownServerValue(offset: Int)
    /// The value takes more memory than the budget allows (`NodeAllowance`).
    case overBudget(offset: Int)

    /// Whether the text is malformed, so that the rest of it cannot be parsed.
    public var isMalformed: Bool { if case .malformed = self { true } else { false } }

    public var offset: Int {
        switch self {
        case .malformed(let offset), .unexpectedType(let offset), .tooDeep(let offset), .invalidKey(_, let offset),
            .stringTooLong(let offset), .invalidPriority(let offset), .invalidValue(let offset), .unknownServerValue(let offset),
            .overBudget(let offset):
            offset
        }
    }
}

extension JSONError: CustomStringConvertible {
    public var description: String {
        switch self {
        case .malformed: "Invalid data; couldn't parse JSON object, array, or value."
        case .unexpectedType: "Invalid data; unexpected type."
        case .tooDeep: "Invalid data; path or value exceeds maximum depth of \(Path.maxDepth) levels."
        case .invalidKey(let key, _):
            "Invalid data; couldn't parse key \"\(key)\". Key value can't be empty, longer than \(Key.maxBytes) bytes, or contain $ # [ ] "
                + "/ or ."
        case .stringTooLong: "Invalid data; string exceeds the maximum size of 10 MB."
        case .invalidPriority: "Invalid data; priority must be a number, a string or null."
        case .invalidValue: "Invalid data; .value must be a boolean, number or string without other members."
        case .unknownServerValue: "Invalid data; unknown server value."
        case .overBudget:
            "The data takes more memory than the hub has left for it (--memory-budget). Write it in parts, or try again later."
        }
    }
}
