import JSONTree

/// Places of the tree that a rules key names from the root: `timeline/$friend/{user}/*`.
struct PathTemplate: Sendable {
    enum Segment: Sendable {
        case key(Key)
        /// The key bound to a wildcard of the rules, by its depth.
        case capture(depth: Int)
        /// The value of a child of the node that declares the key.
        case value(Path)
        /// Every existing key: a new wildcard's name with the `$`, or nil for `*`.
        case every(name: String?)
        /// `+` or `+name`: the key generated for the node, and for the name (`GeneratedKey`).
        case generated(name: String)
    }

    let segments: [Segment]
    /// The text in the rules file.
    let text: String
}

extension PathTemplate {
    /// - Parameter captures: wildcards in force, by name with the `$`, and the depth of the rule node that declares each; in the place of a hit
    ///   also `{item}`.
    /// - Throws: the fault, at the segment that contains it.
    init(_ text: String, captures: [String: Int]) throws(ExpressionError) {
        var segments: [Segment] = []
        var names: Set<String> = []
        var offset = 0
        for part in try Self.parts(text) {
            func fault(_ message: String) -> ExpressionError { ExpressionError(offset: offset, message: message) }
            if part == "*" {
                segments.append(.every(name: nil))
            } else if part.hasPrefix("{"), let depth = captures[part] {
                segments.append(.capture(depth: depth))
            } else if part.hasPrefix("{"), part.firstIndex(of: "}") == part.index(before: part.endIndex) {
                let inner = String(part.dropFirst().dropLast())
                guard let path = try? Path(parsing: inner), !path.isRoot, !inner.contains(where: Self.hasMeaning) else {
                    throw fault("'\(part)' is no child of the node: such as {author/uid}.")
                }
                segments.append(.value(path))
            } else if part.hasPrefix("+") {
                let name = String(part.dropFirst())
                guard name.utf8.allSatisfy(Self.isOfName) else {
                    throw fault("A generated key is '+', or '+' with a name such as '+likes'.")
                }
                segments.append(.generated(name: name))
            } else if captures[part] == nil, part.hasPrefix("$") ? !Self.isWildcard(part) : part.contains(where: Self.hasMeaning) {
                // Otherwise it would be read as a new wildcard or as a literal key.
                throw fault("'\(part)' is made of parts. A segment of a place is a key, a wildcard such as $id, a {child} or *.")
            } else if part.hasPrefix("$") {
                if let depth = captures[part] {
                    segments.append(.capture(depth: depth))
                } else {
                    guard names.insert(part).inserted else { throw fault("'\(part)' ranges over keys, and can do so once.") }
                    segments.append(.every(name: part))
                }
            } else {
                guard Key(part).isValid else { throw fault("'\(part)' cannot be a key of data.") }
                segments.append(.key(Key(part)))
            }
            offset += part.utf8.count + 1
        }
        guard !segments.isEmpty else { throw ExpressionError(offset: 0, message: "Expected a place such as \"comments/$post\".") }
        guard segments.count <= Path.maxDepth else {
            throw ExpressionError(offset: 0, message: "Data is at most \(Path.maxDepth) levels deep.")
        }
        self.segments = segments
        self.text = text
    }

    /// Whether a child's name looks like a template, with a segment such as `{author}`.
    static func isMeant(by name: String) -> Bool {
        name.split(separator: "/").contains { $0.hasPrefix("{") && $0.hasSuffix("}") }
    }

    /// Whether places of two templates can be equal, or one above the other.
    /// - Parameter isSameNode: whether both belong to the same rule node; generated keys of different nodes are never equal.
    func mayMeet(_ other: PathTemplate, isSameNode: Bool) -> Bool {
        zip(segments, other.segments).allSatisfy { a, b in
            switch (a, b) {
            case (.key(let a), .key(let b)): a == b
            case (.generated(let a), .generated(let b)): isSameNode && a == b
            case (.generated, .key), (.key, .generated): false
            default: true
            }
        }
    }

    var hasGeneratedKey: Bool { segments.contains { if case .generated = $0 { true } else { false } } }

    /// - Throws: if a key is generated, where no node's own place can tell it.
    func refusingGeneratedKeys() throws(ExpressionError) -> PathTemplate {
        guard !hasGeneratedKey else {
            throw ExpressionError(offset: 0, message: "A generated key ('+') stands in 'to' of copies and rows, and in '.removes'.")
        }
        return self
    }

    private static func hasMeaning(_ character: Character) -> Bool { "${}*".contains(character) }

    /// Whether it is a wildcard's name, by the syntax of expressions.
    private static func isWildcard(_ part: String) -> Bool {
        part.utf8.count > 1 && part.utf8.dropFirst().allSatisfy(isOfName)
    }

    private static func isOfName(_ byte: UInt8) -> Bool {
        byte == UInt8(ascii: "_") || (0x30...0x39).contains(byte) || (0x61...0x7A).contains(byte | 0x20)
    }

    /// Splits at slashes outside braces.
    private static func parts(_ text: String) throws(ExpressionError) -> [String] {
        var parts: [String] = []
        var part = ""
        var isInBraces = false
        var offset = 0
        for scalar in text.unicodeScalars {
            switch scalar {
            case "{": isInBraces = true
            case "}": isInBraces = false
            default: break
            }
            if scalar == "/", !isInBraces {
                guard !part.isEmpty else {
                    let hint = offset == 0 ? " It is written without the first /." : ""
                    throw ExpressionError(offset: offset, message: "A segment of the place is empty." + hint)
                }
                parts.append(part)
                part = ""
            } else {
                part.unicodeScalars.append(scalar)
            }
            offset += UTF8.width(scalar)
        }
        if isInBraces { throw ExpressionError(offset: offset, message: "Expected '}'.") }
        guard text.isEmpty || !part.isEmpty else { throw ExpressionError(offset: offset, message: "A segment of the place is empty.") }
        if !part.isEmpty { parts.append(part) }
        return parts
    }
}
