import JSONTree
public import SecurityRules

/// What the deletion of an account causes by the rules' `.account`.
///
/// ```
/// find ─► tree of now: looked through in the background ─► so many writes ─► accountData: those that are due still, as one commit
///   ▲                                                                                                        └ and so on ─┐
///   └────────────────────────────── behind the last one, until nothing more is found ◄──────────────────────────────────┘
/// ```
/// Done again from its beginning after a kill, it finds what is left.
extension Database {
    /// Looks for what belongs to an account, beside the queue.
    /// - Parameters:
    ///   - search: that of the call before; nil at first.
    ///   - most: writes to be found; the next call goes on behind them.
    ///   - done: called on any queue.
    public func findAccountData(
        _ search: AccountSearch?, of uid: String, atMost most: Int, _ done: @escaping @Sendable ([AccountWrite], AccountSearch) -> Void
    ) {
        queue.async { [engine] in
            let (search, root) = (search ?? AccountSearch(engine.content.rules, of: uid), engine.content.root)
            if search.isDone { return done([], search) }
            engine.context.background.run(.upkeep) {
                var search = search
                let found = search.next(in: root, atMost: most)
                done(found, search)
            }
        }
    }
}

extension [AccountWrite] {
    /// The writes of a commit: those that are due in a tree, in their order, and none below the removal of another. O(count · depth)
    func due(in root: Node) -> [TreeWrite] {
        let removed = Set(lazy.filter { $0.replacement == nil }.map(\.path))
        var made: Set<Path> = []
        return compactMap { write in
            guard write.isDue(in: root), made.insert(write.path).inserted else { return nil }
            var above = write.path
            while !above.isRoot {
                above = above.parent
                if removed.contains(above) { return nil }
            }
            return TreeWrite(write.path, WriteValue(write.value))
        }
    }
}
