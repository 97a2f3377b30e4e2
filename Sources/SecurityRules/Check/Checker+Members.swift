import JSONTree

/// Members and indexes (rules contract §4.2).
extension Checker {
    func member(_ name: String, of target: Checked, _ offset: Int) throws(ExpressionError) -> Checked {
        switch target.type {
        case .snapshot:
            if let method = Method(rawValue: name), method.isOfSnapshot { return .method(method, of: target) }
        case .string, .value, .auth:
            let term = target.term(at: offset)
            if name == "length" { return .value(Term(kind: .length(term), offset: offset), .number) }
            if let method = Method(rawValue: name), !method.isOfSnapshot { return .method(method, of: target) }
            if target.type == .auth { return .value(Term(kind: .property(term, Key(name)), offset: offset), .auth) }
        case .query:
            if let field = QueryField(rawValue: name) {
                return .value(Term(kind: .query(field), offset: offset), field.isFlag ? .boolean : .queryValue)
            }
        default: throw ExpressionError(offset: offset, message: "Invalid property access: target is not an object.")
        }
        throw ExpressionError(offset: offset, message: "No such method/property '\(name)'.")
    }

    /// `target[index]` where the index is no string literal: only `auth` and what is below it can be asked so.
    func index(_ target: Expression, _ index: Expression, _ offset: Int) throws(ExpressionError) -> Checked {
        let checked = try check(target)
        guard checked.type == .auth else { throw ExpressionError(offset: offset, message: "Invalid property access.") }
        let key = try check(index)
        guard key.type.isTextual || key.type.isOrderable else {
            throw ExpressionError(offset: offset, message: "Invalid property access.")
        }
        let term = Term(kind: .propertyIndex(checked.term(at: target.offset), key.term(at: index.offset)), offset: offset)
        return .value(term, .auth)
    }
}
