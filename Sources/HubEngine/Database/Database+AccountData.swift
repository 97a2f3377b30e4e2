import JSONTree
public import SecurityRules

/// The writes that the deletion of an account causes by the rules' `.account`.
///
/// ```
/// find ─► current tree: scanned in the background ─► up to N writes ─► accountData: those still due, as one commit
///   ▲                                                                                                     └ repeated ─┐
///   └────────────────────────── from behind the last one, until nothing more is found ◄─────────────────────────────┘
/// ```
/// After a crash it starts over and finds the writes that are left.
extension Database {
    /// Searches for the data of an account, in the background.
    /// - Parameters:
    ///   - search: the search returned by the call before; nil for the first call.
    ///   - most: writes to find at most; the next call continues after them.
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
