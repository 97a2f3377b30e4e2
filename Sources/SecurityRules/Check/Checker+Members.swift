import JSONTree

/// Members and indexes (rules contract §4.2).
extension Checker {
    func member(_ name: String, of target: Checked, _ span: Span) throws(ExpressionError) -> Checked {
        switch target.type {
        case .snapshot:
            if let method = Method(rawValue: name), method.isOfSnapshot { return .method(method, of: target) }
        case .string, .value, .auth:
            let term = target.term(at: span)
            if name == "length" { return .value(Term(kind: .length(term), span: span), .number) }
            if let method = Method(rawValue: name), !method.isOfSnapshot { return .method(method, of: target) }
            if target.type == .auth { return .value(Term(kind: .property(term, Key(name)), span: span), .auth) }
        case .query:
            if case .conditions = target { return try condition(name, below: .root, span) }
            if name == "where" { return .conditions }
            if let field = QueryField(rawValue: name) {
                return .value(Term(kind: .query(field), span: span), field.isFlag ? .boolean : .queryValue)
            }
        // A value of unknown type: the methods of strings, but not `length` (rules contract §14.1, C040).
        case .queryValue:
            if let method = Method(rawValue: name), !method.isOfSnapshot { return .method(method, of: target) }
            throw ExpressionError(at: span, message: "Invalid property access: target is not an object.")
        default: throw ExpressionError(at: span, message: "Invalid property access: target is not an object.")
        }
        let known = target.type == .query
            ? QueryField.allCases.map(\.rawValue) + ["where"] : Method.names(ofSnapshot: target.type == .snapshot)
        throw ExpressionError(at: span, message: "No such method/property '\(name)'.", unknown: name, among: known)
    }

    /// `query.where.author.uid`, and its equivalent `query.where['author/uid']`. Method names are ordinary names here.
    func condition(_ name: String, below path: Path, _ span: Span) throws(ExpressionError) -> Checked {
        guard let names = try? Path(parsing: name), !names.isRoot, path.depth + names.depth <= Path.maxDepth else {
            throw ExpressionError(at: span, message: "'\(name)' is no path of a condition.")
        }
        return .value(Term(kind: .condition(path.appending(names)), span: span), .queryValue)
    }

    /// `target[index]` with an index that is not a string literal: allowed only on `auth` and its members.
    func index(_ target: Expression, _ index: Expression, _ span: Span) throws(ExpressionError) -> Checked {
        let checked = try check(target)
        guard checked.type == .auth else { throw ExpressionError(at: span, message: "Invalid property access.") }
        let key = try check(index)
        guard key.type.isTextual || key.type.isOrderable else {
            throw ExpressionError(at: span, message: "Invalid property access.")
        }
        let term = Term(kind: .propertyIndex(checked.term(at: target.span), key.term(at: index.span)), span: span)
        return .value(term, .auth)
    }
}
