import JSONTree

/// The operators on values (rules contract §5.3): pure, and the same for constants at compile time and for values at run time.
///
/// Numbers are IEEE doubles whatever their stored form; an object stands for the opaque token.
enum Operations {
    /// Longest string that an expression may compute, in bytes of UTF-8: as long as the longest stored one.
    static let maxStringBytes = 10_485_760

    @inline(__always)
    static func number(_ node: Node) -> Double? {
        switch node {
        case .int(let value): Double(value)
        case .double(let value): value
        default: nil
        }
    }

    /// `==`: never converts, never fails; an object equals nothing.
    @inline(__always)
    static func equal(_ a: Node, _ b: Node) -> Bool {
        switch (a, b) {
        case (.null, .null): true
        case (.bool(let x), .bool(let y)): x == y
        case (.string(let x), .string(let y)): x == y
        case (.int(let x), .int(let y)): Double(x) == Double(y)
        case (.int(let x), .double(let y)): Double(x) == y
        case (.double(let x), .int(let y)): x == Double(y)
        case (.double(let x), .double(let y)): x == y
        default: false
        }
    }

    @inline(__always)
    static func compare(_ comparison: Comparison, _ a: Node, _ b: Node) throws(FaultReason) -> Bool {
        switch comparison {
        case .equal: return equal(a, b)
        case .notEqual: return !equal(a, b)
        default: break
        }
        if let x = number(a), let y = number(b) {
            switch comparison {
            case .less: return x < y
            case .lessOrEqual: return x <= y
            case .greater: return x > y
            default: return x >= y
            }
        }
        guard case .string(let x) = a, case .string(let y) = b else { throw .notComparable }
        switch comparison {
        case .less: return x < y
        case .lessOrEqual: return !(y < x)
        case .greater: return y < x
        default: return !(x < y)
        }
    }

    static func arithmetic(_ operation: Arithmetic, _ a: Node, _ b: Node) throws(FaultReason) -> Node {
        if operation == .add { return try add(a, b) }
        guard let x = number(a), let y = number(b) else { throw .notNumber }
        switch operation {
        case .add: return .double(x + y)
        case .subtract: return .double(x - y)
        case .multiply: return .double(x * y)
        // Not infinity: the reference answers NaN for every division by zero (rules contract §5.3).
        case .divide: return .double(y == 0 ? .nan : x / y)
        case .remainder: return .double(y == 0 ? .nan : x.truncatingRemainder(dividingBy: y))
        }
    }

    private static func add(_ a: Node, _ b: Node) throws(FaultReason) -> Node {
        if let x = number(a), let y = number(b) { return .double(x + y) }
        guard let x = text(a), let y = text(b) else { throw .notAddable }
        guard x.utf8.count + y.utf8.count <= maxStringBytes else { throw .stringTooLong }
        return .string(Text(x + y))
    }

    /// A string as it is, a number formatted; nil for what cannot be joined to a string.
    static func text(_ node: Node) -> String? {
        if case .string(let text) = node { return text.string }
        return number(node).map(NumberText.format)
    }

    static func negate(_ a: Node) throws(FaultReason) -> Node {
        guard let x = number(a) else { throw .notNumber }
        return .double(-x)
    }

    /// UTF-16 code units.
    static func length(_ a: Node) throws(FaultReason) -> Node {
        guard case .string(let text) = a else { throw .notString }
        return .int(Int64(text.string.utf16.count))
    }

    static func test(_ test: StringTest, _ a: Node, _ b: Node) throws(FaultReason) -> Bool {
        guard case .string(let text) = a else { throw .notString }
        guard case .string(let part) = b else { throw .argumentNotString }
        return StringSearch.test(test, text.string, part.string)
    }

    static func replace(_ a: Node, _ b: Node, _ c: Node) throws(FaultReason) -> Node {
        guard case .string(let text) = a else { throw .notString }
        guard case .string(let old) = b, case .string(let new) = c else { throw .argumentNotString }
        guard let result = StringSearch.replace(in: text.string, old.string, by: new.string, maxBytes: maxStringBytes) else {
            throw .stringTooLong
        }
        return .string(result)
    }

    static func recase(_ a: Node, toUpper: Bool) throws(FaultReason) -> Node {
        guard case .string(let text) = a else { throw .notString }
        return .string(toUpper ? text.string.uppercased() : text.string.lowercased())
    }

    static func matches(_ a: Node, _ regex: Regex) throws(FaultReason) -> Bool {
        guard case .string(let text) = a else { throw .notString }
        return regex.matches(text)
    }
}
