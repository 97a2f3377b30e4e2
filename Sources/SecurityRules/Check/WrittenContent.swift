import JSONTree

/// The known part of a written place's content.
indirect enum WrittenContent {
    case nothing
    case leaf(Node)
    case number
    /// Unknown children.
    case object
    /// Exactly these children.
    case children([Key: WrittenContent])
    case something
    case anything

    var exists: Bool? {
        switch self {
        case .nothing: false
        case .anything: nil
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
        case .something, .anything: nil
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
        case .something, .anything: nil
        }
    }

    /// The result of `val()` on it.
    var value: PossibleOutcomes.Known {
        switch self {
        case .nothing: .null
        case .leaf(let node): .constant(node)
        case .number: .number
        case .object, .something: .something
        case .children, .anything: .anything
        }
    }

    func below(_ names: ArraySlice<String>) -> WrittenContent {
        guard let name = names.first else { return self }
        switch self {
        case .nothing, .leaf, .number: return .nothing
        case .object, .something, .anything: return .anything
        case .children(let all): return (all[Key(name)] ?? .nothing).below(names.dropFirst())
        }
    }
}
