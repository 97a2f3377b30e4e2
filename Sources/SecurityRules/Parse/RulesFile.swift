import JSONTree

/// One node of a parsed rules file, before its expressions are parsed.
final class SourceNode {
    /// Byte offset of its opening brace.
    let offset: Int
    /// Whether its braces are empty.
    var isEmpty = false
    var rules: [RuleKind: SourceRule] = [:]
    var indexes: [String] = []
    /// Byte offset of the value of `.indexOn`.
    var indexOffset = 0
    /// The paths of the children's positions.
    var geoIndex: SourceGeoIndex?
    /// The bounds of `.count` for callers without an account.
    var countTerms: CountTerms?
    /// The messages sent to a client when the `.validate` or the `.write` here refuses.
    var messages: [RuleKind: LocatedString] = [:]
    /// An expression: whether a client's write here is accepted but not stored.
    var drop: SourceRule?
    /// The value written here when it is absent.
    var defaultValue: SourceDefault?
    /// What is removed with the node, or when it changes.
    var removes: [SourceRemoval] = []
    var copies: [SourceCopy] = []
    /// The inbox rows that follow from the node.
    var inboxes: [SourceInbox] = []
    var notifications: [SourceNotify] = []
    var webhooks: [SourceWebhook] = []
    var watches: [SourceWatch] = []
    /// When and how the node ends.
    var expiries: [SourceExpiry] = []
    var counts: [SourceCounter] = []
    /// The writes here when an account is deleted.
    var account: SourceAccount?
    /// How often one user may write here and below.
    var rate: SourceRate?
    var children: [(key: Key, node: SourceNode)] = []
    var wildcard: (name: LocatedString, node: SourceNode)?

    init(offset: Int) { self.offset = offset }
}

/// The value of a `.rate`.
struct SourceRate {
    let rate: WriteRate
    /// Byte offset of the value.
    let offset: Int
}

/// The value of a `.geoIndex`.
struct SourceGeoIndex {
    /// The paths of latitude and longitude below a child.
    let latitude: Path
    let longitude: Path
    /// The conditions and orders of queries with `near`: each is also an index as in `.indexOn`.
    var filters: [LocatedString] = []
    var orders: [LocatedString] = []
    /// Byte offset of the value.
    let offset: Int
}

/// The value of a `.default`.
struct SourceDefault {
    enum Value {
        case expression(LocatedString)
        /// JSON other than a string.
        case node(Node)
    }
    let value: Value
    /// Whether the child has this value at all times, whatever is sent.
    let isKept: Bool
    /// Byte offset of the value.
    let offset: Int
}

/// The expression of one rule.
struct SourceRule {
    enum Text {
        /// `true` or `false` without quotes.
        case constant(Bool)
        case expression(LocatedString)
    }
    let text: Text
    /// Byte offset of the value.
    let offset: Int

    var source: String {
        switch text {
        case .constant(let value): value ? "true" : "false"
        case .expression(let string): string.value
        }
    }
}

/// A key of the rules file that holds an expression.
public enum RuleKind: String, Sendable, Hashable, CaseIterable {
    case read = ".read"
    case write = ".write"
    case validate = ".validate"
    /// Whether the children of this place may be counted; decides instead of `.read`.
    case count = ".count"

    /// Whether it decides about reads and counts.
    var isOfReads: Bool { self == .read || self == .count }
}

/// Converts the JSON of a rules file into rule nodes and records every structural fault (rules contract §1.2, §1.3).
struct RulesFileReader {
    private(set) var errors: [LocatedError] = []
    /// Faults at keys of `UnsupportedKeys`. They are faults of a new file, but do not invalidate rules already in force.
    private(set) var unsupported: [LocatedError] = []
    /// In the order of the file.
    var functions: [SourceFunction] = []
    /// Whether an earlier version accepted the file: an `.expire` with a fault is treated as unsupported as a whole.
    var isInForce = false

    /// The deepest rule node: data is at most this deep.
    static let maxDepth = Path.maxDepth

    private static let forbiddenName = ##"String can't contain ".", "#", "$", "/", "[", or "]""##

    mutating func addError(_ offset: Int, _ message: String, hint: String? = nil) {
        errors.append(LocatedError(offset: offset, message: message, hint: hint))
    }

    /// Reads the top level: an object with `rules`, and optionally `functions`.
    mutating func read(_ json: LocatedJSON) -> SourceNode {
        guard case .object(let members) = json.value else {
            addError(json.offset, "Expected '{'.")
            return SourceNode(offset: json.offset)
        }
        var rules: LocatedJSON?
        var hasFunctions = false
        for member in members {
            if member.name.value == "rules", rules == nil {
                rules = member.value
            } else if member.name.value == "functions", !hasFunctions {
                hasFunctions = true
                readFunctions(member.value)
            } else if UnsupportedKeys.ofFile.contains(member.name.value) {
                addUnsupported(member.name)
            } else {
                addError(member.name.quote, "Expected 'rules' property.")
            }
        }
        guard let rules else {
            if errors.isEmpty { addError(json.offset + 1, "Expected 'rules' property.") }
            return SourceNode(offset: json.offset)
        }
        return node(rules, named: "rules", depth: 0)
    }

    mutating func addUnsupported(_ name: LocatedString) {
        unsupported.append(LocatedError(offset: name.quote, message: UnsupportedKeys.message(name.value)))
    }

    private mutating func node(_ json: LocatedJSON, named name: String, in parent: String = "", depth: Int) -> SourceNode {
        let node = SourceNode(offset: json.offset)
        guard case .object(let members) = json.value else {
            let hint = Self.missingDot(name) ?? (Self.objects.contains("." + parent) ? Self.missingDot(parent) : nil)
            errors.append(LocatedError(offset: json.offset, message: "Expected '{'.", hint: hint))
            return node
        }
        node.isEmpty = members.isEmpty
        guard depth <= Self.maxDepth else {
            addError(json.offset, "Rules are nested deeper than \(Self.maxDepth) levels.")
            return node
        }
        var seen: Set<Key> = []
        let (isWildcard, parent) = (name.hasPrefix("$"), name)
        var message: LocatedJSON.Member?
        for member in members {
            let name = member.name.value
            guard seen.insert(Key(name)).inserted else {
                addError(member.name.quote, "Duplicate key '\(name)'.")
                continue
            }
            switch name.utf8.first {
            // Read last: which rule it belongs to depends on the rules beside it.
            case UInt8(ascii: ".") where name == ".message": message = member
            case UInt8(ascii: "."): directive(member, node, isWildcard: isWildcard, depth: depth)
            case UInt8(ascii: "$"): wildcard(member, node, depth)
            default:
                guard Key(name).isValid else {
                    addError(member.name.quote, Self.forbiddenName)
                    continue
                }
                node.children.append((Key(name), self.node(member.value, named: name, in: parent, depth: depth + 1)))
            }
        }
        if let message { messages(message, node) }
        return node
    }

    /// The recognized keys of a place.
    private static let directives = RuleKind.allCases.map(\.rawValue)
        + [".indexOn", ".geoIndex", ".message", ".default", ".drop", ".removes", ".counts", ".copy", ".rate", ".account", ".expire",
            ".inbox", ".watch", ".notify", ".webhook"]
    /// The keys whose value may be an object.
    private static let objects: Set<String> = [
        ".count", ".geoIndex", ".message", ".default", ".removes", ".counts", ".copy", ".rate", ".account", ".expire", ".inbox",
        ".watch", ".notify", ".webhook",
    ]

    /// A hint for a directive written without its dot.
    static func missingDot(_ name: String) -> String? {
        return directives.contains("." + name) ? "did you mean '.\(name)'?" : nil
    }

    private mutating func wildcard(_ member: LocatedJSON.Member, _ node: SourceNode, _ depth: Int) {
        let name = member.name.value
        guard name.utf8.count > 1, Key(String(name.drop { $0 == "$" }) + "x").isValid else {
            addError(member.name.quote, Self.forbiddenName)
            return
        }
        if let other = node.wildcard {
            addError(member.name.quote, "Cannot have multiple default rules ('\(other.name.value)' and '\(name)').")
            return
        }
        node.wildcard = (member.name, self.node(member.value, named: name, depth: depth + 1))
    }

    private mutating func directive(_ member: LocatedJSON.Member, _ node: SourceNode, isWildcard: Bool, depth: Int) {
        let (name, json) = (member.name.value, member.value)
        switch name {
        case ".indexOn": indexes(json, node)
        case ".geoIndex": node.geoIndex = geoIndex(json)
        case ".count": count(json, node)
        case ".drop":
            guard depth > 0 else { return addError(member.name.quote, "A '.drop' stands below the root.") }
            node.drop = rule(json)
        case ".removes":
            guard depth > 0 else { return addError(member.name.quote, "A '.removes' stands below the root.") }
            removals(json, node)
        case ".counts": counters(json, node)
        case ".copy":
            guard depth > 0 else { return addError(member.name.quote, "A '.copy' stands below the root.") }
            copies(json, node)
        case ".inbox":
            guard depth > 0 else { return addError(member.name.quote, "An '.inbox' stands below the root.") }
            inboxes(json, node)
        case ".notify":
            guard depth > 0 else { return addError(member.name.quote, "A '.notify' stands below the root.") }
            notifications(json, node)
        case ".webhook":
            guard depth > 0 else { return addError(member.name.quote, "A '.webhook' stands below the root.") }
            webhooks(json, node)
        case ".watch":
            let known = errors.count
            if depth > 0 { watches(json, node) } else { addError(member.name.quote, "A '.watch' stands below the root.") }
            if ignoresErrors(since: known) { node.watches = [] }
        case ".account": node.account = account(member, isWildcard: isWildcard, depth: depth)
        case ".rate": node.rate = rate(json)
        case ".expire":
            let known = errors.count
            if depth > 0 { expiries(json, node) } else { addError(member.name.quote, "An '.expire' stands below the root.") }
            if ignoresErrors(since: known) { node.expiries = [] }
        case ".default": defaultValue(member, node, isWildcard: isWildcard, depth: depth)
        case _ where UnsupportedKeys.ofPlace.contains(name): addUnsupported(member.name)
        default:
            guard let kind = RuleKind(rawValue: name) else {
                let hint = Spelling.nearest(name, in: Self.directives).map { "did you mean '\($0)'?" }
                if case .object = json.value {
                    errors.append(LocatedError(offset: member.name.quote, message: Self.forbiddenName, hint: hint))
                } else {
                    let message = hint == nil ? "Expected '{'." : "Unknown key '\(name)'."
                    errors.append(LocatedError(offset: json.offset, message: message, hint: hint ?? "unknown key '\(name)'"))
                }
                return
            }
            node.rules[kind] = rule(json)
        }
    }

    /// Treats the errors of a key as unsupported, in rules that an earlier version accepted.
    private mutating func ignoresErrors(since known: Int) -> Bool {
        guard isInForce, errors.count > known else { return false }
        unsupported += errors[known...]
        errors.removeSubrange(known...)
        return true
    }

    mutating func rule(_ json: LocatedJSON) -> SourceRule? {
        switch json.value {
        case .bool(let value): return SourceRule(text: .constant(value), offset: json.offset)
        case .string(let text): return SourceRule(text: .expression(text), offset: json.offset)
        default:
            addError(json.offset, "Invalid rule expression.  Expected 'true', 'false', or an expression string.")
            return nil
        }
    }
}
