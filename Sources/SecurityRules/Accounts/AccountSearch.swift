public import JSONTree

/// A write that the deletion of an account causes.
public struct AccountWrite: Sendable {
    public let path: Path
    /// What is put in the place of the account's id; nil removes what is there.
    public let replacement: Node?
    /// What was found.
    fileprivate let uid: Node

    /// The removal of a place.
    public init(removing path: Path) { self.init(path, nil, .null) }

    fileprivate init(_ path: Path, _ replacement: Node?, _ uid: Node) { (self.path, self.replacement, self.uid) = (path, replacement, uid) }

    /// What is stored.
    public var value: Node { replacement ?? .null }

    /// Whether it still is to be made: others may have written since it was found. O(depth)
    public func isDue(in root: Node) -> Bool {
        let node = root.node(at: path)
        return replacement == nil ? node.exists : !node.hasChildren && node.leaf == uid
    }
}

extension RuleSet {
    /// Whether anything follows from the deletion of an account.
    public var hasAccountRules: Bool { !program.accounts.isEmpty }
}

/// Finds what belongs to an account by the rules' `.account`, a part at a time: each part is looked for behind the last one, in the tree
/// of then. So nothing has to be kept while what was found is written, and nothing is found twice.
///
/// A pure value, for work beside the database queue: a wildcard that is not the account's id is every key that exists there.
public struct AccountSearch: Sendable {
    private let program: Program
    /// Nil for an id that cannot be a key: no place is named by it, but a leaf may hold it.
    private let key: Key?
    private let uid: Node
    /// The rule that is looked at, and the last place that was found by it.
    private var number = 0
    private var last: Path?

    public init(_ rules: RuleSet, of uid: String) {
        program = rules.program
        let key = Key(uid)
        self.key = key.isValid ? key : nil
        self.uid = .string(uid)
    }

    /// Whether there is nothing more.
    public var isDone: Bool { number >= program.accounts.count }

    /// The next writes. O(keys that wildcards range over, behind the last one)
    /// - Parameter most: of them; at least 1.
    public mutating func next(in root: Node, atMost most: Int) -> [AccountWrite] {
        var found: [AccountWrite] = []
        while !isDone {
            var keys: [Key] = []
            look(program.accounts[number], root, 0, &keys, behind: last?.keys[...], max(1, most), &found)
            guard found.count < most else {
                last = found.last?.path
                return found
            }
            (number, last) = (number + 1, nil)
        }
        return found
    }

    /// - Parameters:
    ///   - place: the place of the rules that the node is at.
    ///   - behind: the rest of the place behind which is looked; nil for everything.
    private func look(
        _ rule: AccountRule, _ node: Node, _ place: Int32, _ keys: inout [Key], behind: ArraySlice<Key>?, _ most: Int,
        _ found: inout [AccountWrite]
    ) {
        guard found.count < most, node.exists, place >= 0 else { return }
        guard keys.count < rule.segments.count else {
            guard behind == nil, rule.replacement == nil || !node.hasChildren && node.leaf == uid else { return }
            return found.append(AccountWrite(Path(keys), rule.replacement, uid))
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
                // What the file names beside a wildcard has rules of its own.
                next = here.literalCount > 0 && self.child(of: place, key) != here.wildcard ? -1 : here.wildcard
            }
            keys.append(key)
            look(rule, child, next, &keys, behind: rest, most, &found)
            keys.removeLast()
        }
        switch rule.segments[keys.count] {
        case .key(let key): descend(key, node.child(key))
        case .uid: if let key { descend(key, node.child(key)) }
        case .any:
            guard node.hasChildren else { return }
            // Not from the first one again: a million keys have a thousand parts.
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
