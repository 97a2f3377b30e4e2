extension JSONReader {
    /// Parses any JSON into a node whose names need not be legal keys, such as the claims of a token. Arrays become objects.
    /// - Parameter allowance: bounds the node's memory; nil for no bound.
    public mutating func claims(nesting: Int = 0, allowance: NodeAllowance? = nil) throws(JSONError) -> Node {
        let start = offset
        func pay(_ bytes: Int) throws(JSONError) {
            if let allowance, !allowance.charge(bytes) { throw .overBudget(offset: start) }
        }
        guard nesting <= Path.maxDepth else { throw .tooDeep(offset: start) }
        switch try peek() {
        case .object:
            var children: [(Key, Node)] = []
            try beginObject()
            try pay(NodeCost.object)
            while let name = try nextName() {
                guard name.utf8.count <= Key.maxBytes else { throw .invalidKey(String(name.prefix(64)), offset: nameOffset) }
                try pay(NodeCost.collected + 2 * NodeCost.text(name.utf8.count))
                children.append((Key(name), try claims(nesting: nesting + 1, allowance: allowance)))
            }
            return .object(children)
        case .array:
            var children: [(Key, Node)] = []
            try beginArray()
            try pay(NodeCost.object)
            while try nextElement() {
                try pay(NodeCost.collected)
                children.append((Key(index: children.count), try claims(nesting: nesting + 1, allowance: allowance)))
            }
            return .object(children)
        case .string:
            let text = try string()
            try pay(NodeCost.text(text.utf8.count))
            return .string(text)
        case .number: return try number()
        case .bool: return .bool(try bool())
        case .null:
            try null()
            return .null
        }
    }
}
