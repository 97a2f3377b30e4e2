import JSONTree

/// Parses one rule's expression (grammar of rules contract §3.1) by precedence climbing.
struct ExpressionParser {
    private var lexer: Lexer
    private var token: Token
    /// Ends of the current token and of the one before it.
    private var tokenEnd = 0
    private var lastEnd = 0
    /// The nesting depth at the current token.
    private var nesting = 0
    /// The index of the function being parsed, for the spans.
    private let function: Int32

    /// Parses the whole text.
    /// - Parameter function: the index of the function that the text belongs to; -1 for a rule.
    static func parse(_ text: String, function: Int32 = -1) throws(ExpressionError) -> Expression {
        var parser = try ExpressionParser(text, function)
        if case .end = parser.token.kind { throw ExpressionError(offset: 0, message: "Expected an expression.") }
        let expression = try parser.conditional()
        guard case .end = parser.token.kind else { throw parser.unexpected() }
        return expression
    }

    private init(_ text: String, _ function: Int32) throws(ExpressionError) {
        self.function = function
        lexer = Lexer(text)
        token = try lexer.next()
        tokenEnd = lexer.offset
    }

    // MARK: Tokens

    private mutating func advance() throws(ExpressionError) {
        lastEnd = tokenEnd
        token = try lexer.next()
        tokenEnd = lexer.offset
    }

    private func at(_ symbol: String) -> Bool { token.kind == .symbol(symbol) }

    private mutating func expect(_ symbol: String) throws(ExpressionError) {
        guard at(symbol) else { throw unexpected(expecting: symbol) }
        try advance()
    }

    private func unexpected(expecting symbol: String? = nil) -> ExpressionError {
        let suffix = symbol.map { " Expected '\($0)'." } ?? ""
        switch token.kind {
        case .end: return ExpressionError(offset: token.offset, message: "Unexpected end of expression." + suffix)
        case .symbol(let text), .identifier(let text): return ExpressionError(
            offset: token.offset, message: "Unexpected '\(text)'." + suffix)
        case .number: return ExpressionError(offset: token.offset, message: "Unexpected number." + suffix)
        case .string: return ExpressionError(offset: token.offset, message: "Unexpected string." + suffix)
        }
    }

    private func make(_ kind: Expression.Kind, at offset: Int, over children: [Expression] = []) throws(ExpressionError) -> Expression {
        var height = 0
        for child in children { height = max(height, child.height) }
        guard height < Expression.maxHeight else { throw tooDeep(offset) }
        let start = children.first.map { min(Int($0.span.start), offset) } ?? offset
        let span = Span(offset: Int32(offset), start: Int32(start), end: Int32(lastEnd), function: function)
        return Expression(kind: kind, span: span, height: height + 1)
    }

    private func tooDeep(_ offset: Int) -> ExpressionError {
        ExpressionError(offset: offset, message: "Expression is nested deeper than \(Expression.maxHeight) levels.")
    }

    private mutating func nested<R>(_ body: (inout ExpressionParser) throws(ExpressionError) -> R) throws(ExpressionError) -> R {
        nesting += 1
        defer { nesting -= 1 }
        guard nesting <= Expression.maxHeight else { throw tooDeep(token.offset) }
        return try body(&self)
    }

    // MARK: Operators

    private mutating func conditional() throws(ExpressionError) -> Expression {
        try nested { parser throws(ExpressionError) in
            let condition = try parser.binary(1)
            if parser.at("=") { throw ExpressionError(offset: condition.offset, message: "Rule expressions may not contain assignments.") }
            guard parser.at("?") else { return condition }
            try parser.advance()
            let yes = try parser.conditional()
            try parser.expect(":")
            let no = try parser.conditional()
            return try parser.make(.conditional(condition, yes, no), at: condition.offset, over: [condition, yes, no])
        }
    }

    private enum Binary {
        case any, all
        case comparison(Comparison)
        case arithmetic(Arithmetic)
    }

    private var binaryOperator: (precedence: Int, operation: Binary)? {
        guard case .symbol(let symbol) = token.kind else { return nil }
        switch symbol {
        case "||": return (1, .any)
        case "&&": return (2, .all)
        case "==", "===": return (3, .comparison(.equal))
        case "!=", "!==": return (3, .comparison(.notEqual))
        case "<", "<=", ">", ">=": return Comparison(rawValue: symbol).map { (4, .comparison($0)) }
        case "+", "-": return Arithmetic(rawValue: symbol).map { (5, .arithmetic($0)) }
        case "*", "/", "%": return Arithmetic(rawValue: symbol).map { (6, .arithmetic($0)) }
        default: return nil
        }
    }

    private mutating func binary(_ minimum: Int) throws(ExpressionError) -> Expression {
        var left = try unary()
        while let (precedence, operation) = binaryOperator, precedence >= minimum {
            let offset = left.offset
            switch operation {
            case .any, .all:
                var operands = [left]
                while let next = binaryOperator, next.precedence == precedence {
                    try advance()
                    operands.append(try binary(precedence + 1))
                }
                if case .any = operation {
                    left = try make(.any(operands), at: offset, over: operands)
                } else {
                    left = try make(.all(operands), at: offset, over: operands)
                }
            case .comparison(let comparison):
                try advance()
                let right = try binary(precedence + 1)
                left = try make(.comparison(comparison, left, right), at: offset, over: [left, right])
            case .arithmetic(let arithmetic):
                try advance()
                let right = try binary(precedence + 1)
                left = try make(.arithmetic(arithmetic, left, right), at: offset, over: [left, right])
            }
        }
        return left
    }

    private mutating func unary() throws(ExpressionError) -> Expression {
        let offset = token.offset
        guard at("!") || at("-") else { return try postfix() }
        let isNot = at("!")
        try advance()
        let operand = try nested { parser throws(ExpressionError) in try parser.unary() }
        return try make(isNot ? .not(operand) : .negate(operand), at: offset, over: [operand])
    }

    // MARK: Operands

    private mutating func postfix() throws(ExpressionError) -> Expression {
        var target = try primary()
        while case .symbol(let symbol) = token.kind {
            switch symbol {
            case ".":
                try advance()
                guard case .identifier(let name) = token.kind else { throw unexpected() }
                try advance()
                target = try make(.member(target, name), at: target.offset, over: [target])
            case "[":
                try advance()
                let index = try conditional()
                try expect("]")
                if case .literal(.string(let name)) = index.kind {
                    target = try make(.member(target, name.string), at: target.offset, over: [target])
                } else {
                    target = try make(.index(target, index), at: target.offset, over: [target, index])
                }
            case "(":
                try advance()
                let arguments = try list(until: ")")
                target = try make(.call(target, arguments), at: target.offset, over: [target] + arguments)
            default: return target
            }
        }
        return target
    }

    private mutating func list(until end: String) throws(ExpressionError) -> [Expression] {
        var items: [Expression] = []
        if !at(end) {
            items.append(try conditional())
            while at(",") {
                try advance()
                items.append(try conditional())
            }
        }
        try expect(end)
        return items
    }

    private mutating func primary() throws(ExpressionError) -> Expression {
        let offset = token.offset
        switch token.kind {
        case .number(let value):
            try advance()
            return try make(.literal(.number(value)), at: offset)
        case .string(let text):
            try advance()
            return try make(.literal(.string(text)), at: offset)
        case .identifier(let name):
            try advance()
            switch name {
            case "true": return try make(.literal(true), at: offset)
            case "false": return try make(.literal(false), at: offset)
            case "null": return try make(.literal(.null), at: offset)
            default: return try make(.variable(name), at: offset)
            }
        case .symbol("("):
            try advance()
            let inner = try conditional()
            try expect(")")
            let span = Span(offset: inner.span.offset, start: Int32(offset), end: Int32(lastEnd), function: function)
            return Expression(kind: inner.kind, span: span, height: inner.height)
        case .symbol("["):
            try advance()
            let elements = try list(until: "]")
            return try make(.array(elements), at: offset, over: elements)
        case .symbol("/"):
            let (pattern, ignoresCase) = try lexer.regex(at: offset)
            tokenEnd = lexer.offset
            try advance()
            return try make(.regex(pattern: pattern, ignoresCase: ignoresCase), at: offset)
        default: throw unexpected()
        }
    }
}
