import Foundation
import JSONTree
import SecurityRules

/// Evaluates model expressions and walks model rules, following the contract literally (§5–§8, §10).
struct ModelInterpreter {
    /// A failed operation, which makes the whole rule not true (§5.2).
    struct Failure: Error {}

    enum Value {
        case null, bool(Bool), number(Double), string(String)
        /// The result of `val()` for a node with children.
        case object(Node)
    }

    /// A place in one of the trees.
    struct Place {
        var root: Node
        var path: [String]

        var node: Node { path.reduce(root) { $0.child(Key($1)) } }
    }

    let old: Node
    let new: Node
    let auth: Node
    let now: Int64
    /// Keys from the root to the rule's node, and the values of its wildcards.
    var path: [String] = []
    var captures: [String: String] = [:]

    private static func value(_ node: Node) -> Value {
        if node.hasChildren { return .object(node) }
        switch node.leaf {
        case .bool(let value): return .bool(value)
        case .int(let value): return .number(Double(value))
        case .double(let value): return .number(value)
        case .string(let text): return .string(text.string)
        default: return .null
        }
    }

    private func place(_ snapshot: ModelSnapshot) throws -> Place {
        switch snapshot {
        case .named("data"): return Place(root: old, path: path)
        case .named("newData"): return Place(root: new, path: path)
        case .named("newRoot"): return Place(root: new, path: [])
        case .named: return Place(root: old, path: [])
        case .child(let parent, let name):
            var place = try place(parent)
            let text = try string(name)
            let segments = text.split(separator: "/").map(String.init)
            place.path += segments.isEmpty ? [""] : segments
            return place
        case .parent(let child):
            var place = try place(child)
            if place.path.isEmpty { throw Failure() }
            place.path.removeLast()
            return place
        case .conditional(let c, let a, let b): return try place(try truth(c) ? a : b)
        }
    }

    private func string(_ expression: ModelExpression) throws -> String {
        guard case .string(let text) = try value(expression) else { throw Failure() }
        return text
    }

    private func number(_ expression: ModelExpression) throws -> Double {
        guard case .number(let number) = try value(expression) else { throw Failure() }
        return number
    }

    func truth(_ expression: ModelExpression) throws -> Bool {
        guard case .bool(let value) = try value(expression) else { throw Failure() }
        return value
    }

    func value(_ expression: ModelExpression) throws -> Value {
        switch expression {
        case .literal(let node): return Self.value(node)
        case .variable("now"): return .number(Double(now))
        case .variable(let name): return .string(captures[name] ?? "?")
        case .auth(let names): return Self.value(names.reduce(auth) { $0.child(Key($1)) })
        case .not(let a): return .bool(!(try truth(a)))
        case .negate(let a): return .number(-(try number(a)))
        case .binary("&&", let a, let b): return .bool(try truth(a) ? try truth(b) : false)
        case .binary("||", let a, let b): return .bool(try truth(a) ? true : try truth(b))
        case .binary(let symbol, let a, let b): return try binary(symbol, try value(a), try value(b))
        case .conditional(let c, let a, let b): return try value(try truth(c) ? a : b)
        case .snapshot(let snapshot, let method): return try self.method(method, of: try place(snapshot).node)
        case .hasChild(let snapshot, let name): return .bool(try place(.child(snapshot, name)).node.exists)
        case .hasAll(let snapshot, let names):
            _ = try place(snapshot)
            let places = try names.map { try place(.child(snapshot, $0)) }
            return .bool(places.allSatisfy { $0.node.exists })
        case .hasAny(let snapshot, let names):
            _ = try place(snapshot)
            let places = try names.map { try place(.child(snapshot, $0)) }
            return .bool(places.contains { $0.node.exists })
        case .valOr(let snapshot, let other):
            let node = try place(snapshot).node
            return node.exists ? Self.value(node) : try value(other)
        case .pair(let a, let method, let b):
            let (x, y) = (try place(a).node, try place(b).node)
            if method == "equals" { return .bool(Self.same(x, y)) }
            return .bool(x.children.contains { child in y.children.contains { $0.key == child.key } })
        case .length(let a): return .number(Double(Array(try string(a).utf16).count))
        case .method(let a, let name, let arguments):
            let receiver = try value(a)
            let values = try arguments.map { try value($0) }
            guard case .string(let text) = receiver else { throw Failure() }
            var texts: [String] = []
            for value in values {
                guard case .string(let text) = value else { throw Failure() }
                texts.append(text)
            }
            return method(name, text, texts)
        }
    }

    /// Deep equality, including priorities.
    private static func same(_ a: Node, _ b: Node) -> Bool {
        guard a.priority == b.priority, a.hasChildren == b.hasChildren else { return false }
        guard a.hasChildren else { return a.leaf == b.leaf }
        let (keys, others) = (a.children.map(\.key), b.children.map(\.key))
        return keys == others && keys.allSatisfy { same(a.child($0), b.child($0)) }
    }

    private func method(_ name: String, of node: Node) throws -> Value {
        switch (name, Self.value(node)) {
        case ("val", let value): value
        case ("getPriority", _): Self.value(node.priority)
        case ("childCount", _): .number(Double(node.children.map { _ in 1 }.count))
        case ("exists", .null): .bool(false)
        case ("exists", _), ("hasChildren", .object), ("isString", .string), ("isNumber", .number), ("isBoolean", .bool): .bool(true)
        default: .bool(false)
        }
    }

    private func method(_ name: String, _ text: String, _ arguments: [String]) -> Value {
        let bytes = Array(text.utf8)
        func occurs(at i: Int, _ part: [UInt8]) -> Bool { i + part.count <= bytes.count && Array(bytes[i..<i + part.count]) == part }
        switch name {
        case "fold":
            let plain = text.decomposedStringWithCanonicalMapping.unicodeScalars.filter { !$0.properties.isDiacritic && $0.value != 0x301 }
            return .string(String(String.UnicodeScalarView(plain)).lowercased())
        case "toUpperCase": return .string(text.uppercased())
        case "toLowerCase": return .string(text.lowercased())
        case "replace":
            if arguments[0].isEmpty {
                return .string(text.unicodeScalars.map { arguments[1] + String($0) }.joined() + arguments[1])
            }
            var (out, i, part) = ([UInt8](), 0, Array(arguments[0].utf8))
            while i < bytes.count {
                if occurs(at: i, part) {
                    out += Array(arguments[1].utf8)
                    i += part.count
                } else {
                    out.append(bytes[i])
                    i += 1
                }
            }
            part = []
            return .string(String(decoding: out, as: UTF8.self))
        default:
            let part = Array(arguments[0].utf8)
            let places = (0...bytes.count).filter { occurs(at: $0, part) }
            switch name {
            case "beginsWith": return .bool(places.contains(0))
            case "endsWith": return .bool(places.contains(bytes.count - part.count))
            default: return .bool(!places.isEmpty)
            }
        }
    }

    private func binary(_ symbol: String, _ a: Value, _ b: Value) throws -> Value {
        switch (symbol, a, b) {
        case ("==", _, _): return .bool(equal(a, b))
        case ("!=", _, _): return .bool(!equal(a, b))
        case ("<", .number(let x), .number(let y)): return .bool(x < y)
        case ("<=", .number(let x), .number(let y)): return .bool(x <= y)
        case (">", .number(let x), .number(let y)): return .bool(x > y)
        case (">=", .number(let x), .number(let y)): return .bool(x >= y)
        case ("<", .string(let x), .string(let y)): return .bool(x.utf16.lexicographicallyPrecedes(y.utf16))
        case (">", .string(let x), .string(let y)): return .bool(y.utf16.lexicographicallyPrecedes(x.utf16))
        case ("<=", .string(let x), .string(let y)): return .bool(!y.utf16.lexicographicallyPrecedes(x.utf16))
        case (">=", .string(let x), .string(let y)): return .bool(!x.utf16.lexicographicallyPrecedes(y.utf16))
        case ("+", .number(let x), .number(let y)): return .number(x + y)
        case ("+", .string(let x), .string(let y)): return .string(x + y)
        case ("+", .string(let x), .number(let y)): return .string(x + shown(y))
        case ("+", .number(let x), .string(let y)): return .string(shown(x) + y)
        case ("-", .number(let x), .number(let y)): return .number(x - y)
        case ("*", .number(let x), .number(let y)): return .number(x * y)
        case ("/", .number(let x), .number(let y)): return .number(y == 0 ? .nan : x / y)
        case ("%", .number(let x), .number(let y)): return .number(y == 0 ? .nan : x.truncatingRemainder(dividingBy: y))
        default: throw Failure()
        }
    }

    private func equal(_ a: Value, _ b: Value) -> Bool {
        switch (a, b) {
        case (.null, .null): true
        case (.bool(let x), .bool(let y)): x == y
        case (.number(let x), .number(let y)): x == y
        case (.string(let x), .string(let y)): Array(x.utf8) == Array(y.utf8)
        default: false
        }
    }

    /// Numbers in tests are short: integers, a few decimals, or not a number.
    private func shown(_ x: Double) -> String {
        if x.isNaN { return "NaN" }
        if x == 0 { return "0" }
        return x.rounded() == x && abs(x) < 1e15 ? String(Int(x)) : NumberTextModel.shown(x)
    }
}
