/// A function beside the rules, before its body is parsed: `"active(u)": "root.child(u).exists()"`.
struct SourceFunction {
    let name: String
    let parameters: [String]
    let key: LocatedString
    let body: LocatedString
}

extension RulesFileReader {
    /// Reads the `functions` object of the file.
    mutating func readFunctions(_ json: LocatedJSON) {
        guard case .object(let members) = json.value else { return addError(json.offset, "Expected '{'.") }
        guard members.count <= RulesLimits.functions else {
            return addError(members[RulesLimits.functions].name.quote, "At most \(RulesLimits.functions) functions.")
        }
        for member in members {
            guard case .string(let body) = member.value.value else {
                addError(member.value.offset, "Expected the expression of the function, a string.")
                continue
            }
            guard let (name, parameters) = Self.head(member.name.value) else {
                addError(member.name.quote, "Expected a function such as 'isFriend(a, b)'.")
                continue
            }
            let reserved = [name] + parameters
            if let word = reserved.first(where: { Self.reservedNames.contains($0) }) {
                addError(member.name.quote, "'\(word)' has a meaning already.")
            } else if Set(reserved).count < reserved.count {
                addError(member.name.quote, "A function and its parameters have different names.")
            } else if functions.contains(where: { $0.name == name }) {
                addError(member.name.quote, "Duplicate function '\(name)'.")
            } else {
                functions.append(SourceFunction(name: name, parameters: parameters, key: member.name, body: body))
            }
        }
    }

    /// Reserved words of the language, including those of expressions outside rules.
    private static let reservedNames: Set<String> = Set(
        Checker.variables + Checker.functionNames + ["true", "false", "null", "each", "item", "written", "firing", "distance", "file"])

    /// The name and the parameters of `name(a, b)`.
    private static func head(_ text: String) -> (name: String, parameters: [String])? {
        var lexer = Lexer(text)
        var tokens: [Token.Kind] = []
        while let token = try? lexer.next(), tokens.count < 100 {
            if case .end = token.kind { break }
            tokens.append(token.kind)
        }
        guard tokens.count >= 3, case .identifier(let name) = tokens[0], !name.hasPrefix("$"), tokens[1] == .symbol("("),
            tokens[tokens.count - 1] == .symbol(")"), lexer.offset == text.utf8.count
        else { return nil }
        var parameters: [String] = []
        for (i, token) in tokens[2..<tokens.count - 1].enumerated() {
            if i % 2 == 1 {
                guard token == .symbol(",") else { return nil }
            } else {
                guard case .identifier(let parameter) = token, !parameter.hasPrefix("$") else { return nil }
                parameters.append(parameter)
            }
        }
        return tokens.count == 3 || tokens.count % 2 == 0 ? (name, parameters) : nil
    }
}
