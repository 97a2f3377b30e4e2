import JSONTree

/// One `.account` rule: the writes that follow when an account is deleted.
struct AccountRule: Sendable {
    enum Segment: Sendable {
        case key(Key)
        /// Every existing key.
        case any
        /// The account's id.
        case uid
    }

    /// The place's segments from the root.
    let segments: [Segment]
    /// The place at or below the node that holds the account's id; nil if a key of the node's place is the id.
    let holder: Path?
    /// The value that replaces the node; null removes it.
    let replacement: Node

    /// - Parameter captured: the depth of the wildcard that holds the account's id; nil for none.
    init(_ pattern: Path, captured: Int?, holder: Path? = nil, replacement: Node = .null) {
        segments = pattern.keys.enumerated().map { level, key in
            level + 1 == captured ? .uid : key.string.hasPrefix("$") ? .any : .key(key)
        }
        (self.holder, self.replacement) = (holder, replacement)
    }
}

/// The value of an `.account` key in the file.
enum SourceAccount {
    /// `true`: the node's own key is the account's id.
    case own(offset: Int)
    /// `"$a"`, or a list of wildcards.
    case captures([LocatedString])
    /// `{"set": "deleted"}`: replaces the leaf that is the id; null removes it.
    case leaf(Node)
    /// `{"by": "author"}`: the node is removed if this place below it holds the id.
    case by(Path)
}

extension SourceAccount {
    /// Whether it changes a leaf that holds the id.
    var isOfLeaf: Bool { if case .leaf = self { true } else { false } }

    /// The rules that this `.account` declares at a place.
    /// - Parameter captures: wildcards in force, by name with the `$`, and the depth of each.
    func rules(at pattern: Path, captures: [String: Int]) -> [AccountRule] {
        switch self {
        case .own: [AccountRule(pattern, captured: pattern.depth)]
        case .captures(let names): names.compactMap { name in captures[name.value].map { AccountRule(pattern, captured: $0) } }
        case .leaf(let value): [AccountRule(pattern, captured: nil, holder: .root, replacement: value)]
        case .by(let path): [AccountRule(pattern, captured: nil, holder: path)]
        }
    }
}

extension RulesFileReader {
    /// Reads an `.account` member.
    /// - Parameter isWildcard: whether the rule node is a `$` place.
    mutating func account(_ member: LocatedJSON.Member, isWildcard: Bool, depth: Int) -> SourceAccount? {
        let json = member.value
        let message = "An '.account' is true, a wildcard such as \"$uid\", a list of these, {\"by\": \"author\"}, or "
            + "{\"set\": \"deleted\"}."
        guard depth > 0 else {
            addError(member.name.quote, "An '.account' stands below the root.")
            return nil
        }
        switch json.value {
        case .bool(true):
            guard isWildcard else {
                addError(
                    json.offset,
                    "'true' stands at a place such as \"$uid\", whose key is the account's id. Elsewhere name the wildcard.")
                return nil
            }
            return .own(offset: json.offset)
        case .string(let name): return .captures([name])
        case .array(let elements) where !elements.isEmpty:
            var names: [LocatedString] = []
            for element in elements {
                guard case .string(let name) = element.value else {
                    addError(element.offset, message)
                    return nil
                }
                guard !names.contains(where: { $0.value == name.value }) else {
                    addError(element.offset, "'\(name.value)' stands there twice.")
                    return nil
                }
                names.append(name)
            }
            return .captures(names)
        case .object(let members):
            guard members.count == 1, ["set", "by"].contains(members[0].name.value) else { break }
            if members[0].name.value == "by" {
                guard case .string(let text) = members[0].value.value, let path = try? Path(parsing: text.value), !path.isRoot else {
                    addError(members[0].value.offset, "'by' is a path below the node to the account's id, such as \"author/uid\".")
                    return nil
                }
                return .by(path)
            }
            switch members[0].value.value {
            case .null: return .leaf(.null)
            case .string(let text): return .leaf(.string(text.value))
            case .bool(let flag): return .leaf(.bool(flag))
            case .number(let number): return .leaf(number)
            default:
                addError(
                    members[0].value.offset,
                    "'set' is the text, number or boolean that stands there in the place of the account's id; null removes it.")
                return nil
            }
        default: break
        }
        addError(json.offset, message)
        return nil
    }
}
