public import JSONTree

/// A leaf or null to compare values with, in the order of values (contract §3.2).
///
///     null and missing < false < true < numbers < texts < objects, which are all equal
///
/// Numbers are equal by value: `3` and `3.0` are one constant. Texts are compared by UTF-16 code unit, case-sensitively.
public struct Constant: Sendable {
    /// null, bool, int, double or string; a whole double is an int.
    public let value: Node

    /// - Returns: nil for an object. Drops a priority.
    public init?(_ node: Node) {
        if node.hasChildren { return nil }
        if case .double(let number) = node.leaf { value = .number(number) } else { value = node.leaf }
    }

    /// Negative, zero or positive as this comes before, equals, or comes after the other.
    public func order(_ other: Constant) -> Int { value.valueOrder(other.value) }
}

extension Constant: Hashable {
    public static func == (a: Constant, b: Constant) -> Bool { a.order(b) == 0 }

    public func hash(into hasher: inout Hasher) { withUnsafePointer(to: value) { NodeCursor($0).hashValue(into: &hasher) } }
}

extension Constant: ExpressibleByStringLiteral, ExpressibleByIntegerLiteral, ExpressibleByBooleanLiteral, ExpressibleByFloatLiteral {
    public init(stringLiteral text: String) { value = .string(text) }
    public init(integerLiteral number: Int64) { value = .int(number) }
    public init(booleanLiteral flag: Bool) { value = .bool(flag) }
    public init(floatLiteral number: Double) { value = .number(number) }

    /// A missing value.
    public static let null = Constant(leaf: .null)
    private init(leaf: Node) { value = leaf }
}

extension NodeCursor {
    /// Negative, zero or positive as the value comes before, equals, or comes after a constant. Copies no text.
    @inline(__always)
    func order(_ constant: borrowing Constant) -> Int {
        switch kind {
        case .int(let number): return Node.int(number).valueOrder(constant.value)
        case .double(let number): return Node.double(number).valueOrder(constant.value)
        case .text(let text): return Self.order(text, constant.value)
        case .bool(let flag): return Node.bool(flag).valueOrder(constant.value)
        case .null: return constant.value.isNull ? 0 : -1
        case .object: return 1
        case .prioritized: return leaf.valueOrder(constant.value)
        }
    }

    private static func order(_ text: TextCursor, _ constant: borrowing Node) -> Int {
        guard case .string(let other) = copy constant else { return 1 }
        return withUnsafePointer(to: other) {
            let other = TextCursor($0)
            if text.isEqual(to: other) { return 0 }
            return text.isBelow(other) ? -1 : 1
        }
    }

    /// Hashes what the value order compares, so values equal in the order hash equal. Integers beyond 2^53 may collide.
    func hashValue(into hasher: inout Hasher) {
        switch kind {
        case .null: hasher.combine(0 as UInt8)
        case .bool(let flag): hasher.combine(flag ? 2 : 1 as UInt8)
        case .int(let number):
            hasher.combine(3 as UInt8)
            hasher.combine(Double(number))
        case .double(let number):
            hasher.combine(3 as UInt8)
            hasher.combine(number)
        case .text(let text):
            hasher.combine(4 as UInt8)
            text.withBytes { hasher.combine(bytes: UnsafeRawBufferPointer($0)) }
        case .object: hasher.combine(5 as UInt8)
        case .prioritized:
            let leaf = leaf
            withUnsafePointer(to: leaf) { NodeCursor($0).hashValue(into: &hasher) }
        }
    }
}
