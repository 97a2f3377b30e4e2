public import JSONTree

/// A write that the deletion of an account causes.
public struct AccountWrite: Sendable {
    public let path: Path
    /// The value to write; null removes.
    public let value: Node
    /// The place at or below the node that held the account's id; nil if a key names it.
    private let holder: Path?
    private let uid: Node

    /// Removes a place.
    public init(removing path: Path) { (self.path, value, holder, uid) = (path, .null, nil, .null) }

    fileprivate init(_ path: Path, _ rule: AccountRule, _ uid: Node) {
        (self.path, value, holder, self.uid) = (path, rule.replacement, rule.holder, uid)
    }

    /// Whether the write still applies: other writes may have changed the node since the search. O(depth)
    public func isDue(in root: Node) -> Bool { root.node(at: path).belongs(to: uid, by: holder) }
}

extension Node {
    /// Whether the node exists, and a place at or below it holds the id of an account.
    fileprivate func belongs(to uid: Node, by holder: Path?) -> Bool {
        guard let holder else { return exists }
        let leaf = node(at: holder)
        return !leaf.hasChildren && leaf.leaf == uid
    }
}

extension RuleSet {
    /// Whether deleting an account causes any writes.
    public var hasAccountRules: Bool { !program.accounts.isEmpty }
}

/// Finds the data of an account by the `.account` rules, one part at a time. Each part starts behind the last place found, in the tree at
/// that time. So nothing is stored between parts, and nothing is found twice.
///
/// A pure value, for work off the database queue. A wildcard other than the account's id ranges over every existing key.
public struct AccountSearch: Sendable {
    private let program: Program
    /// Nil if the id is not a legal key: then no place is named by it, but a leaf may hold it.
    private let key: Key?
    private let uid: Node
    /// The index of the current rule, and the last place it found.
    private var number = 0
    private var last: Path?

    public init(_ rules: RuleSet, of uid: String) {
        program = rules.program
        let key = Key(uid)
        self.key = key.isValid ? key : nil
        self.uid = .string(uid)
    }

    /// Whether the search is finished.
    public var isDone: Bool { number >= program.accounts.count }

    /// The next writes. O(keys that wildcards range over, behind the last place)
    /// - Parameter most: the most writes to return; at least 1.
    public mutating func next(in root: Node, atMost most: Int) -> [AccountWrite] {
        var found: [AccountWrite] = []
        while !isDone {
            var keys: [Key] = []
            search(program.accounts[number], root, 0, &keys, behind: last?.keys[...], max(1, most), &found)
            guard found.count < most else {
                last = found.last?.path
                return found
            }
            (number, last) = (number + 1, nil)
        }
        return found
    }

    /// - Parameters:
    ///   - place: the rule node for `node`.
    ///   - behind: the rest of the last place found; the search continues behind it. Nil searches everything.
    private func search(
        _ rule: AccountRule, _ node: Node, _ place: Int32, _ keys: inout [Key], behind: ArraySlice<Key>?, _ most: Int,
        _ found: inout [AccountWrite]
    ) {
        guard found.count < most, node.exists, place >= 0 else { return }
        guard keys.count < rule.segments.count else {
            guard behind == nil, node.belongs(to: uid, by: rule.holder) else { return }
            return found.append(AccountWrite(Path(keys), rule, uid))
        }
        let here = program.tables.places[Int(place)]
        func descend(_ key: Key, _ child: Node) {
            var rest: ArraySlice<Key>?
            if let behind, let first = behind.first {
                if key == first { rest = behind.dropFirst() }
            }
            let next: Int32
            if case .key = rule.segments[keys.count] {
                next = self.child(of: place, key)
            } else {
                // A literal key beside the wildcard has its own rules.
                next = here.literalCount > 0 && self.child(of: place, key) != here.wildcard ? -1 : here.wildcard
            }
            keys.append(key)
            search(rule, child, next, &keys, behind: rest, most, &found)
            keys.removeLast()
        }
        switch rule.segments[keys.count] {
        case .key(let key): descend(key, node.child(key))
        case .uid: if let key { descend(key, node.child(key)) }
        case .any:
            guard node.hasChildren else { return }
            // Starting from the first key in each part would be quadratic: a million keys take a thousand parts.
            for (key, child) in node.children.ascending(from: behind?.first) {
                if found.count >= most { return }
                descend(key, child)
            }
        }
    }

    private func child(of place: Int32, _ key: Key) -> Int32 {
        withUnsafePointer(to: key) { program.tables.child(of: place, TextCursor($0)) }
    }
}
