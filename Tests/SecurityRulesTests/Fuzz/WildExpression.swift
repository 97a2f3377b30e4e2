import TestSupport

/// Expressions of the language's grammar and slightly beyond it, of any types: most are refused, for every possible reason.
struct WildExpression {
    var random: SeededRandom
    var captures: [String] = ["$a", "$b"]

    mutating func text(_ depth: Int) -> String {
        guard depth > 0 else { return leaf() }
        func inner(_ wild: inout WildExpression) -> String { wild.text(depth - 1) }
        switch random.below(14) {
        case 0, 1: return leaf()
        case 2: return random.pick(["!", "-", "+", "--", "!!"]) + inner(&self)
        case 3, 4: return inner(&self) + space() + random.pick(Self.logical) + space() + inner(&self)
        case 5, 6: return inner(&self) + space() + random.pick(Self.operators) + space() + inner(&self)
        case 7: return inner(&self) + " ? " + inner(&self) + " : " + inner(&self)
        case 8: return "(" + inner(&self) + ")"
        case 9: return inner(&self) + "." + random.pick(Self.members)
        case 10: return inner(&self) + "[" + inner(&self) + "]"
        case 11, 12:
            let arguments = (0..<random.below(3)).map { _ in inner(&self) }
            return inner(&self) + "." + random.pick(Self.members) + "(" + arguments.joined(separator: ",") + ")"
        default: return "[" + (0..<random.below(3)).map { _ in inner(&self) }.joined(separator: ", ") + "]"
        }
    }

    /// An expression that is certainly a boolean, with wild strings and patterns where the language accepts any.
    mutating func plausible(_ depth: Int) -> String {
        guard depth > 0 else {
            let place = snapshot()
            switch random.below(7) {
            case 0: return "\(place).\(random.pick(["exists", "isString", "isNumber", "isBoolean", "hasChildren"]))()"
            case 1: return "\(place).val() \(random.pick(["==", "!=", "<", ">="])) \(literal())"
            case 2: return "\(place).val().\(random.pick(["contains", "beginsWith", "endsWith"]))(\(textual()))"
            case 3: return "\(place).val().matches(\(WildRegex(random: SeededRandom(random.next())).literal()))"
            case 4: return "(\(textual()) + \(textual())).length \(random.pick(["<", ">"])) \(random.below(100))"
            case 5: return "\(place).hasChild(\(textual()))"
            default: return "\(textual()).replace(\(textual()), \(textual())).\(random.pick(["toLowerCase", "toUpperCase"]))() != "
                + "\(textual())"
            }
        }
        switch random.below(5) {
        case 0: return "!(\(plausible(depth - 1)))"
        case 1: return "(\(plausible(depth - 1)) ? \(plausible(depth - 1)) : \(plausible(depth - 1)))"
        default: return "(\(plausible(depth - 1)) \(random.pick(["&&", "||"])) \(plausible(depth - 1)))"
        }
    }

    private mutating func snapshot() -> String {
        var text = random.pick(["data", "newData", "root"])
        for _ in 0..<random.below(4) { text += random.chance(25) ? ".parent()" : ".child(\(textual()))" }
        return text
    }

    private mutating func textual() -> String {
        switch random.below(6) {
        case 0: return random.pick(captures)
        case 1: return "\(random.pick(["data", "newData"])).val()"
        case 2: return "auth.uid"
        default: return string()
        }
    }

    private mutating func string() -> String {
        let quote = random.pick(["'", "\""])
        return quote + (0..<random.below(6)).map { _ in random.pick(
            ["a", "b", "/", "//", "..", "\\n", "\\u00e9", "\\\\", "é", "😀", " ", "0", "."]) }.joined() + quote
    }

    private mutating func literal() -> String {
        random.pick(
            ["0", "1", "-1", "1e308", "1e999", ".5", "9007199254740993", "null", "true", "now", "auth", "auth.token.n", string(), string()])
    }

    private mutating func leaf() -> String {
        switch random.below(8) {
        case 0, 1: return random.pick(["data", "newData", "root", "auth", "now", "query", "x", "undefined", "this"] + captures + ["$c"])
        case 2: return string()
        case 3: return literal()
        case 4: return WildRegex(random: SeededRandom(random.next())).literal()
        case 5: return snapshot() + ".val()"
        default: return snapshot() + ".exists()"
        }
    }

    private mutating func space() -> String { random.pick(["", " ", "  ", "\n", "\t", " /* c */ ", " // c\n"]) }

    private static let logical = ["&&", "||", "&", "|", "and"]
    private static let operators = ["==", "===", "!=", "!==", "<", "<=", ">", ">=", "+", "-", "*", "/", "%", "=", "**", "in", ",", ";"]
    private static let members = [
        "val", "exists", "child", "parent", "hasChild", "hasChildren", "getPriority", "isString", "isNumber", "isBoolean", "length",
        "contains",
        "beginsWith", "endsWith", "replace", "toLowerCase", "toUpperCase", "matches", "uid", "token", "provider", "orderByChild",
        "limitToFirst", "foo", "__proto__",
    ]
}

/// Patterns of the dialect and slightly beyond it.
struct WildRegex {
    var random: SeededRandom

    func literal() -> String {
        var wild = self
        return "/" + wild.pattern(3) + "/" + wild.random.pick(["", "", "", "i", "g", "ii"])
    }

    mutating func pattern(_ depth: Int) -> String {
        (random.chance(30) ? "^" : "") + body(depth) + (random.chance(30) ? "$" : "")
    }

    private mutating func body(_ depth: Int) -> String {
        guard depth > 0 else { return atom() }
        switch random.below(7) {
        case 0, 1: return (0..<random.below(4) + 1).map { _ in body(depth - 1) }.joined()
        case 2: return "(" + body(depth - 1) + ")"
        case 3: return "(" + (0..<random.below(3) + 1).map { _ in body(depth - 1) }.joined(separator: "|") + ")"
        case 4, 5: return body(depth - 1) + random.pick(
            ["*", "+", "?", "{2}", "{0,3}", "{1,}", "{40}", "{200,300}", "*?", "{", "{a}", "{3,1}"])
        default: return atom()
        }
    }

    private mutating func atom() -> String {
        random.pick([
            "a", "b", "c", "0", ".", "\\d", "\\w", "\\s", "\\S", "\\W", "\\D", "\\/", "\\.", "\\\\", "[abc]", "[^abc]", "[a-z0-9_-]",
            "[\\d.]", "[b-a]", "[", "]", "(", ")", "é",
            "😀", "[α-ω]", "\\b", "\\1", "(?:a)", "()", "|", "$", "^", "-", " ", "\\n", "[]", "[^]", "\\u0041", "#", "&", "~", "\"", "@",
            "<a>",
        ])
    }
}
