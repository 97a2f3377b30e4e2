public import JSONTree

/// Inbox rows that a commit leaves pending, to be written in commits of their own. It holds everything about them except the recipients,
/// which are found off the queue in the tree after that commit.
public struct ContinuedRows: Sendable, Equatable {
    /// Stands for the recipient's key; not a legal key of data.
    static let wildcard = Key("$")

    /// The rule's name, such as `/news/$k.inbox`, and the index among the inboxes there.
    public let rule: String
    let number: Int
    /// The node that they follow from.
    public let source: Path
    /// The places of the sets.
    let each: Path
    /// The keys of which a set must have one, ascending; nil accepts any set.
    let members: [Key]?
    /// The excluded recipients.
    let not: Set<Key>
    /// Whether the rule has an `if`.
    let hasFilter: Bool
    let to: Path
    public let value: Node
    /// ms since the epoch: the time of the commit.
    let now: Int64

    /// The place of the rows, with `$` for the recipient: `/inbox/$/k`.
    public var places: Path { to }

    /// The number of leading keys that all rows share.
    public var sharedDepth: Int { to.keys.firstIndex(of: Self.wildcard) ?? to.depth }

    /// The place of a recipient's row.
    public func place(of key: Key) -> Path { Path(to.keys.lazy.map { $0 == Self.wildcard ? key : $0 }) }

    /// Whether a key is a recipient, apart from the rule's `if`. O(depth + `members`)
    func reaches(_ key: Key, in tree: Node) -> Bool {
        if not.contains(key) { return false }
        var set = tree
        for segment in each.keys { set = set.child(segment == Self.wildcard ? key : segment) }
        guard let members else { return set.exists }
        return set.hasChildren && members.contains { set.child($0).exists }
    }

    /// The fault reported when the rules no longer have the `if` that selects the recipients.
    public var lost: ConsequenceFault { ConsequenceFault(reason: .failed, rule: rule, path: source) }

    // MARK: Storage

    /// The form in which it is stored beside the tree.
    public var terms: Node {
        func list(_ keys: [Key]) -> Node { .object(keys.enumerated().map { (Key(index: $0), Node.string($1.string)) }) }
        let children: [(Key, Node)] = [
            ("any", members.map { list($0) } ?? Node.null), ("asks", Node.bool(hasFilter)), ("each", Node.string(each.relativeText)),
            ("not", list(not.sorted())), ("now", Node.int(now)), ("number", Node.int(Int64(number))), ("rule", Node.string(rule)),
            ("source", Node.string(source.relativeText)), ("to", Node.string(to.relativeText)), ("value", value),
        ]
        return .object(children.filter { $0.1.exists })
    }

    /// Nil for terms that no hub has stored.
    public init?(_ terms: Node) {
        func text(_ name: Key) -> String? { if case .string(let text) = terms.child(name) { text.string } else { nil } }
        func int(_ name: Key) -> Int64? { if case .int(let number) = terms.child(name) { number } else { nil } }
        func path(_ name: Key) -> Path? { text(name).map { Path(relative: $0) } }
        func keys(_ name: Key) -> [Key] {
            terms.child(name).children.compactMap { if case .string(let text) = $1 { Key(text.string) } else { nil } }
        }
        guard let rule = text("rule"), let number = int("number"), let source = path("source"), let each = path("each"),
            let to = path("to"), let now = int("now")
        else { return nil }
        (self.rule, self.number, self.source, self.each, self.to, self.now) = (rule, Int(clamping: number), source, each, to, now)
        members = terms.child("any").exists ? keys("any") : nil
        (not, hasFilter, value) = (Set(keys("not")), terms.child("asks") == true, terms.child("value"))
    }

    init(
        rule: String, number: Int, source: Path, each: Path, members: [Key]?, not: Set<Key>, hasFilter: Bool, to: Path, value: Node,
        now: Int64
    ) {
        (self.rule, self.number, self.source, self.each, self.members, self.not) = (rule, number, source, each, members, not)
        (self.hasFilter, self.to, self.value, self.now) = (hasFilter, to, value, now)
    }
}

extension RuleSet {
    /// The recipients of the rows, ascending. O(keys that the wildcard of `each` ranges over)
    /// - Parameter tree: the tree after the commit that left them pending.
    /// - Returns: nil if the rows have an `if` and the rules no longer contain their `.inbox`.
    public func reached(by rows: ContinuedRows, in tree: Node) -> [Key]? {
        var condition: Int32 = -1
        if rows.hasFilter {
            let place = program.details.first { "\($0.pattern)\(ConsequenceKind.inbox.rawValue)" == rows.rule }
            guard let inbox = place?.inboxes.first(where: { $0.number == rows.number }), inbox.condition >= 0,
                inbox.nodeDepth == rows.source.depth
            else { return nil }
            condition = inbox.condition
        }
        let depth = rows.each.keys.firstIndex(of: ContinuedRows.wildcard) ?? 0
        let all = tree.node(at: Path(rows.each.keys.prefix(depth)))
        var reached: [Key] = []
        for (key, _) in all.children where rows.reaches(key, in: tree) {
            if condition < 0 || holds(condition, rows, key, tree) { reached.append(key) }
        }
        return reached
    }

    private func holds(_ condition: Int32, _ rows: ContinuedRows, _ key: Key, _ tree: Node) -> Bool {
        Evaluator.run(program, old: tree, new: tree, auth: Self.hubAuth, now: rows.now, query: nil) { evaluator in
            evaluator.textWork = min(evaluator.textWork, RulesLimits.rowTextWork)
            return (rows.source.keys + [key]).withUnsafeBufferPointer { keys in
                evaluator.descend(keys)
                do throws(Fault) { return try evaluator.boolean(condition) } catch { return false }
            }
        }
    }
}
