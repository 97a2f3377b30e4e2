import JSONTree
import TestSupport

/// An expression of the rules language as a tree that prints itself. It is evaluated literally as the contract says, independently of the
/// implementation.
indirect enum ModelExpression {
    case literal(Node)
    case variable(String)
    /// `auth`, then properties.
    case auth([String])
    case not(ModelExpression)
    case negate(ModelExpression)
    case binary(String, ModelExpression, ModelExpression)
    case conditional(ModelExpression, ModelExpression, ModelExpression)
    case snapshot(ModelSnapshot, String)
    case hasChild(ModelSnapshot, ModelExpression)
    case hasAll(ModelSnapshot, [ModelExpression])
    case hasAny(ModelSnapshot, [ModelExpression])
    case valOr(ModelSnapshot, ModelExpression)
    /// `equals` or `hasAny` of another snapshot.
    case pair(ModelSnapshot, String, ModelSnapshot)
    case length(ModelExpression)
    case method(ModelExpression, String, [ModelExpression])

    var text: String {
        switch self {
        case .literal(.string(let text)): "'\(text.string)'"
        case .literal(let node): node.json
        case .variable(let name): name
        case .auth(let names): (["auth"] + names).joined(separator: ".")
        case .not(let a): "!(\(a.text))"
        case .negate(let a): "-(\(a.text))"
        case .binary(let symbol, let a, let b): "(\(a.text)) \(symbol) (\(b.text))"
        case .conditional(let c, let a, let b): "(\(c.text)) ? (\(a.text)) : (\(b.text))"
        case .snapshot(let snapshot, let method): "\(snapshot.text).\(method)()"
        case .hasChild(let snapshot, let name): "\(snapshot.text).hasChild(\(name.text))"
        case .hasAll(let snapshot, let names): "\(snapshot.text).hasChildren([\(names.map(\.text).joined(separator: ", "))])"
        case .hasAny(let snapshot, let names): "\(snapshot.text).hasAny([\(names.map(\.text).joined(separator: ", "))])"
        case .valOr(let snapshot, let other): "\(snapshot.text).val(\(other.text))"
        case .pair(let a, let method, let b): "\(a.text).\(method)(\(b.text))"
        case .length(let a): "(\(a.text)).length"
        case .method(let a, let name, let arguments): "(\(a.text)).\(name)(\(arguments.map(\.text).joined(separator: ", ")))"
        }
    }
}

/// A snapshot expression.
indirect enum ModelSnapshot {
    case named(String)
    case child(ModelSnapshot, ModelExpression)
    case parent(ModelSnapshot)
    case conditional(ModelExpression, ModelSnapshot, ModelSnapshot)

    var text: String {
        switch self {
        case .named(let name): name
        case .child(let snapshot, let name): "\(snapshot.text).child(\(name.text))"
        case .parent(let snapshot): "\(snapshot.text).parent()"
        case .conditional(let c, let a, let b): "((\(c.text)) ? \(a.text) : \(b.text))"
        }
    }
}

/// Random expressions of each static type, so that the checker accepts every one.
struct ExpressionMaker {
    var random: SeededRandom
    /// Wildcards in scope.
    var captures: [String]
    var allowsNewData: Bool

    mutating func boolean(_ depth: Int) -> ModelExpression {
        guard depth > 0 else {
            return random.chance(60) ? .snapshot(
                snapshot(1),
                random.pick(["exists", "isString", "isNumber", "isBoolean", "hasChildren"])) : .literal(.bool(random.chance(50)))
        }
        switch random.below(14) {
        case 12: return .hasAny(snapshot(depth - 1), (0..<random.below(3)).map { _ in name(0) })
        case 13: return .pair(snapshot(depth - 1), random.pick(["equals", "hasAny"]), snapshot(depth - 1))
        case 0: return .not(boolean(depth - 1))
        case 1, 2: return .binary("&&", boolean(depth - 1), boolean(depth - 1))
        case 3, 4: return .binary("||", boolean(depth - 1), boolean(depth - 1))
        case 5: return .conditional(boolean(depth - 1), boolean(depth - 1), boolean(depth - 1))
        case 6, 7: return .binary(random.pick(["==", "!="]), anything(depth - 1), anything(depth - 1))
        case 8: return .binary(random.pick(["<", "<=", ">", ">="]), ordered(depth - 1), ordered(depth - 1))
        case 9: return .hasChild(snapshot(depth - 1), name(depth - 1))
        case 10: return .hasAll(snapshot(depth - 1), (0..<random.below(3)).map { _ in name(0) })
        default: return .method(textual(depth - 1), random.pick(["contains", "beginsWith", "endsWith"]), [textual(depth - 1)])
        }
    }

    private mutating func anything(_ depth: Int) -> ModelExpression {
        switch random.below(8) {
        case 0: boolean(depth)
        case 1: .literal(.null)
        default: ordered(depth)
        }
    }

    private mutating func ordered(_ depth: Int) -> ModelExpression {
        switch random.below(3) {
        case 0: number(depth)
        case 1: string(depth)
        default: value(depth)
        }
    }

    private mutating func number(_ depth: Int) -> ModelExpression {
        guard depth > 0 else { return random.chance(20) ? .variable("now") : .literal(random.pick([0, 1, 2, 2.5, 10])) }
        switch random.below(5) {
        case 4: return .snapshot(snapshot(depth - 1), "childCount")
        case 0: return .negate(random.chance(50) ? number(depth - 1) : value(depth - 1))
        case 1: return .length(textual(depth - 1))
        default:
            let operands = (random.chance(50) ? number(depth - 1) : value(depth - 1), number(depth - 1))
            return .binary(random.pick(["-", "*", "/", "%"]), operands.0, operands.1)
        }
    }

    private mutating func string(_ depth: Int) -> ModelExpression {
        guard depth > 0 else {
            return random.chance(40) && !captures.isEmpty ? .variable(random.pick(captures)) : .literal(
                .string(random.pick(["", "a", "b", "ab", "a/b", "0", "é"])))
        }
        switch random.below(4) {
        case 3: return .method(textual(depth - 1), "fold", [])
        case 0: return .method(textual(depth - 1), "replace", [string(0), string(0)])
        case 1: return .method(textual(depth - 1), random.pick(["toUpperCase", "toLowerCase"]), [])
        default: return random.chance(50) ? .binary(
            "+", string(depth - 1), ordered(depth - 1)) : .binary("+", ordered(depth - 1), string(depth - 1))
        }
    }

    private mutating func value(_ depth: Int) -> ModelExpression {
        switch random.below(6) {
        case 5: .valOr(snapshot(depth), depth > 0 ? anything(depth - 1) : .literal(random.pick([0, "a", .null])))
        case 0: .auth(random.pick([["uid"], ["token", "n"], ["token", "b"], ["token", "x", "y"], ["token"]]))
        case 1: .snapshot(snapshot(depth), "getPriority")
        default: .snapshot(snapshot(depth), "val")
        }
    }

    private mutating func textual(_ depth: Int) -> ModelExpression { random.chance(60) ? string(depth) : value(depth) }

    private mutating func name(_ depth: Int) -> ModelExpression {
        switch random.below(6) {
        case 0: value(0)
        case 1: .binary("+", .binary("+", string(0), .literal("/")), random.chance(50) ? string(0) : ordered(0))
        default: string(min(depth, 1))
        }
    }

    private mutating func snapshot(_ depth: Int) -> ModelSnapshot {
        guard depth > 0 else {
            return .named(random.pick(allowsNewData ? ["data", "newData", "newData", "root", "newRoot"] : ["data", "root"]))
        }
        switch random.below(6) {
        case 0: return .parent(snapshot(depth - 1))
        case 1: return .conditional(boolean(0), snapshot(depth - 1), snapshot(depth - 1))
        default: return .child(snapshot(depth - 1), name(depth - 1))
        }
    }
}
