/// A parsed regular expression without its anchors.
indirect enum RegexSyntax {
    case empty
    case units(UnitSet)
    case sequence([RegexSyntax])
    case alternatives([RegexSyntax])
    /// At least `minimum` times, at most `maximum`; nil is unbounded.
    case repeated(RegexSyntax, minimum: Int, maximum: Int?)

    /// The number of automaton states it needs, saturating far above every limit.
    var size: Int {
        let limit = 1 << 24
        switch self {
        case .empty: return 1
        case .units: return 1
        case .sequence(let parts): return min(limit, parts.reduce(0) { min(limit, $0 + $1.size) })
        case .alternatives(let parts): return min(limit, parts.reduce(0) { min(limit, $0 + $1.size + 1) })
        case .repeated(let part, let minimum, let maximum):
            // The parser bounds the counts, so the product cannot overflow.
            return min(limit, max(1, maximum ?? minimum + 1) * (part.size + 1))
        }
    }
}

/// Why a regular expression was refused; the description is the upload's message (rules contract §9).
struct RegexError: Error, CustomStringConvertible {
    let reason: String
    var description: String { "Illegal regular expression, \(reason)" }
}

/// Parses the reference's syntax: dk.brics.automaton's with `\d \s \w` and outer anchors added.
///
///     union  = concat { "|" concat }            concat = repeat { repeat }   until ")" or "|"
///     repeat = class { "?" | "*" | "+" | "{n}" | "{n,}" | "{n,m}" }
///     class  = "[" ["^"] { item } "]" | simple  simple = "." | "()" | "(" union ")" | character
///
/// Any character may stand where an operand is expected, even `)`, `?` or `}`. So `(?:x)` is a group with the text `?:x`, and an empty last
/// alternative reports a missing `)`.
struct RegexParser {
    private let units: [UInt16]
    private var position = 0
    private var nesting = 0
    private let ignoresCase: Bool

    private static let maxNesting = 64
    private static let maxCount = 100_000

    /// - Parameter units: the pattern without its outer anchors; positions in messages count from its start.
    static func parse(_ units: some Sequence<UInt16>, ignoresCase: Bool) throws(RegexError) -> RegexSyntax {
        var parser = RegexParser(units: Array(units), ignoresCase: ignoresCase)
        if parser.units.isEmpty { return .empty }
        let syntax = try parser.union()
        guard parser.position == parser.units.count else { throw parser.error("end-of-string expected") }
        return syntax
    }

    private init(units: [UInt16], ignoresCase: Bool) {
        self.units = units
        self.ignoresCase = ignoresCase
    }

    private func error(_ what: String) -> RegexError { RegexError(reason: "\(what) at position \(position)") }

    private func at(_ character: Unicode.Scalar) -> Bool { position < units.count && units[position] == UInt16(character.value) }

    private mutating func match(_ character: Unicode.Scalar) -> Bool {
        guard at(character) else { return false }
        position += 1
        return true
    }

    private mutating func union() throws(RegexError) -> RegexSyntax {
        nesting += 1
        defer { nesting -= 1 }
        guard nesting <= Self.maxNesting else { throw error("too many nested groups") }
        var parts = [try concatenation()]
        while match("|") { parts.append(try concatenation()) }
        return parts.count == 1 ? parts[0] : .alternatives(parts)
    }

    private mutating func concatenation() throws(RegexError) -> RegexSyntax {
        var parts = [try repetition()]
        while position < units.count, !at(")"), !at("|") { parts.append(try repetition()) }
        return parts.count == 1 ? parts[0] : .sequence(parts)
    }

    private mutating func repetition() throws(RegexError) -> RegexSyntax {
        var syntax = try characterClass()
        var stacked = 0
        while true {
            if match("?") {
                syntax = .repeated(syntax, minimum: 0, maximum: 1)
            } else if match("*") {
                syntax = .repeated(syntax, minimum: 0, maximum: nil)
            } else if match("+") {
                syntax = .repeated(syntax, minimum: 1, maximum: nil)
            } else if match("{") {
                let minimum = try count()
                guard let minimum else { throw error("integer expected") }
                var maximum: Int? = minimum
                if match(",") { maximum = try count() }
                guard match("}") else { throw error("expected '}'") }
                if let maximum, maximum < minimum { throw error("counts out of order") }
                syntax = .repeated(syntax, minimum: minimum, maximum: maximum)
            } else {
                return syntax
            }
            stacked += 1
            guard stacked <= Self.maxNesting else { throw error("too many quantifiers") }
        }
    }

    private mutating func count() throws(RegexError) -> Int? {
        let start = position
        var value = 0
        while position < units.count, UnitSet.digits.contains(units[position]) {
            value = value * 10 + Int(units[position] - 0x30)
            guard value <= Self.maxCount else { throw error("count too large") }
            position += 1
        }
        return position > start ? value : nil
    }

    private mutating func characterClass() throws(RegexError) -> RegexSyntax {
        guard match("[") else { return try simple() }
        let isNegated = match("^")
        var set = UnitSet([])
        repeat { set = set.union(try classItem()) } while position < units.count && !at("]")
        guard match("]") else { throw error("expected ']'") }
        if ignoresCase { set = set.foldingCase }
        return .units(isNegated ? set.inverted : set)
    }

    private mutating func classItem() throws(RegexError) -> UnitSet {
        let first = try character()
        guard case .unit(let low) = first, at("-"), position + 1 < units.count, units[position + 1] != 0x5D else { return first.set }
        position += 1
        guard case .unit(let high) = try character(), low <= high else { throw error("invalid range") }
        return UnitSet([low...high])
    }

    private mutating func simple() throws(RegexError) -> RegexSyntax {
        if match(".") { return .units(.all) }
        if match("(") {
            if match(")") { return .empty }
            let inner = try union()
            guard match(")") else { throw error("expected ')'") }
            return inner
        }
        if at("^") || at("$") { throw error("unexpected '\(at("^") ? "^" : "$")'") }
        let set = try character().set
        return .units(ignoresCase ? set.foldingCase : set)
    }

    private enum Character {
        case unit(UInt16)
        case set(UnitSet)

        var set: UnitSet {
            switch self {
            case .unit(let unit): UnitSet(unit)
            case .set(let set): set
            }
        }
    }

    private mutating func character() throws(RegexError) -> Character {
        guard position < units.count else { throw RegexError(reason: "unexpected end-of-string") }
        let unit = units[position]
        position += 1
        guard unit == UInt16(UInt8(ascii: "\\")) else { return .unit(unit) }
        guard position < units.count else { throw RegexError(reason: "unexpected end-of-string") }
        let letter = units[position]
        position += 1
        switch Unicode.Scalar(letter) {
        case "d": return .set(.digits)
        case "D": return .set(UnitSet.digits.inverted)
        case "s": return .set(.space)
        case "S": return .set(UnitSet.space.inverted)
        case "w": return .set(.word)
        case "W": return .set(UnitSet.word.inverted)
        case "n": return .unit(0x0A)
        case "r": return .unit(0x0D)
        case "t": return .unit(0x09)
        case "f": return .unit(0x0C)
        default:
            if letter < 0x80, UnitSet.word.contains(letter), letter != 0x5F {
                position -= 1
                throw error("unsupported escape")
            }
            return .unit(letter)
        }
    }
}
