import JSONTree

/// The known part of a value, or of the content of a place.
indirect enum PartialValue {
    /// Null, or an empty place.
    case nothing
    case leaf(Node)
    case number
    /// Unknown children.
    case object
    /// Exactly these children.
    case children([Key: PartialValue])
    /// Any value but null.
    case something
    case anything
    /// Evaluating it always fails.
    case failure

    static func constant(_ node: Node) -> PartialValue { node.exists ? .leaf(node) : .nothing }

    var exists: Bool? {
        switch self {
        case .nothing: false
        case .anything, .failure: nil
        case .leaf, .number, .object, .something: true
        // A node without children does not exist.
        case .children(let all) where all.values.contains(where: { $0.exists == true }): true
        case .children(let all): all.values.allSatisfy { $0.exists == false } ? false : nil
        }
    }

    var hasChildren: Bool? {
        switch self {
        case .nothing, .leaf, .number: false
        case .object: true
        case .children: exists
        case .something, .anything, .failure: nil
        }
    }

    func `is`(_ kind: LeafKind) -> Bool? {
        switch self {
        case .nothing, .object, .children: false
        case .number: kind == .number
        case .leaf(let node):
            switch node {
            case .string: kind == .string
            case .bool: kind == .boolean
            default: kind == .number
            }
        case .something, .anything, .failure: nil
        }
    }

    /// Whether it can be an operand of an operation on strings.
    var canBeText: Bool {
        switch self {
        case .leaf(.string), .object, .children, .something, .anything: true
        case .nothing, .leaf, .number, .failure: false
        }
    }

    func below(_ names: ArraySlice<String>) -> PartialValue {
        guard let name = names.first else { return self }
        switch self {
        case .nothing, .leaf, .number: return .nothing
        case .object, .something, .anything, .failure: return .anything
        case .children(let all): return (all[Key(name)] ?? .nothing).below(names.dropFirst())
        }
    }
}
