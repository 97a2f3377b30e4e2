public import JSONTree

/// One condition on a child of a place: `["status", "==", "open"]`.
public struct Condition: Sendable, Hashable {
    /// The path of the compared value below the child; the root for the child's own value.
    public let path: Path
    public let test: Test

    public init(_ path: Path, _ test: Test) {
        self.path = path
        self.test = test
    }

    /// The comparison. Values are ordered across types (`Constant`), as by `startAt` and `endAt`. A missing value is null and comes before
    /// everything. So `<` a number also selects children without the value, unless combined with `!=` null.
    public enum Test: Sendable, Hashable {
        /// `==` null selects children without the value.
        case equal(Constant)
        /// Selects everything that `equal` does not, including missing values and objects.
        case notEqual(Constant)
        /// `>` or `>=`.
        case above(Constant, orEqual: Bool)
        /// `<` or `<=`.
        case below(Constant, orEqual: Bool)
        /// `in`: equal to one of these. At least two; ascending, without duplicates.
        case oneOf(ContiguousArray<Constant>)
        /// `has`: the value is an object with this child, whatever the child's value.
        case has(Key)
        /// `prefix`: the value is a text that begins with these UTF-8 bytes.
        case prefix(Text)
    }

    /// The operators in their text form.
    public enum Operator: String, Sendable, CaseIterable {
        case equal = "=="
        case notEqual = "!="
        case below = "<"
        case atMost = "<="
        case above = ">"
        case atLeast = ">="
        case oneOf = "in"
        case has
        case prefix

        /// True for operators that compare by order.
        var comparesOrder: Bool {
            switch self {
            case .below, .atMost, .above, .atLeast: true
            case .equal, .notEqual, .oneOf, .has, .prefix: false
            }
        }
    }

    public var `operator`: Operator {
        switch test {
        case .equal: .equal
        case .notEqual: .notEqual
        case .above(_, let orEqual): orEqual ? .atLeast : .above
        case .below(_, let orEqual): orEqual ? .atMost : .below
        case .oneOf: .oneOf
        case .has: .has
        case .prefix: .prefix
        }
    }
}

extension Condition.Test {
    /// True if a value, read in place, passes; nil for a missing value. Allocates only for leaves with a priority.
    @inline(__always)
    func admits(_ value: NodeCursor?) -> Bool {
        guard let value else { return admitsMissing }
        switch self {
        case .equal(let constant): return value.order(constant) == 0
        case .notEqual(let constant): return value.order(constant) != 0
        case .above(let constant, let orEqual):
            let order = value.order(constant)
            return order > 0 || (order == 0 && orEqual)
        case .below(let constant, let orEqual):
            let order = value.order(constant)
            return order < 0 || (order == 0 && orEqual)
        case .oneOf(let constants): return Self.contains(constants, value)
        case .has(let key): return withUnsafePointer(to: key) { value.child(TextCursor($0)) != nil }
        case .prefix(let text): return Self.begins(value, text)
        }
    }

    private var admitsMissing: Bool {
        switch self {
        case .equal(let constant): constant.value.isNull
        case .notEqual(let constant): constant.value.exists
        case .above(let constant, let orEqual): orEqual && constant.value.isNull
        case .below(let constant, let orEqual): orEqual || constant.value.exists
        case .oneOf(let constants): constants.first?.value.isNull ?? false
        case .has, .prefix: false
        }
    }

    private static func contains(_ constants: ContiguousArray<Constant>, _ value: NodeCursor) -> Bool {
        var (low, high) = (0, constants.count)
        while low < high {
            let middle = (low + high) / 2
            let order = value.order(constants[middle])
            if order == 0 { return true }
            if order < 0 { high = middle } else { low = middle + 1 }
        }
        return false
    }

    private static func begins(_ value: NodeCursor, _ text: Text) -> Bool {
        var leaf = Node.null
        var kind = value.kind
        if case .prioritized = kind { leaf = value.leaf }
        return withUnsafePointer(to: leaf) { leaf in
            if case .prioritized = kind { kind = NodeCursor(leaf).kind }
            guard case .text(let whole) = kind else { return false }
            return withUnsafePointer(to: text) { text in
                TextCursor(text).withBytes { start in
                    whole.withBytes { bytes in
                        guard bytes.count >= start.count else { return false }
                        for i in 0..<start.count where bytes[i] != start[i] { return false }
                        return true
                    }
                }
            }
        }
    }
}
