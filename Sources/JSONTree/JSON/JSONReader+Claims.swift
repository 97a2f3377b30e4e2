extension JSONReader {
    /// Any JSON as a node whose names need not be legal keys, such as the claims of a token. Arrays become objects.
    public mutating func claims(nesting: Int = 0) throws(JSONError) -> Node {
        let start = offset
        guard nesting <= Path.maxDepth else { throw .tooDeep(offset: start) }
        switch try peek() {
        case .object:
            var children: [(Key, Node)] = []
            try beginObject()
            while let name = try nextName() { children.append((Key(name), try claims(nesting: nesting + 1))) }
            return .object(children)
        case .array:
            var children: [(Key, Node)] = []
            try beginArray()
            while try nextElement() { children.append((Key(index: children.count), try claims(nesting: nesting + 1))) }
            return .object(children)
        case .string: return .string(try string())
        case .number: return try number()
        case .bool: return .bool(try bool())
        case .null:
            try null()
            return .null
        }
    }
}
