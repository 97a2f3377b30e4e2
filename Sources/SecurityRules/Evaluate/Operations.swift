import JSONTree

/// The operators on values (rules contract §5.3): pure, and the same for constants at compile time and values at run time.
///
/// Numbers are IEEE doubles, even where an integer is stored. An object is the opaque token.
enum Operations {
    /// `==`: never converts and never fails; an object equals nothing.
    @inline(__always)
    static func equal(_ a: Value, _ b: Value) -> Bool {
        switch (a, b) {
        case (.null, .null): true
        case (.bool(let x), .bool(let y)): x == y
        case (.number(let x), .number(let y)): x == y
        case (.text(let x), .text(let y)): x.isEqual(to: y)
        default: false
        }
    }

    @inline(__always)
    static func compare(_ comparison: Comparison, _ a: Value, _ b: Value) throws(FaultReason) -> Bool {
        switch comparison {
        case .equal: return equal(a, b)
        case .notEqual: return !equal(a, b)
        default: break
        }
        if case .number(let x) = a, case .number(let y) = b {
            switch comparison {
            case .less: return x < y
            case .lessOrEqual: return x <= y
            case .greater: return x > y
            default: return x >= y
            }
        }
        guard case .text(let x) = a, case .text(let y) = b else { throw .notComparable }
        switch comparison {
        case .less: return x.isBelow(y)
        case .lessOrEqual: return !y.isBelow(x)
        case .greater: return y.isBelow(x)
        default: return !x.isBelow(y)
        }
    }

    /// Every arithmetic operator over two numbers.
    @inline(__always)
    static func arithmetic(_ operation: Arithmetic, _ x: Double, _ y: Double) -> Double {
        switch operation {
        case .add: x + y
        case .subtract: x - y
        case .multiply: x * y
        // Not infinity: the reference yields NaN for every division by zero (rules contract §5.3).
        case .divide: y == 0 ? .nan : x / y
        case .remainder: y == 0 ? .nan : x.truncatingRemainder(dividingBy: y)
        }
    }

    /// `+` where an operand is not a number: joins strings.
    static func join(_ a: Value, _ b: Value) throws(FaultReason) -> Text {
        guard let x = text(a), let y = text(b) else { throw .notAddable }
        guard x.utf8.count + y.utf8.count <= RulesLimits.computedBytes else { throw .stringTooLong }
        return Text(x + y)
    }

    /// A string unchanged, a number formatted; nil for other values, which cannot be joined.
    static func text(_ value: Value) -> String? {
        switch value {
        case .text(let text): text.string
        case .number(let number): NumberText.format(number)
        default: nil
        }
    }

    /// UTF-16 code units.
    static func length(_ a: Value) throws(FaultReason) -> Double {
        guard case .text(let text) = a else { throw .notString }
        return Double(text.utf16Count)
    }

    static func test(_ test: StringTest, _ a: Value, _ b: Value) throws(FaultReason) -> Bool {
        guard case .text(let text) = a else { throw .notString }
        guard case .text(let part) = b else { throw .argumentNotString }
        return StringSearch.test(test, text, part)
    }

    static func replace(_ a: Value, _ b: Value, _ c: Value) throws(FaultReason) -> Text {
        guard case .text(let text) = a else { throw .notString }
        guard case .text(let old) = b, case .text(let new) = c else { throw .argumentNotString }
        guard let result = StringSearch.replace(
            in: text, old, by: new, maxBytes: RulesLimits.computedBytes)
        else { throw .stringTooLong }
        return Text(result)
    }

    static func recase(_ a: Value, toUpper: Bool) throws(FaultReason) -> Text {
        guard case .text(let text) = a else { throw .notString }
        let result = Text(toUpper ? text.string.uppercased() : text.string.lowercased())
        guard result.utf8Count <= RulesLimits.computedBytes else { throw .stringTooLong }
        return result
    }

    static func fold(_ a: Value) throws(FaultReason) -> Text {
        guard case .text(let text) = a else { throw .notString }
        let result = Text(TextFolding.fold(text.string))
        guard result.utf8Count <= RulesLimits.computedBytes else { throw .stringTooLong }
        return result
    }

    static func matches(_ a: Value, _ regex: Regex, work: inout Int) throws(FaultReason) -> Bool {
        guard case .text(let text) = a else { throw .notString }
        return try regex.matches(text, work: &work)
    }
}
