/// One fault of a rules file. Line and column are 1-based and point into the JSON text, at the start of the offending
/// sub-expression; columns count UTF-16 code units (rules contract §2).
public struct RuleError: Error, Sendable, Hashable, CustomStringConvertible {
    public let line: Int
    public let column: Int
    /// The message in the upload protocol.
    public let message: String
    /// A suggestion for the author; not part of the upload protocol.
    public var hint: String?

    public var description: String { "\(line):\(column): \(message)" }
}

/// All faults of a rules file, in the order of the text; never empty, at most `limit` faults.
public struct RulesErrors: Error, Sendable, Hashable, CustomStringConvertible {
    public let errors: [RuleError]

    /// The most faults reported.
    static let limit = 500

    /// One `line:column: message` line per fault: the `error` text of the upload protocol (rules contract §2).
    public var description: String { errors.map { $0.description + "\n" }.joined() }
}

extension RulesErrors {
    /// Sorts faults by their offset in the text.
    init(_ errors: [LocatedError], in text: RulesText) {
        self.errors = errors.sorted { $0.offset < $1.offset }.prefix(Self.limit).map { error in
            let (line, column) = text.position(at: error.offset)
            return RuleError(line: line, column: column, message: error.message, hint: error.hint)
        }
    }
}

extension RulesErrors {
    static let tooLarge = RulesErrors(errors: [RuleError(line: 1, column: 1, message: "Rules are larger than \(RuleSet.maxBytes) bytes.")])
}

/// A fault at a byte offset of the rules text, before conversion to line and column.
struct LocatedError: Error {
    let offset: Int
    let message: String
    var hint: String?
}

/// A fault inside one expression; the offset counts UTF-8 bytes of the expression.
struct ExpressionError: Error {
    let offset: Int
    let message: String
    var hint: String?
    /// The index of the function whose text contains it; -1 for the rule's own text.
    var function: Int32 = -1

    init(offset: Int, message: String) { (self.offset, self.message) = (offset, message) }

    /// - Parameters: `name` is the unknown name, `known` the names allowed there.
    init(at span: Span, message: String, unknown name: String = "", among known: [String] = []) {
        self.init(offset: Int(span.offset), message: message)
        function = span.function
        hint = Spelling.nearest(name, in: known).map { "did you mean '\($0)'?" }
    }
}
